// Matrix products: the way that fits a shape. Small ones run straight on the operands.
#include "engine/cpu/matmul/gemm.h"

#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/library/onednn.h"
#include "engine/cpu/matmul/gemm_parts.h"
#include "engine/cpu/matmul/tiles.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kSmallWork = 160 * 160 * 160;
constexpr int64_t kNearBytes = 256 << 10;  // what stays in the second-level cache beside others

template <class T>
void add_bias_of(const Product& p) {
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j)
      static_cast<T*>(p.c)[i * p.c_row + j] += static_cast<const T*>(p.bias)[j];
}

// A column times a whose columns have gaps: these come with their cache lines anyway, so they are
// multiplied too.
void gemv_with_gaps(const Product& p, int size) {
  const int64_t all = (p.m - 1) * p.a_row + 1;
  const Scratch y(static_cast<size_t>(all * size));
  gemv({p.dtype, all, p.k, p.a, p.b, y.data(), 1, p.a_col, p.b_row, 1, p.alone, p.bias});
  for (int64_t i = 0; i < p.m; ++i)
    std::memcpy(at(p.c, i * p.c_row, size), at(y.data(), i * p.a_row, size),
                static_cast<size_t>(size));
}

// Multiply-adds that take some 2.5 us: no thread gets less.
int64_t least_work(int size) { return int64_t{1 << (level() == Level::v4 ? 20 : 19)} / size; }

// Packs b whole when its rows are not contiguous; a is read in place.
void gemm_small(const Product& p, int type, int size) {
  const int begin = begin_mode(p);
  const int64_t rows_most = p.n * p.k * size <= kNearBytes ? kNearRows : p.m;
  int rows, cols;
  level_of::gemm_unit(type, &rows, &cols);
  const bool plain = p.b_col == 1 || p.n == 1;
  const Scratch packed(plain ? 0 : up(p.n, cols) * p.k * size);
  if (!plain)
    level_of::gemm_pack_b(type, p.b, p.b_col, p.b_row, p.n, p.k, static_cast<void*>(packed.data()));
  const auto multiply = [&](const Product& q) {
    if (plain)
      return level_of::gemm_direct(type, q.m, p.n, p.k, q.a, p.a_row, p.a_col, p.b, p.b_row, q.c,
                                   p.c_row, begin, p.bias, false);
    for (int64_t j = 0; j < p.n; j += cols) {
      const void* b = at(packed.data(), j * p.k, size);
      const void* bias = p.bias ? at(p.bias, j, size) : nullptr;
      level_of::gemm_direct(type, q.m, std::min<int64_t>(cols, p.n - j), p.k, q.a, p.a_row, p.a_col,
                            b, static_cast<int64_t>(cols), static_cast<void*>(at(q.c, j, size)),
                            p.c_row, begin, bias, true);
    }
  };
  const auto run = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i += rows_most)
      multiply(rows_of(p, i, std::min(rows_most, to - i), size));
  };
  const int64_t threads =
      p.alone ? 1 : std::min<int64_t>(get_num_threads(), work_of(p) / least_work(size));
  if (threads < 2) return run(0, p.m);
  parallel_for(p.m, up(blocks(p.m, threads), rows), run, Interrupts::Hold);
}

}  // namespace

// k = 0: nothing is added to what c begins with.
void begin_only(const Product& p) {
  if (p.add) return;
  const int size = dtype_size(p.dtype);
  for (int64_t i = 0; i < p.m; ++i)
    if (p.bias)
      std::memcpy(at(p.c, i * p.c_row, size), p.bias, p.n * size);
    else
      std::memset(at(p.c, i * p.c_row, size), 0, p.n * size);
}

void add_bias(const Product& p) {
  if (p.dtype == DType::Float32) return add_bias_of<float>(p);
  if (p.dtype == DType::Float64) return add_bias_of<double>(p);
  return add_bias_of<uint64_t>(p);
}

void gemm(const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) return begin_only(p);
  if (tiles_pay(p)) return gemm_tiles(p);
  if (dtype_size(p.dtype) == 2) {
    if (pairs_pay(p)) return gemm_bf16(p);
    return gemm_thin(p) ? void() : gemm_blocked(p);
  }
  const int type = gemm_type(p.dtype), size = dtype_size(p.dtype);
  if (!p.add && p.k > 1) {
    const bool row = p.m == 1 && p.n > 1 && (p.b_row == 1 || p.b_col == 1);
    const bool column = p.n == 1 && (p.a_row == 1 || p.a_col == 1 || p.m == 1);
    if (row)
      gemv({p.dtype, p.n, p.k, p.b, p.a, p.c, p.b_col, p.b_row, p.a_col, 1, p.alone});
    else if (column)
      gemv({p.dtype, p.m, p.k, p.a, p.b, p.c, p.a_row, p.a_col, p.b_row, p.c_row, p.alone, p.bias});
    if (row || column) {
      if (p.bias && row) add_bias(p);
      return;
    }
  }
  constexpr int64_t kGap = 4, kLong = 64;
  if (!p.add && p.n == 1 && p.a_row > 1 && p.a_row <= kGap && p.m >= kLong && p.k > 1 &&
      p.a_col > (p.m - 1) * p.a_row && p.dtype != DType::Int64)
    return gemv_with_gaps(p, size);
  if (gemm_thin(p)) return;
  // Where the number of threads decides, both ways must sum in the same order.
  const bool one_thread = p.k <= depth_of(size) && (p.alone || get_num_threads() == 1);
  const int64_t work = p.m * p.n * p.k;
  if (work <= kSmallWork && (work_of(p) < kParallelWork || one_thread))
    gemm_small(p, type, size);
  else
    gemm_blocked(p);
}

}  // namespace tycho::cpu
