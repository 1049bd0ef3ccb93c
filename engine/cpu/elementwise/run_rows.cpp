// Rows that are run together (ops/elementwise/row_program.h): every thread takes tiles of all
// operands through all steps, so that what is between them never leaves the first caches.
#include <algorithm>

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
  int16_t to[RowProgram::kMostSteps];               // a tile, or -1: memory
  int16_t from[RowProgram::kMostSteps][kOperands];  // of numbers and inputs: a tile, or -1
  int16_t converted[RowProgram::kMostInputs];       // the tile of an input, or -1: read in place
  struct Number {
    double value;
    int16_t tile;
  };
  Number number[RowProgram::kMostSteps * kOperands];
  int numbers = 0, tiles = 0;

  // Results are written past the caches (as in run.cpp), from tiles.
  const bool stream;

  explicit Plan(const RowProgram& p)
      : stream(p.inputs > 1 && p.numel * dtype_size(p.type) >= kStreamBytes) {
    const bool f32 = p.type == DType::Float32;
    for (int i = 0; i < p.inputs; ++i)
      converted[i] = static_cast<int16_t>(p.input[i].dtype == p.type ? -1 : tiles++);
    int last[RowProgram::kMostSteps] = {};  // the last step that reads each step's result
    for (int k = 0; k < p.steps; ++k)
      for (int j = 0; j < p.step[k].n; ++j) {
        const RowProgram::Operand& o = p.step[k].operand[j];
        if (o.from == RowProgram::From::Step) last[o.index] = k;
        if (o.from == RowProgram::From::Number) from[k][j] = tile_of(o.number);
      }
    // A tile is free again after the last step that reads it.
    int16_t free[RowProgram::kMostSteps];
    int n = 0;
    for (int k = 0; k < p.steps; ++k) {
      fn[k] = f32 ? level_of::row_f32(p.step[k].row) : level_of::row_f64(p.step[k].row);
      to[k] = -1;
      if (!p.step[k].to || stream) to[k] = n ? free[--n] : static_cast<int16_t>(tiles++);
      for (int i = 0; i < k; ++i)
        if (last[i] == k && to[i] >= 0) free[n++] = to[i];
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

// A thread's tiles.
struct Room {
  size_t bytes;
  char* memory;
  explicit Room(size_t n) : bytes(n), memory(static_cast<char*>(allocate(n))) {
    TYCHO_CHECK(Kind::Oom, memory, "out of memory: %zu bytes for tiles", n);
  }
  ~Room() { release(memory, bytes); }
  Room(const Room&) = delete;
};

void run_tiles(const RowProgram& p, const Plan& plan, int64_t begin, int64_t end) {
  const int lanes = static_cast<int>(p.type == DType::Float32 ? Lanes::F32 : Lanes::F64);
  const int bytes = dtype_size(p.type);
  const int64_t step = plan.tiles ? kElements : end - begin;
  const Room room(static_cast<size_t>(plan.tiles * kElements * bytes));
  const auto tile = [&](int i) { return room.memory + i * kElements * bytes; };
  const int64_t most = std::min(kElements, end - begin);
  for (int i = 0; i < plan.numbers; ++i) {
    const double x = plan.number[i].value;
    const float f = static_cast<float>(x);
    const void* one = p.type == DType::Float32 ? static_cast<const void*>(&f) : &x;
    level_of::load_tile(lanes, static_cast<int>(p.type), tile(plan.number[i].tile), one, 0, most);
  }
  void* result[RowProgram::kMostSteps];
  void* input[RowProgram::kMostInputs];
  for (int64_t at = begin; at < end; at += step) {
    const int64_t m = std::min(step, end - at);
    for (int i = 0; i < p.inputs; ++i) {
      const char* from = p.input[i].data + at * dtype_size(p.input[i].dtype);
      input[i] = const_cast<char*>(from);
      if (plan.converted[i] < 0) continue;
      input[i] = tile(plan.converted[i]);
      level_of::load_tile(lanes, static_cast<int>(p.input[i].dtype), input[i], from, 1, m);
    }
    for (int k = 0; k < p.steps; ++k) {
      const RowProgram::Step& s = p.step[k];
      result[k] = plan.to[k] < 0 ? s.to + at * bytes : tile(plan.to[k]);
      void* places[kOperands + 1] = {result[k]};
      for (int j = 0; j < s.n; ++j) {
        const RowProgram::Operand& o = s.operand[j];
        places[j + 1] = o.from == RowProgram::From::Input  ? input[o.index]
                        : o.from == RowProgram::From::Step ? result[o.index]
                                                           : tile(plan.from[k][j]);
      }
      plan.fn[k](places, m);
      if (plan.stream && s.to) level_of::stream_bytes(s.to + at * bytes, result[k], m * bytes);
    }
  }
}

}  // namespace

void cpu::run_rows(const RowProgram& p) {
  const Plan plan(p);
  const int64_t grain = std::max<int64_t>(kElements * 4, kGrain / p.steps / kElements * kElements);
  parallel_for(p.numel, grain, [&](int64_t begin, int64_t end) { run_tiles(p, plan, begin, end); });
}

}  // namespace tycho
