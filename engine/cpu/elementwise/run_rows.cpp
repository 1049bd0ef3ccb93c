// Rows that are run together (ops/elementwise/row_program.h): every thread takes tiles of all
// operands through all steps, so that what is between them never leaves the first caches.
#include <algorithm>
#include <cstring>

#include "engine/base/memory.h"
#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/program.h"
#include "engine/cpu/elementwise/run.h"

namespace tycho {
namespace {

using namespace cpu;

constexpr int64_t kElements = 1024;  // of a tile
constexpr int64_t kGrain = 32768;
constexpr int64_t kStreamBytes = 32 << 20;

// Where a step reads and writes: every tile that a thread needs, by number.
struct Plan {
  RowFn fn[RowProgram::kMostSteps];
  bool plain[RowProgram::kMostSteps];    // the result's type is the lanes'
  bool read[RowProgram::kMostSteps];     // by a later step
  int8_t piece[RowProgram::kMostSteps];  // where an end's piece is, or -1
  int pieces = 0;
  int16_t to[RowProgram::kMostSteps];               // a tile, or -1: memory
  int16_t from[RowProgram::kMostSteps][kOperands];  // of numbers: a tile
  int16_t loaded[RowProgram::kMostInputs];          // the tile of an input
  struct Number {
    double value;
    int16_t tile;
  };
  Number number[RowProgram::kMostSteps * kOperands];
  int numbers = 0, tiles = 0;
  int16_t narrow = -1;  // what a step computed, in its own type

  // Tiles begin at multiples of it, so that repeated operands are read in place.
  int64_t period = kElements;

  // Results are written past the caches (as in run.cpp), from tiles.
  const bool stream;

  explicit Plan(const RowProgram& p)
      : stream(p.inputs > 1 && p.numel * dtype_size(p.lanes) >= kStreamBytes) {
    const bool f32 = p.lanes == DType::Float32;
    for (int i = 0; i < p.inputs; ++i) {
      const RowProgram::Input& in = p.input[i];
      const bool whole = in.count == p.numel;
      loaded[i] = static_cast<int16_t>(whole && in.dtype == p.lanes ? -1 : tiles++);
      if (!whole && period == kElements) period = in.inner > 1 ? in.inner : in.count;
    }
    if (period < kElements) period = kElements / period * period;
    int last[RowProgram::kMostSteps] = {};  // the last step that reads each step's result
    for (int k = 0; k < p.steps; ++k) {
      read[k] = false;
      for (int j = 0; j < p.step[k].n; ++j) {
        const RowProgram::Operand& o = p.step[k].operand[j];
        if (o.from == RowProgram::From::Step) last[o.index] = k, read[o.index] = true;
        if (o.from == RowProgram::From::Number) from[k][j] = tile_of(o.number);
      }
    }
    // A tile is free again after the last step that reads it.
    int16_t free[RowProgram::kMostSteps];
    int n = 0;
    for (int k = 0; k < p.steps; ++k) {
      fn[k] = f32 ? level_of::row_f32(p.step[k].row) : level_of::row_f64(p.step[k].row);
      plain[k] = p.step[k].type == p.lanes;
      to[k] = piece[k] = -1;
      for (int i = 0; i < p.ends && !p.step[k].to && piece[k] < 0; ++i)
        if (p.end[i]->step == k) piece[k] = static_cast<int8_t>(pieces++);
      const bool leaves = p.step[k].to ? !stream : piece[k] >= 0;
      if (!plain[k] && narrow < 0) narrow = static_cast<int16_t>(tiles++);
      if (!plain[k] || !leaves) to[k] = n ? free[--n] : static_cast<int16_t>(tiles++);
      for (int i = 0; i < k; ++i)
        if (last[i] == k && to[i] >= 0) free[n++] = to[i];
      if (!read[k] && to[k] >= 0) free[n++] = to[k];
    }
  }

