// Rows that are run together (ops/elementwise/row_program.h): every thread takes tiles of all
// operands through all steps, so that what is between them never leaves the first caches.
#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/memory.h"
#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/elementwise/program.h"
#include "engine/cpu/elementwise/row_order.h"
#include "engine/cpu/elementwise/row_plan.h"
#include "engine/cpu/elementwise/run.h"

namespace tycho {
namespace {

using namespace cpu;

// A thread's tiles. A load waits for a store before it whose address ends in the same 12 bits: where all
// that a row reads and writes lies at the same place within a page, as `like`, none does.
struct Room {
  static constexpr uintptr_t kPage = 4096;
  size_t bytes;
  char *block, *memory;
  Room(size_t n, const char* like) : bytes(n + kPage), block(static_cast<char*>(allocate(bytes))) {
    TYCHO_CHECK(Kind::Oom, block, "out of memory: %zu bytes for tiles", n);
    const auto place = [](const char* p) {
      return reinterpret_cast<uintptr_t>(p) & ~uintptr_t{63};
    };
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
    // The values one after another, then each of them as often as it is to be there.
    alignas(64) char values[kElements * 8];
    const int64_t before = at % in.inner, n = (before + m + in.inner - 1) / in.inner;
    for (int64_t k = 0, place = at / in.inner % in.count; k < n; place = 0) {
      const int64_t here = std::min(n - k, in.count - place);
      level_of::load_tile(lanes, dtype, values + k * lane_bytes, in.data + place * bytes, 1, here);
      k += here;
    }
    int64_t k = 0, done = 0;
    const auto spread = [&](int64_t rows, int64_t times) {
      level_of::copy_plane(lane_bytes, tile + done * lane_bytes, times, 1, values + k * lane_bytes,
                           1, 0, rows, times);
      k += rows, done += rows * times;
    };
    if (before) spread(1, std::min(m, in.inner - before));
    spread((m - done) / in.inner, in.inner);
    spread(done < m, m - done);
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

// Where elements are within rounds of so many, without a division for each tile.
struct Round {
  int64_t size = 1, now = 0, step = 0, left = 0;  // `left` of `step` elements behind whole rounds
  Round() = default;
  Round(int64_t n, int64_t at) : size(n), now(at % n) {}
  void go_on(int64_t m) {
    if (m != step) step = m, left = m % size;
    now += left;
    if (now >= size) now -= size;
  }
};

// The tiles of elements [begin, end) through all steps.
class TileRun {
 public:
  TileRun(const RowProgram& program, const RowPlan& row_plan, const int* steps, int64_t begin,
          int64_t end)
      : p(program),
        plan(row_plan),
        end_step(steps),
        unit(p.ends ? p.end[0]->unit : p.numel),
        piece(p.ends ? p.end[0]->piece : p.numel),
        room_of_piece((piece + kElements - 1) / kElements * kElements),
        room(
            static_cast<size_t>((plan.tiles * plan.elements + plan.pieces * room_of_piece) * bytes),
            p.inputs ? p.input[0].data : nullptr) {
    const int64_t most = std::min(repetitions, end - begin);
    for (int i = 0; i < plan.numbers; ++i) {
      const double x = plan.number[i].value;
      const float f = static_cast<float>(x);
      const void* one = p.lanes == DType::Float32 ? static_cast<const void*>(&f) : &x;
      number[i] = tile(plan.number[i].tile);
      level_of::load_tile(value, static_cast<int>(p.lanes), number[i], one, 0, most);
    }
    for (int k = 0; k < p.steps; ++k)
      if (plan.to[k] >= 0) result[k] = tile(plan.to[k]);
    int n = 0;
    for (int k = 0; k < p.steps; k += plan.links[k]) {
      first[k] = link + n;
      if (plan.linked[k]) n += make_links(k, link + n);
    }
  }

  void run(int64_t begin, int64_t end) {
    int64_t from = begin, until = end;  // the piece
    for (int i = 0; i < p.inputs; ++i) place[i] = Round(p.input[i].count * p.input[i].inner, begin);
    Round within(plan.period, begin);
    for (int64_t at = begin, m; at < end; at += m) {
      if (p.ends && at % unit % piece == 0)
        from = at, until = std::min({end, at + piece, at + unit - at % unit});
      m = plan.one_pass ? end - at : std::min(plan.reach, plan.period - within.now);
      m = std::min(m, until - at);
      if (m > plan.elements) m -= m % plan.elements;  // what links leave goes through tiles
      for (int k = 0; k < p.steps; ++k) {
        const RowProgram::Step& s = p.step[k];
        if (!s.to && plan.piece[k] < 0) continue;
        memory[k] =
            s.to ? s.to + at * dtype_size(s.type) : piece_of(k) + (at - from) * dtype_size(s.type);
        if (plan.to[k] < 0) result[k] = memory[k];
      }
      load_inputs(at, m);
      for (int k = 0; k < p.steps; k += plan.links[k]) {
        const int64_t done = !plan.linked[k]            ? 0
                             : plan.lanes == Lanes::F32 ? level_of::run_links_f32(first[k], m)
                                                        : level_of::run_links_f64(first[k], m);
        for (int j = k; j < k + plan.links[k]; ++j)
          if (plan.plain[j])
            run_plain(j, done, m);
          else
            run_narrow(j, m);
      }
      for (int i = 0; i < p.ends && at + m == until; ++i) {
        const int k = end_step[i];
        const RowProgram::Step& s = p.step[k];
        p.end[i]->take(s.to ? s.to + from * dtype_size(s.type) : piece_of(k), from, until - from);
      }
      within.go_on(m);
      for (int i = 0; i < p.inputs; ++i)
        if (p.input[i].count != p.numel) place[i].go_on(m);
    }
  }

 private:
  char* tile(int i) const { return room.memory + i * plan.elements * bytes; }
  char* piece_of(int k) const { return tile(plan.tiles) + plan.piece[k] * room_of_piece * bytes; }
  char* const* place_of(int k, int j) const {
    const RowProgram::Operand& o = p.step[k].operand[j];
    return o.from == RowProgram::From::Input  ? &input[o.index]
           : o.from == RowProgram::From::Step ? &result[o.index]
                                              : &number[plan.from[k][j]];
  }
  // Which bits of an element's distance count: all (-1), none (0) where the operand is one value, or
  // those below where it begins again.
  const int64_t* mask_of(int k, int j) const {
    const RowProgram::Operand& o = p.step[k].operand[j];
    return o.from == RowProgram::From::Input  ? &mask[o.index]
           : o.from == RowProgram::From::Step ? &each
                                              : &one;
  }
  // A step's operands from element `from` on; the bits of those that repeat one value.
  unsigned operands_of(int k, int64_t from, void** places) const {
    unsigned repeated = 0;
    for (int j = 0; j < p.step[k].n; ++j) {
      const int64_t each = *mask_of(k, j);
      places[j + 1] = *place_of(k, j) + (from * bytes & each);
      if (!each) repeated |= 2u << j;
    }
    return repeated;
  }

  void load_inputs(int64_t at, int64_t m) {
    for (int i = 0; i < p.inputs; ++i) {
      const RowProgram::Input& in = p.input[i];
      const int size = dtype_size(in.dtype), dtype = static_cast<int>(in.dtype);
      if (in.count == p.numel) {
        const char* from = in.data + at * size;
        mask[i] = -1;
        input[i] = plan.becomes[i] >= 0 ? result[plan.becomes[i]]
                   : plan.loaded[i] < 0 ? const_cast<char*>(from)
                                        : tile(plan.loaded[i]);
        if (plan.loaded[i] >= 0) level_of::load_tile(lanes, dtype, input[i], from, 1, m);
        continue;
      }
      mask[i] = -1;
      const int64_t now = place[i].now;
      if (in.inner == 1 && in.dtype == plan.lane_type && now + m <= in.count) {
        input[i] = const_cast<char*>(in.data + now * size);
        continue;
      }
      input[i] = tile(plan.loaded[i]);
      if (const int64_t n = plan.wraps[i]; n && now == 0 && n <= m) {
        mask[i] = n * bytes - 1;
        if (in.dtype == plan.lane_type && n == in.count) {
          input[i] = const_cast<char*>(in.data);
        } else if (loaded[i] < n || phase[i] != 0) {
          load_repeated(in, lanes, bytes, input[i], at, n);
          phase[i] = 0, loaded[i] = n;
        }
        continue;
      }
      mask[i] = in.inner > 1 && now % in.inner + m <= in.inner ? 0 : -1;
      if (!mask[i]) {
        level_of::load_tile(value, dtype, input[i], in.data + now / in.inner * size, 0,
                            std::min(repetitions, m));
        loaded[i] = 0;
        continue;
      }
      // Where it repeats as in the tile before, it is there.
      if (loaded[i] >= m && phase[i] == now) continue;
      load_repeated(in, lanes, bytes, input[i], at, m);
      phase[i] = now, loaded[i] = m;
    }
  }

  // Steps from k on as links; how many they are.
  int make_links(int k, Link* to) const {
    int n = 0;
    to[n++] = {plan.load, place_of(k, 0), mask_of(k, 0)};
    for (int j = k; j < k + plan.links[k]; ++j) {
      const int other = 1 - plan.place[j];
      const bool reads = other < p.step[j].n;
      to[n++] = {plan.link[j], reads ? place_of(j, other) : &result[j],
                 reads ? mask_of(j, other) : &each};
      for (int i = 2; i < p.step[j].n; ++i) to[n++] = {nullptr, place_of(j, i), mask_of(j, i)};
      if (plan.kept[j]) to[n++] = {plan.passes[j] ? plan.pass : plan.store, &result[j], &each};
    }
    to[n++] = {plan.last, nullptr, nullptr};
    return n;
  }

  // The elements behind those that are done.
  void run_plain(int k, int64_t done, int64_t m) const {
    if (done < m && !plan.moves[k]) {
      void* places[kOperands + 1] = {result[k] + done * bytes};
      const unsigned repeated = operands_of(k, done, places);
      plan.fn[k](places, m - done, repeated, plan.passes[k] ? kOncePast : kOnce);
    }
  }

  void run_narrow(int k, int64_t m) const {
    const RowProgram::Step& s = p.step[k];
    char* const narrow = memory[k] ? memory[k] : tile(plan.narrow);
    const int dtype = static_cast<int>(s.type);
    if (plan.moves[k]) return level_of::store_tile(lanes, dtype, narrow, *place_of(k, 0), 1, m);
    void* places[kOperands + 1] = {s.type == DType::Bool ? narrow : result[k]};
    const unsigned repeated = operands_of(k, 0, places);
    plan.fn[k](places, m, repeated, kOnce);
    if (s.type != DType::Bool) level_of::store_tile(lanes, dtype, narrow, result[k], 1, m);
    if (plan.read[k]) level_of::load_tile(lanes, dtype, result[k], narrow, 1, m);
  }

  const RowProgram& p;
  const RowPlan& plan;
  const int* const end_step;
  const int lanes = static_cast<int>(plan.lanes), value = static_cast<int>(value_lanes(plan.lanes)),
            bytes = dtype_size(plan.lane_type);
  const int64_t repetitions = kRepeatedBytes / dtype_size(p.lanes);  // of a value that repeats
  const int64_t unit, piece, room_of_piece;
  const Room room;
  // Of the elements that are at work: every operand's and result's place, and where the results that
  // leave the tiles go.
  char *input[RowProgram::kMostInputs], *result[RowProgram::kMostSteps],
      *memory[RowProgram::kMostSteps] = {}, *number[RowProgram::kMostSteps * kOperands];
  Link link[6 * RowProgram::kMostSteps];
  const Link* first[RowProgram::kMostSteps];  // where links begin
  static constexpr int64_t each = -1, one = 0;
  // See mask_of.
  int64_t mask[RowProgram::kMostInputs];
  Round place[RowProgram::kMostInputs];
  int64_t phase[RowProgram::kMostInputs], loaded[RowProgram::kMostInputs] = {};
};

// Elements [begin, end) of a step that reads and writes everything where it lies: runs of elements, along
// which every operand either goes on or repeats one value, and many at once where they lie at equal
// distances.
void run_where_it_lies(const RowProgram& p, const RowPlan& plan, int k, int64_t begin,
                       int64_t end) {
  const RowProgram::Step& s = p.step[k];
  const int bytes = dtype_size(plan.lane_type), value = static_cast<int>(value_lanes(plan.lanes));
  struct Place {
    int64_t within, index;  // of its `inner`; of its elements
  } place[RowProgram::kMostInputs];
  for (int i = 0; i < p.inputs; ++i)
    place[i] = {begin % p.input[i].inner, begin / p.input[i].inner % p.input[i].count};
  alignas(64) char one[kOperands][kRepeatedBytes], unseen[kElements * 8];
  void* places[kOperands + 1];
  unsigned repeated = 0;
  for (int j = 0; j < s.n; ++j) {
    if (s.operand[j].from == RowProgram::From::Input) {
      if (p.input[s.operand[j].index].inner > 1) repeated |= 2u << j;
      continue;
    }
    const double x = s.operand[j].number;
    const float f = static_cast<float>(x);
    level_of::load_tile(value, static_cast<int>(p.lanes), one[j],
                        p.lanes == DType::Float32 ? static_cast<const void*>(&f) : &x, 0,
                        kRepeatedBytes / dtype_size(p.lanes));
    places[j + 1] = one[j], repeated |= 2u << j;
  }
  for (int64_t at = begin, m; at < end; at += m) {
    const int64_t run = std::min({plan.row - at % plan.row, end - at, s.to ? end : kElements});
    Times times = {run == plan.row ? (end - at) / run : 1,
                   {s.to ? run * bytes : 0},
                   plan.passes[k] && run * bytes % kLine == 0};
    for (int j = 0; j < s.n; ++j) {
      if (s.operand[j].from != RowProgram::From::Input) continue;
      const int i = s.operand[j].index;
      const RowProgram::Input& in = p.input[i];
      char* const from = const_cast<char*>(in.data) + place[i].index * bytes;
      places[j + 1] = from;
      // Rows until another value, or the first element again.
      int64_t rows;
      if (in.inner == 1) {
        rows = in.count == run ? times.count : (in.count - place[i].index) / run;
        times.step[j + 1] = in.count == run ? 0 : run * bytes;
      } else {
        const bool each = in.inner == run;
        rows = each ? in.count - place[i].index : (in.inner - place[i].within) / run;
        times.step[j + 1] = each ? bytes : 0;
      }
      times.count = std::max<int64_t>(1, std::min(times.count, rows));
    }
    m = run * times.count;
    for (int i = 0; i < p.inputs; ++i) {
      const RowProgram::Input& in = p.input[i];
      Place& now = place[i];
      if (in.inner == 1)
        now.index += m;
      else
        now.within += m, now.index += now.within / in.inner, now.within %= in.inner;
      now.index %= in.count;
    }
    places[0] = s.to ? s.to + at * bytes : unseen;
    plan.fn[k](places, run, repeated, times);
  }
}

void run_together(const RowProgram& p) {
  int end_step[RowProgram::kMostEnds];
  const RowProgram q = in_chains(p, end_step);
  const RowPlan plan(q, end_step);
  int64_t work = 0;
  for (int k = 0; k < p.steps; ++k) work += row_work(p.step[k].row, plan.lanes);
  int64_t grain = std::max<int64_t>(kElements * 4, kGrain / work / kElements * kElements);
  if (!p.ends) grain = even_grain(p.numel, grain, kElements);
  // Ends take whole units.
  const int64_t unit = p.ends ? p.end[0]->unit : 1;
  parallel_for((p.numel + unit - 1) / unit, (grain + unit - 1) / unit,
               [&](int64_t begin, int64_t end) {
                 const int64_t last = std::min(end * unit, p.numel);
                 if (plan.lies_by_rows) {
                   for (int k = 0; k < q.steps; ++k) run_where_it_lies(q, plan, k, begin, last);
                 } else {
                   TileRun(q, plan, end_step, begin * unit, last).run(begin * unit, last);
                 }
                 if (plan.stream) end_stream();
               });
  for (int i = 0; i < p.ends; ++i) p.end[i]->done();
}

}  // namespace

void cpu::run_rows(const RowProgram& p) {
  const std::vector<RowProgram> parts = apart(p);
  if (parts.empty()) return run_together(p);
  for (const RowProgram& one : parts) run_together(one);
}

}  // namespace tycho
