// How a row program is run on the CPU: which tiles its steps read and write, and which of them are
// links (rows.h) to the step before them.
#pragma once
#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/cpu/cache.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/ops/elementwise/row_program.h"

namespace tycho::cpu {

constexpr int64_t kElements = 1024;  // of a tile, at most
constexpr int64_t kFirstCache = 32 << 10;
constexpr int64_t kReach = 8192;   // elements, at most, of steps that need no tile
constexpr int64_t kWrapped = 128;  // elements: no links take more at a time
// Bytes of rows that are worth being read where they lie by a step of one or two operands, or of more.
constexpr int64_t kShortestRow = 128, kLongerRow = 512;

// Where a step reads and writes: every tile that a thread needs, by number.
struct RowPlan {
  RowFn fn[RowProgram::kMostSteps];
  bool plain[RowProgram::kMostSteps];    // the result's type is the lanes'
  bool read[RowProgram::kMostSteps];     // by a later step, from where it was stored
  int8_t piece[RowProgram::kMostSteps];  // where an end's piece is, or -1
  int pieces = 0;
  // Steps that are run as links: how many from this one on, and each one's link; and whether what it
  // computes is stored for others than the next link.
  int8_t links[RowProgram::kMostSteps];
  bool linked[RowProgram::kMostSteps];  // so: a step of many operands also by itself
  // Of an input that repeats as a row, and that only links read: the elements after which they begin
  // again, a power of two; or 0. Long tiles of what repeats would leave the first cache no room.
  int64_t wraps[RowProgram::kMostInputs];
  LinkFn link[RowProgram::kMostSteps], load, store, pass, last;
  int8_t place[RowProgram::kMostSteps];  // the operand that is in registers
  bool kept[RowProgram::kMostSteps];
  bool passes[RowProgram::kMostSteps];              // stored past the caches
  int16_t to[RowProgram::kMostSteps];               // a tile, or -1: memory
  int16_t from[RowProgram::kMostSteps][kOperands];  // of numbers: which
  int16_t loaded[RowProgram::kMostInputs];          // the tile of an input
  // Steps that only move an operand into their type. Inputs that become the result as they are loaded:
  // of which step, or -1.
  bool moves[RowProgram::kMostSteps];
  int8_t becomes[RowProgram::kMostInputs];
  struct Number {
    double value;
    int16_t tile;
  };
  Number number[RowProgram::kMostSteps * kOperands];
  int numbers = 0, tiles = 0;
  int16_t narrow = -1;   // what a step computed, in its own type
  int16_t scratch = -1;  // what is not kept, of elements that are too few for links

  int64_t elements;  // of a tile
  // Elements that are taken at a time: more where no tile is needed.
  int64_t reach;
  // Tiles begin at multiples of it, so that repeated operands are read in place.
  int64_t period = 0;
  // Elements along which every input goes on or repeats one value; 0 where all are whole. Are all steps
  // apart from each other, and need no tiles?
  int64_t row = 0;
  bool lies_by_rows = false;
  bool one_pass;  // all that is read and written goes on along all elements, in one loop

  // Results are written past the caches, if nothing reads them from there.
  const Lanes lanes;
  const DType lane_type;
  const bool stream;

