// The rows of elementwise.def as machine code: one function per row and lane type, compiled at
// every instruction-set level.
#pragma once
#include "engine/cpu/level.h"
#include "engine/tensor/dtype.h"

namespace tycho::cpu {

// What a row computes in. Those behind I64 only some rows have: lanes of small integers, and of float32
// whose elements in memory are halves.
enum class Lanes : int { F32, F64, I64, Truth, U8, I8, I16, I32, BF16, F16 };
constexpr DType kLaneTypes[] = {DType::Float32,  DType::Float64, DType::Int64, DType::Bool,
                                DType::UInt8,    DType::Int8,    DType::Int16, DType::Int32,
                                DType::BFloat16, DType::Float16};
constexpr DType lane_type_of(Lanes lanes) { return kLaneTypes[static_cast<int>(lanes)]; }
// A value that repeats is not rounded to half.
constexpr Lanes value_lanes(Lanes lanes) { return lanes < Lanes::BF16 ? lanes : Lanes::F32; }
constexpr Lanes half_lanes(DType t) {
  return t == DType::BFloat16 ? Lanes::BF16 : t == DType::Float16 ? Lanes::F16 : Lanes::F32;
}

// p[0] is the result, p[1..4] the operands: n lane-typed elements each, contiguous; the result of a
// Test row is n bytes, 0 or 1. Of an operand whose bit in `repeated` is set (bit k is p[k]'s) there is one
// value (of value_lanes) for all elements. So many times: from one to the next, p[k] goes on by step[k]
// bytes. Rows of few instructions may store past the caches: call end_stream (cpu/cache.h) after the
// last one. Null where a row has no meaning in a lane type.
struct Times {
  int64_t count;
  int64_t step[5];
  bool past_caches = false;
};
constexpr Times kOnce = {1, {}}, kOncePast = {1, {}, true};
using RowFn = void (*)(void* const* p, int64_t n, unsigned repeated, const Times& times);
// Are rows of n elements computed where they lie, if they can be, and not put side by side first? Of rows
// of few instructions (is_short_row) those are that fill an AVX2 register; to others what a lane lacks
// at the end of a row costs more.
constexpr bool worth_a_row(int64_t n, DType lane, bool is_short) {
  const int64_t bytes = n * dtype_size(lane);
  return is_short ? bytes >= 32 : n >= 16 && bytes >= 64;
}
// Conversions between memory and lane-typed tiles, by dtype; strides in elements.
using LoadFn = void (*)(void* tile, const void* from, int64_t stride, int64_t n);
using StoreFn = void (*)(void* to, const void* tile, int64_t stride, int64_t n);

// A link: a short row that finds one operand in registers, leaves its result there, and jumps to the
// link behind it. `*memory` is where the other operand begins, or what kLinkStore writes to; `*mask` is -1,
// or 0 where the other operand is one value, of which there are kRepeatedBytes, or all elements if those are fewer,
// or bytes - 1 where it begins again after so many. A row of more operands has the others in links behind it.
using LinkFn = void (*)();  // each level knows the arguments
constexpr int kRepeatedBytes = 512;
struct Link {
  LinkFn fn;
  char* const* memory;
  const int64_t* mask;
};
// kLinkPass stores past the caches.
enum LinkStep : int { kLinkLoad = -1, kLinkStore = -2, kLinkLast = -3, kLinkPass = -4 };

// The row in any lanes.
RowFn row_fn(int row, Lanes lanes);

}  // namespace tycho::cpu

TYCHO_LEVELS(::tycho::cpu::RowFn, row_f32, (int row))
TYCHO_LEVELS(bool, is_short_row, (int row))  // is it of few instructions?
TYCHO_LEVELS(::tycho::cpu::RowFn, row_f64, (int row))
TYCHO_LEVELS(::tycho::cpu::RowFn, row_i64, (int row))
TYCHO_LEVELS(::tycho::cpu::RowFn, row_narrow, (int lanes, int row))
TYCHO_LEVELS(::tycho::cpu::RowFn, row_half, (int lanes, int row))
// Null where the row is no link that has operand `place` (0 or 1) in registers. `row` may be a LinkStep.
TYCHO_LEVELS(::tycho::cpu::LinkFn, link_f32, (int row, int place))
TYCHO_LEVELS(::tycho::cpu::LinkFn, link_f64, (int row, int place))
// Runs links from kLinkLoad to kLinkLast over the first elements; how many of n they were.
TYCHO_LEVELS(int64_t, run_links_f32, (const ::tycho::cpu::Link* first, int64_t n))
TYCHO_LEVELS(int64_t, run_links_f64, (const ::tycho::cpu::Link* first, int64_t n))
TYCHO_LEVELS(void, load_tile,
             (int lanes, int dtype, void* tile, const void* from, int64_t stride, int64_t n))
TYCHO_LEVELS(void, store_tile,
             (int lanes, int dtype, void* to, const void* tile, int64_t stride, int64_t n))
// to[j] = start + step * (first + by * j): the positions are whole numbers, the product is rounded at
// every level. Integers wrap.
TYCHO_LEVELS(void, ramp_f64,
             (double* to, double start, double step, double first, double by, int64_t n))
TYCHO_LEVELS(void, ramp_i64, (int64_t * to, int64_t start, int64_t step, int64_t n))
