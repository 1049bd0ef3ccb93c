// What the ways to multiply matrices (gemm.cpp) have in common, and their names.
#pragma once
#include <algorithm>
#include <cstring>

#include "engine/cpu/blocks.h"
#include "engine/cpu/matmul/gemm.h"

namespace tycho::cpu {

inline int gemm_type(DType t) {
  return t == DType::Float64 ? 1 : t == DType::Int64 ? 2 : 0;  // two bytes are summed in float32
}

inline const char* at(const void* p, int64_t elements, int size) {
  return static_cast<const char*>(p) + elements * size;
}
inline char* at(void* p, int64_t elements, int size) {
  return static_cast<char*>(p) + elements * size;
}

inline int begin_mode(const Product& p) { return p.add ? 1 : p.bias ? 2 : 0; }

// Terms that are summed in registers, in a packed block: a panel of b then is 32 KB.
constexpr int64_t depth_of(int size) { return 256 * 4 / size + (size == 8 ? 64 : 0); }
constexpr int64_t kNearRows = 24;  // of a result that is written from left to right meanwhile
constexpr int64_t kParallelWork = 1 << 20;  // multiply-adds from which operands in blocks are shared out
// In multiply-adds, as many of which a number from memory or to it takes as some eight.
inline int64_t work_of(const Product& p) {
  return p.m * p.n * p.k + 8 * (p.m * p.n + p.n * p.k + p.m * p.k);
}

// Pieces of n, of at most `most` but for rounding up to `unit`: as many for every thread.
inline int64_t even_piece(int64_t n, int64_t most, int64_t unit, int64_t threads) {
  const int64_t each = blocks(n, threads * most) * threads;
  return up(blocks(n, each), unit);
}

// A few rows of the result at a time, all of their columns, while b stays near: long columns would
// write a little to each of many pages.
inline Product rows_of(const Product& p, int64_t from, int64_t most, int size) {
  Product q = p;
  q.m = std::min(most, p.m - from);
  q.a = at(p.a, from * p.a_row, size);
  q.c = at(p.c, from * p.c_row, size);
  return q;
}

// Lines `line` apart, of n numbers of two bytes that are `step` apart, as float32.
inline void widen_lines(bool half, const void* numbers, int64_t line, int64_t step, int64_t lines,
                        int64_t n, float* to, int64_t ld) {
  const auto* const from = static_cast<const uint16_t*>(numbers);
  if (step == 1) {
    const Lines16 l{from, line, lines, n};
    return level_of::gemm16_widen(half, &l, to, ld);
  }
  constexpr int64_t kSome = 256;
  uint16_t some[kSome];
  for (int64_t i = 0; i < lines; ++i)
    for (int64_t j = 0; j < n; j += kSome) {
      const Lines16 l{some, kSome, 1, std::min(kSome, n - j)};
      for (int64_t q = 0; q < l.n; ++q) some[q] = from[i * line + (j + q) * step];
      level_of::gemm16_widen(half, &l, to + i * ld + j, ld);
    }
}

void begin_only(const Product& p);  // what c begins with, to which nothing is added
void add_bias(const Product& p);

// In blocks, of packed operands: any product.
void gemm_blocked(const Product& p);

// Few rows, few columns or few terms: as they lie. False, with nothing done, for other shapes.
bool gemm_thin(const Product& p);

}  // namespace tycho::cpu