  RowPlan(const RowProgram& p, const int* end_step)
      : lanes(lanes_of(p)),
        lane_type(lane_type_of(lanes)),
        stream(passes_caches(p.numel * dtype_size(lane_type), whole_inputs(p), written(p))) {
    int streams = 0;  // tensors that pass through the cache
    bool as_they_lie = true;
    for (int i = 0; i < p.inputs; ++i) {
      const RowProgram::Input& in = p.input[i];
      const bool whole = in.count == p.numel;
      loaded[i] = static_cast<int16_t>(whole && in.dtype == lane_type ? -1 : tiles++);
      as_they_lie =
          as_they_lie && in.dtype == lane_type && (in.inner == 1 || lanes == value_lanes(lanes));
      if (!whole) row = std::gcd(row, in.inner > 1 ? in.inner : in.count);
      if (!whole && !period) period = in.inner > 1 ? in.inner : in.count;
      streams += loaded[i] < 0;
    }
    for (int k = 0; k < p.steps; ++k) {
      fn[k] = row_fn(p.step[k].row, lanes);
      plain[k] = p.step[k].type == lane_type;
      streams += p.step[k].to != nullptr;
      piece[k] = -1;
      for (int i = 0; i < p.ends && !p.step[k].to && piece[k] < 0; ++i)
        if (end_step[i] == k) piece[k] = static_cast<int8_t>(pieces++);
      for (int j = 0; j < p.step[k].n; ++j)
        if (p.step[k].operand[j].from == RowProgram::From::Number)
          from[k][j] = number_of(p.step[k].operand[j].number);
    }
    int last_read[RowProgram::kMostSteps];  // by which step
    find_links(p, last_read);
    find_moves(p);
    // A tile is free again after the last step that reads it.
    int16_t free[RowProgram::kMostSteps];
    int n = 0;
    for (int k = 0; k < p.steps; ++k) {
      passes[k] = stream && p.step[k].to && plain[k] && !read[k];
      const bool leaves = p.step[k].to || piece[k] >= 0;
      to[k] = -1;
      if (!plain[k] && narrow < 0) narrow = static_cast<int16_t>(tiles++);
      if (!kept[k])
        to[k] = scratch;
      else if (!plain[k] || !leaves) {
        // All inputs are loaded before the first step: what one of them becomes has a tile of its own.
        const bool early = moves[k] && plain[k];
        to[k] = n && !early ? free[--n] : static_cast<int16_t>(tiles++);
      }
      const auto frees = [&](int i) { return kept[i] && to[i] >= 0; };
      for (int i = 0; i < k; ++i)
        if (last_read[i] == k && frees(i)) free[n++] = to[i];
      if (!read[k] && frees(k)) free[n++] = to[k];
    }
    const int64_t whole = (tiles - numbers + streams) * kElements * dtype_size(lane_type);
    elements = whole <= kFirstCache ? kElements : kElements / 2;
    bool tileless = !p.ends;
    for (int i = 0; i < p.inputs; ++i) tileless = tileless && loaded[i] < 0;
    for (int k = 0; k < p.steps; ++k) tileless = tileless && (!kept[k] || to[k] < 0);
    reach = tileless ? kReach : elements;
    lies_by_rows = !p.ends && as_they_lie;
    for (int k = 0; lies_by_rows && k < p.steps; ++k) {
      // What tiles hold of a row that repeats is loaded once, so short rows are better read from there.
      lies_by_rows =
          plain[k] && row * dtype_size(lane_type) >= (p.step[k].n > 2 ? kLongerRow : kShortestRow);
      for (int j = 0; j < p.step[k].n; ++j)
        lies_by_rows = lies_by_rows && p.step[k].operand[j].from != RowProgram::From::Step;
    }
    one_pass = tiles == numbers && links[0] == p.steps;
    if (!period)
      period = reach;
    else if (period < elements)
      period = elements / period * period;
  }