 private:
  int16_t tile_of(double value) {
    for (int i = 0; i < numbers; ++i)
      if (std::bit_cast<uint64_t>(number[i].value) == std::bit_cast<uint64_t>(value))
        return number[i].tile;
    number[numbers] = {value, static_cast<int16_t>(tiles)};
    ++numbers;
    return static_cast<int16_t>(tiles++);
  }
};

// A thread's tiles. A load waits for a store before it whose address ends in the same 12 bits: where all
// that a row reads and writes lies at the same place within a page, as `like`, none does.
struct Room {
  static constexpr uintptr_t kPage = 4096;
  size_t bytes;
  char *block, *memory;
  Room(size_t n, const char* like) : bytes(n + kPage), block(static_cast<char*>(allocate(bytes))) {
    TYCHO_CHECK(Kind::Oom, block, "out of memory: %zu bytes for tiles", n);
    const auto place = [](const char* p) { return reinterpret_cast<uintptr_t>(p) & ~uintptr_t{63}; };
    memory = block + (place(like) - place(block)) % kPage;
  }
  ~Room() { release(block, bytes); }
  Room(const Room&) = delete;
};

// Elements [at, at + m) of a program, of one operand that repeats.
void load_repeated(const RowProgram::Input& in, int lanes, int lane_bytes, char* tile, int64_t at,
                   int64_t m) {
  const int bytes = dtype_size(in.dtype), dtype = static_cast<int>(in.dtype);
  if (in.inner > 1) {
    int64_t place = at / in.inner % in.count, left = in.inner - at % in.inner;
    for (int64_t done = 0; done < m; done += left, left = in.inner, ++place) {
      left = std::min(left, m - done);
      if (place == in.count) place = 0;
      level_of::load_tile(lanes, dtype, tile + done * lane_bytes, in.data + place * bytes, 0, left);
    }
    return;
  }
  const int64_t place = at % in.count, head = std::min(m, in.count - place);
  level_of::load_tile(lanes, dtype, tile, in.data + place * bytes, 1, head);
  if (head == m) return;
  int64_t done = std::min(m, in.count);
  if (done > head)
    level_of::load_tile(lanes, dtype, tile + head * lane_bytes, in.data, 1, done - head);
  while (done < m) {  // whole rounds, so twice as many each time
    const int64_t more = std::min(done, m - done);
    std::memcpy(tile + done * lane_bytes, tile, static_cast<size_t>(more * lane_bytes));
    done += more;
  }
}

void run_tiles(const RowProgram& p, const Plan& plan, int64_t begin, int64_t end) {
  const int lanes = static_cast<int>(p.lanes == DType::Float32 ? Lanes::F32 : Lanes::F64);
  const int bytes = dtype_size(p.lanes);
  const int64_t tiles = plan.tiles * kElements, unit = p.ends ? p.end[0]->unit : p.numel,
                piece = p.ends ? p.end[0]->piece : p.numel,
                room_of_piece = (piece + kElements - 1) / kElements * kElements;
  const Room room(static_cast<size_t>((tiles + plan.pieces * room_of_piece) * bytes),
                  p.inputs ? p.input[0].data : nullptr);
  const auto tile = [&](int i) { return room.memory + i * kElements * bytes; };
  const auto piece_of = [&](int k) {
    return room.memory + (tiles + plan.piece[k] * room_of_piece) * bytes;
  };
  const int64_t most = std::min(kElements, end - begin);
  for (int i = 0; i < plan.numbers; ++i) {
    const double x = plan.number[i].value;
    const float f = static_cast<float>(x);
    const void* one = p.lanes == DType::Float32 ? static_cast<const void*>(&f) : &x;
    level_of::load_tile(lanes, static_cast<int>(p.lanes), tile(plan.number[i].tile), one, 0, most);
  }
  void* result[RowProgram::kMostSteps];
  void* input[RowProgram::kMostInputs];
  int64_t phase[RowProgram::kMostInputs], loaded[RowProgram::kMostInputs] = {};
  int64_t from = begin, until = end;  // the piece
  for (int64_t at = begin, m; at < end; at += m) {
    if (p.ends && at % unit % piece == 0)
      from = at, until = std::min({end, at + piece, at + unit - at % unit});
    m = plan.tiles ? std::min(kElements, plan.period - at % plan.period) : end - at;
    m = std::min(m, until - at);
    for (int i = 0; i < p.inputs; ++i) {
      const RowProgram::Input& in = p.input[i];
      const int size = dtype_size(in.dtype), dtype = static_cast<int>(in.dtype);
      if (in.count == p.numel) {
        const char* from = in.data + at * size;
        input[i] = plan.loaded[i] < 0 ? const_cast<char*>(from) : tile(plan.loaded[i]);
        if (plan.loaded[i] >= 0) level_of::load_tile(lanes, dtype, input[i], from, 1, m);
        continue;
      }
      const int64_t place = at % in.count;
      if (in.inner == 1 && in.dtype == p.lanes && place + m <= in.count) {
        input[i] = const_cast<char*>(in.data + place * size);
        continue;
      }
      // Where it repeats as in the tile before, it is there.
      const int64_t now = at % (in.count * in.inner);
      input[i] = tile(plan.loaded[i]);
      if (loaded[i] >= m && phase[i] == now) continue;
      load_repeated(in, lanes, bytes, tile(plan.loaded[i]), at, m);
      phase[i] = now, loaded[i] = m;
    }
    for (int k = 0; k < p.steps; ++k) {
      const RowProgram::Step& s = p.step[k];
      const int size = dtype_size(s.type);
      char* const to = s.to                 ? s.to + at * size
                       : plan.piece[k] >= 0 ? piece_of(k) + (at - from) * size
                                            : nullptr;
      result[k] = plan.to[k] < 0 ? to : tile(plan.to[k]);
      void* places[kOperands + 1] = {result[k]};
      for (int j = 0; j < s.n; ++j) {
        const RowProgram::Operand& o = s.operand[j];
        places[j + 1] = o.from == RowProgram::From::Input  ? input[o.index]
                        : o.from == RowProgram::From::Step ? result[o.index]
                                                           : tile(plan.from[k][j]);
      }
      if (plan.plain[k]) {
        plan.fn[k](places, m);
        if (plan.stream && s.to) level_of::stream_bytes(to, result[k], m * size);
        continue;
      }
      char* const narrow = to ? to : tile(plan.narrow);
      if (s.type == DType::Bool) places[0] = narrow;
      plan.fn[k](places, m);
      const int dtype = static_cast<int>(s.type);
      if (s.type != DType::Bool) level_of::store_tile(lanes, dtype, narrow, result[k], 1, m);
      if (plan.read[k]) level_of::load_tile(lanes, dtype, result[k], narrow, 1, m);
    }
    for (int i = 0; i < p.ends && at + m == until; ++i) {
      const RowProgram::Step& s = p.step[p.end[i]->step];
      p.end[i]->take(s.to ? s.to + from * dtype_size(s.type) : piece_of(p.end[i]->step), from,
                     until - from);
    }
  }
}

}  // namespace

void cpu::run_rows(const RowProgram& p) {
  const Plan plan(p);
  const int64_t grain = std::max<int64_t>(kElements * 4, kGrain / p.steps / kElements * kElements);
  // Ends take whole units.
  const int64_t unit = p.ends ? p.end[0]->unit : 1;
  parallel_for((p.numel + unit - 1) / unit, (grain + unit - 1) / unit,
               [&](int64_t begin, int64_t end) {
                 run_tiles(p, plan, begin * unit, std::min(end * unit, p.numel));
               });
  for (int i = 0; i < p.ends; ++i) p.end[i]->done();
}

}  // namespace tycho