 private:
  // Of halves where nothing is anything else: what a step computes is rounded between them as well.
  static Lanes lanes_of(const RowProgram& p) {
    if (p.lanes == DType::Float64) return Lanes::F64;
    const Lanes halves = half_lanes(p.step[0].type);
    for (int i = 0; i < p.inputs; ++i)
      if (half_lanes(p.input[i].dtype) != halves) return Lanes::F32;
    for (int k = 0; k < p.steps; ++k)
      if (half_lanes(p.step[k].type) != halves || !row_fn(p.step[k].row, halves)) return Lanes::F32;
    return halves;
  }
  static int whole_inputs(const RowProgram& p) {
    int n = 0;
    for (int i = 0; i < p.inputs; ++i) n += p.input[i].count == p.numel;
    return n;
  }
  static int written(const RowProgram& p) {
    int n = 0;
    for (int k = 0; k < p.steps; ++k) n += p.step[k].to != nullptr;
    return n;
  }
  // Which steps are links to the step before them, and what is read from where it was stored.
  void find_links(const RowProgram& p, int* last_read) {
    const auto link_of = [&](int row, int in_registers) {
      return lanes == Lanes::F32   ? level_of::link_f32(row, in_registers)
             : lanes == Lanes::F64 ? level_of::link_f64(row, in_registers)
                                   : nullptr;
    };
    load = link_of(kLinkLoad, 0), store = link_of(kLinkStore, 0);
    pass = link_of(kLinkPass, 0), last = link_of(kLinkLast, 0);
    int first = 0;
    for (int k = 0; k < p.steps; ++k) {
      const RowProgram::Step& s = p.step[k];
      links[k] = 1, place[k] = 0, kept[k] = true, read[k] = false, last_read[k] = 0;
      int reads = 0;  // of the step before
      for (int j = 0; j < s.n; ++j)
        if (s.operand[j].from == RowProgram::From::Step && s.operand[j].index == k - 1)
          ++reads, place[k] = static_cast<int8_t>(j);
      const int in_registers = reads == 1 ? place[k] : 0;
      link[k] = plain[k] && in_registers < 2 ? link_of(s.row, in_registers) : nullptr;
      const bool joins = reads == 1 && link[k] && link[k - 1];
      if (!joins) first = k, place[k] = 0;
      if (!joins && reads == 1 && link[k]) link[k] = link_of(s.row, 0);
      links[first] = static_cast<int8_t>(k - first + 1);
      for (int j = 0; j < s.n; ++j) {
        const RowProgram::Operand& o = s.operand[j];
        if (o.from == RowProgram::From::Step && !(joins && o.index == k - 1))
          last_read[o.index] = k, read[o.index] = true;
      }
    }
    for (int i = 0; i < p.inputs; ++i) {
      const RowProgram::Input& in = p.input[i];
      const bool row =
          in.count != p.numel && in.inner == 1 && std::has_single_bit(uint64_t(in.count));
      wraps[i] = row ? std::max(in.count, kWrapped) : 0;
    }
    for (int k = 0; k < p.steps; k += links[k]) {
      const bool all = links[k] > 1 || (link[k] && p.step[k].n > 2);
      for (int j = k; j < k + links[k]; ++j) {
        linked[j] = all;
        for (int o = 0; o < p.step[j].n && !all; ++o)
          if (p.step[j].operand[o].from == RowProgram::From::Input)
            wraps[p.step[j].operand[o].index] = 0;
      }
    }
    for (int k = 0; k < p.steps; k += links[k])
      for (int j = k; links[k] > 1 && j < k + links[k]; ++j) {
        kept[j] = read[j] || p.step[j].to || piece[j] >= 0;
        if (!kept[j] && scratch < 0) scratch = static_cast<int16_t>(tiles++);
      }
  }
  void find_moves(const RowProgram& p) {
    int readers[RowProgram::kMostInputs] = {};
    std::fill_n(becomes, p.inputs, int8_t{-1});
    std::fill_n(moves, p.steps, false);
    for (int k = 0; k < p.steps; ++k)
      for (int j = 0; j < p.step[k].n; ++j)
        if (p.step[k].operand[j].from == RowProgram::From::Input)
          ++readers[p.step[k].operand[j].index];
    for (int k = 0; k < p.steps; k += links[k]) {
      const RowProgram::Operand& o = p.step[k].operand[0];
      if (static_cast<Row>(p.step[k].row) != Row::identity || links[k] != 1 ||
          p.step[k].type == DType::Bool || o.from == RowProgram::From::Number)
        continue;
      const bool input = o.from == RowProgram::From::Input;
      if (input && p.input[o.index].count != p.numel) continue;
      if (!plain[k]) {
        moves[k] = !read[k];
      } else if (input && loaded[o.index] >= 0 && readers[o.index] == 1) {
        moves[k] = true;
        becomes[o.index] = static_cast<int8_t>(k);
      }
    }
  }
  int16_t number_of(double value) {
    for (int i = 0; i < numbers; ++i)
      if (std::bit_cast<uint64_t>(number[i].value) == std::bit_cast<uint64_t>(value))
        return static_cast<int16_t>(i);
    number[numbers] = {value, static_cast<int16_t>(tiles++)};
    return static_cast<int16_t>(numbers++);
  }
};

}  // namespace tycho::cpu
