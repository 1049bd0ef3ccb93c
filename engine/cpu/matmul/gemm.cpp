// Matrix products: small ones straight on the operands, larger ones in blocks. A band of b is
// packed once for all threads, then blocks of c are chunks of a parallel region: each packs its
// rows of a and runs the register kernel. Interrupts are polled between chunks (a few ms each).
#include "engine/cpu/matmul/gemm.h"

#include <algorithm>
#include <cstring>

#include "engine/base/check.h"
#include "engine/base/interrupt.h"
#include "engine/base/parallel.h"
#include "engine/cpu/blocks.h"
#include "engine/cpu/library/onednn.h"
#include "engine/cpu/matmul/gemv16.h"
#include "engine/cpu/matmul/tiles.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

int type_of(DType t) { return t == DType::Float32 ? 0 : t == DType::Float64 ? 1 : 2; }

const char* at(const void* p, int64_t elements, int size) {
  return static_cast<const char*>(p) + elements * size;
}
char* at(void* p, int64_t elements, int size) { return static_cast<char*>(p) + elements * size; }

int begin_mode(const Product& p) { return p.add ? 1 : p.bias ? 2 : 0; }

// Terms that are summed in registers, in a packed block: a panel of b then is 32 KB.
constexpr int64_t depth_of(int size) { return 256 * 4 / size + (size == 8 ? 64 : 0); }
constexpr int64_t kBandCols = 3072;  // columns of b packed at a time
constexpr int64_t kBlockRowsMost = 192;
constexpr int64_t kInPlaceCols = 512;  // up to which rows of a are read as they lie
constexpr int64_t kSmallWork = 160 * 160 * 160;
constexpr int64_t kNearBytes = 256 << 10;  // what stays in the second-level cache beside others
constexpr int64_t kNearRows = 24;       // of a result that is written from left to right meanwhile
constexpr int64_t kOuterColumns = 512;  // from which on a row of an outer product is a loop
constexpr int64_t kOuterRows = 16;      // that make up for laying b out anew
constexpr int64_t kFarColumns = 64, kFarDepth = 4;  // and of few terms, where it goes to memory
constexpr int64_t kParallelWork = 1 << 20;          // multiply-adds: about 20 us

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

template <class T>
void add_bias_of(const Product& p) {
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j)
      static_cast<T*>(p.c)[i * p.c_row + j] += static_cast<const T*>(p.bias)[j];
}
void add_bias(const Product& p) {
  if (p.dtype == DType::Float32) return add_bias_of<float>(p);
  if (p.dtype == DType::Float64) return add_bias_of<double>(p);
  return add_bias_of<uint64_t>(p);
}

// A few rows of the result at a time, all of their columns, while b stays near: long columns would
// write a little to each of many pages.
Product rows_of(const Product& p, int64_t from, int64_t most, int size) {
  Product q = p;
  q.m = std::min(most, p.m - from);
  q.a = at(p.a, from * p.a_row, size);
  q.c = at(p.c, from * p.c_row, size);
  return q;
}

// b has fewer columns than a register block, and many rows: both are read as they lie. Terms are
// summed in the parts that gemm_blocked makes.
void gemm_narrow(const Product& p, int type, int size) {
  const int64_t depth = depth_of(size);
  const auto run = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const Product q = rows_of(p, i * kNearRows, kNearRows, size);
      for (int64_t pc = 0; pc < p.k; pc += depth)
        level_of::gemm_direct(type, q.m, q.n, std::min(depth, p.k - pc),
                              static_cast<const void*>(at(q.a, pc * p.a_col, size)), p.a_row,
                              p.a_col, static_cast<const void*>(at(q.b, pc * p.b_row, size)),
                              p.b_row, q.c, p.c_row, pc ? 1 : begin_mode(p), p.bias, false);
    }
  };
  const int64_t count = blocks(p.m, kNearRows);
  if (p.alone) return run(0, count);
  parallel_for(count, std::max<int64_t>(1, kParallelWork / (kNearRows * p.n * p.k)), run);
}

// A few rows meet a wide b, which is not worth packing: it is read as it lies, in pieces of its rows
// that are long enough for memory and short enough for c to stay in the first-level cache.
constexpr int64_t kFewRows = 4, kLongRow = 1024, kFewTerms = 16;
constexpr int64_t kPieceBytes = 8 << 10;
void gemm_few(const Product& p, int type, int size) {
  const int64_t piece = kPieceBytes / size, depth = depth_of(size);
  const float one_float = 1;
  const double one_double = 1;
  const int64_t one_integer = 1;
  const void* const ones[] = {&one_float, &one_double, &one_integer};
  const void* const one = ones[type];
  const auto run = [&](int64_t from, int64_t to) {
    const Scratch part(p.k > depth ? p.m * kPieceBytes : 0);
    for (int64_t i = from; i < to; ++i) {
      Product q = p;
      q.n = std::min(piece, p.n - i * piece);
      q.b = at(p.b, i * piece, size);
      q.c = at(p.c, i * piece, size);
      if (p.bias) q.bias = at(p.bias, i * piece, size);
      begin_only(q);
      // Terms are summed in the parts that gemm_blocked makes; further ones are added as 1 * part.
      const auto add = [&](int64_t m, int64_t k, const void* a, int64_t rs, int64_t cs,
                           const void* b, int64_t ldb, void* c, int64_t ldc) {
        level_of::gemm_few_rows(type, m, q.n, k, a, rs, cs, b, ldb, c, ldc);
      };
      add(q.m, std::min(depth, q.k), q.a, q.a_row, q.a_col, q.b, q.b_row, q.c, q.c_row);
      for (int64_t pc = depth; pc < q.k; pc += depth) {
        std::memset(part.data(), 0, q.m * piece * size);
        add(q.m, std::min(depth, q.k - pc), at(q.a, pc * q.a_col, size), q.a_row, q.a_col,
            at(q.b, pc * q.b_row, size), q.b_row, part.data(), piece);
        for (int64_t r = 0; r < q.m; ++r)
          add(1, 1, one, 0, 0, at(part.data(), r * piece, size), piece, at(q.c, r * q.c_row, size),
              q.c_row);
      }
    }
  };
  const int64_t count = blocks(p.n, piece);
  if (p.alone) return run(0, count);
  parallel_for(count, std::max<int64_t>(1, kParallelWork / (p.m * piece * p.k)), run);
}

// Few rows or few columns, along which a and b are contiguous: each element of c is a dot product, so
// that the larger matrix is read once, as it lies. A register block would waste lanes on less than
// half a lane of columns: for many rows those are even turned.
constexpr int64_t kFewDots = 8, kDotTerms = 64, kTurnedRows = 64;
bool dots_pay(const Product& p, int type, int unit_cols) {
  if (type > 1 || p.add || p.k < kDotTerms || p.a_col != 1) return false;
  const bool narrow = p.n * 4 <= unit_cols;
  return p.b_row == 1 ? narrow || p.m <= kFewDots : narrow && p.m >= kTurnedRows;
}
void gemm_by_dots(Product p, int type, int size) {
  const Scratch columns(p.b_row == 1 ? 0 : p.n * p.k * size);
  if (p.b_row != 1) {
    for (int64_t j = 0; j < p.n; ++j)
      for (int64_t i = 0; i < p.k; ++i)
        std::memcpy(at(columns.data(), j * p.k + i, size), at(p.b, i * p.b_row + j * p.b_col, size),
                    size);
    p.b = columns.data(), p.b_row = 1, p.b_col = p.k;
  }
  const bool by_rows = p.n <= p.m;  // of a, or columns of b
  const int64_t many = by_rows ? p.m : p.n;
  const auto run = [&](int64_t from, int64_t to) {
    const void *const a = at(p.a, by_rows ? from * p.a_row : 0, size), *const b = at(
                                                                           p.b,
                                                                           by_rows ? 0
                                                                                   : from * p.b_col,
                                                                           size);
    void* const c = at(p.c, by_rows ? from * p.c_row : from, size);
    const int64_t one = 1;
    if (by_rows)
      level_of::gemm_dots(type, to - from, p.n, p.k, a, p.a_row, b, p.b_col, c, p.c_row, one);
    else
      level_of::gemm_dots(type, to - from, p.m, p.k, b, p.b_col, a, p.a_row, c, one, p.c_row);
  };
  if (p.alone)
    run(0, many);
  else
    parallel_for(many, std::max<int64_t>(4, kParallelWork / (p.k * std::min(p.m, p.n)) / 4 * 4),
                 run);
  if (p.bias) add_bias(p);
}

// The columns of a are contiguous, and b has few: of the transposed product lanes are full, and long rows of a are read
// once (gemm_few).
bool turned_pays(const Product& p, int unit_cols) {
  if (p.a_row != 1 || p.a_col <= 1) return false;
  const bool long_rows = p.m >= kLongRow && p.k >= kFewTerms && p.n <= 2 * kFewRows;
  return long_rows || (4 * p.n <= unit_cols && p.m >= 2 * unit_cols && p.k > p.n);
}
template <class T>
void turn_into(const Product& p, const T* columns) {
  T* const c = static_cast<T*>(p.c);
  const T* const bias = static_cast<const T*>(p.bias);
  for (int64_t j = 0; j < p.n; ++j, columns += p.m) {
    const T first = bias ? bias[j] : T(0);
    for (int64_t i = 0; i < p.m; ++i) {
      T& to = c[i * p.c_row + j];
      to = columns[i] + (p.add ? to : first);
    }
  }
}
void gemm_turned(const Product& p, int size) {
  const Scratch columns(p.m * p.n * size);
  for (int64_t j = 0; j < p.n; j += kFewRows) {
    Product q = p;
    q.m = std::min(kFewRows, p.n - j), q.n = p.m;
    q.a = at(p.b, j * p.b_col, size), q.a_row = p.b_col, q.a_col = p.b_row;
    q.b = p.a, q.b_row = p.a_col, q.b_col = 1;
    q.c = at(columns.data(), j * p.m, size), q.c_row = p.m;
    q.add = q.far = false;
    q.bias = nullptr;
    gemm(q);
  }
  if (p.dtype == DType::Float32)
    turn_into(p, reinterpret_cast<const float*>(columns.data()));
  else if (p.dtype == DType::Float64)
    turn_into(p, reinterpret_cast<const double*>(columns.data()));
  else
    turn_into(p, reinterpret_cast<const uint64_t*>(columns.data()));
}

// One column times a row, or few: each row of c is written once, from left to right. Register blocks
// write a little to each of many lines, and in memory wait for them.
bool outer_pays(const Product& p) {
  if (p.add || (p.m < kOuterRows && (p.b_col != 1 || p.bias))) return false;
  return p.far ? p.k <= kFarDepth && p.n >= kFarColumns : p.k == 1 && p.n >= kOuterColumns;
}
void gemm_outer(const Product& p, int type, int size) {
  // Rows of b side by side; the bias is one more, of which there is always one.
  const bool plain = p.b_col == 1 && !p.bias;
  const int64_t depth = p.k + (p.bias ? 1 : 0);
  const Scratch rows(plain ? 0 : depth * p.n * size);
  if (!plain)
    for (int64_t i = 0; i < depth; ++i)
      for (int64_t j = 0; j < p.n; ++j)
        std::memcpy(at(rows.data(), i * p.n + j, size),
                    i < p.k ? at(p.b, i * p.b_row + j * p.b_col, size) : at(p.bias, j, size), size);
  const void* const b = plain ? p.b : static_cast<const void*>(rows.data());
  const int64_t ldb = plain ? p.b_row : p.n;
  const auto run = [&](int64_t from, int64_t to) {
    int64_t by[kFarDepth + 1];  // of any type
    const float one_float = 1;
    const double one_double = 1;
    const int64_t one_integer = 1;
    const void* const ones[] = {&one_float, &one_double, &one_integer};
    std::memcpy(at(static_cast<void*>(by), p.k, size), ones[type], size);
    for (int64_t i = from; i < to; ++i) {
      for (int64_t k = 0; k < p.k; ++k)
        std::memcpy(at(static_cast<void*>(by), k, size), at(p.a, i * p.a_row + k * p.a_col, size),
                    size);
      level_of::gemv_cols(type, p.n, depth, b, ldb, static_cast<const void*>(by), int64_t{1},
                          static_cast<void*>(at(p.c, i * p.c_row, size)), false);
    }
  };
  if (p.alone) return run(0, p.m);
  parallel_for(p.m, std::max<int64_t>(1, (1 << 16) / p.n), run);
}

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
  for (int64_t i = 0; i < p.m; i += rows_most) {
    const Product q = rows_of(p, i, rows_most, size);
    if (plain) {
      level_of::gemm_direct(type, q.m, p.n, p.k, q.a, p.a_row, p.a_col, p.b, p.b_row, q.c, p.c_row,
                            begin, p.bias, false);
      continue;
    }
    for (int64_t j = 0; j < p.n; j += cols) {
      const void* b = at(packed.data(), j * p.k, size);
      const void* bias = p.bias ? at(p.bias, j, size) : nullptr;
      level_of::gemm_direct(type, q.m, std::min<int64_t>(cols, p.n - j), p.k, q.a, p.a_row, p.a_col,
                            b, static_cast<int64_t>(cols), static_cast<void*>(at(q.c, j, size)),
                            p.c_row, begin, bias, true);
    }
  }
}

// Packing a pays off over many columns only, or where the rows of a register block would lie in the
// same sets of the first-level cache.
bool reads_in_place(const Product& p, int size) {
  return p.a_col == 1 && p.a_row > 0 && p.n <= kInPlaceCols && p.a_row * size % 4096 != 0;
}

void gemm_blocked(const Product& p, int type, int size) {
  int unit_rows, unit_cols;
  level_of::gemm_unit(type, &unit_rows, &unit_cols);
  const int threads = p.alone || p.m * p.n * p.k < kParallelWork ? 1 : get_num_threads();
  const int64_t depth = depth_of(size);
  // Blocks of c: about four chunks a thread, so that one late thread costs little.
  const int64_t most_rows = p.k <= 32 ? kNearRows : kBlockRowsMost;
  int64_t block_rows = std::min(up(p.m, unit_rows), up(most_rows, unit_rows));
  int64_t block_cols = std::min(p.n, kBandCols);
  if (threads > 1) {
    const int64_t want = 4 * threads;
    if (blocks(p.m, block_rows) < want)
      block_rows = std::max<int64_t>(up(blocks(p.m, want), unit_rows),
                                     std::min<int64_t>(up(p.m, unit_rows), 4 * unit_rows));
    const int64_t have = blocks(p.m, block_rows);
    if (have < want)
      block_cols =
          std::max<int64_t>(up(blocks(block_cols, blocks(want, have)), unit_cols), 4 * unit_cols);
  }
  const bool in_place = reads_in_place(p, size);
  const int64_t band = std::min(p.n, kBandCols);
  const Scratch b_scratch(up(band, unit_cols) * std::min(depth, p.k) * size);
  for (int64_t jc = 0; jc < p.n; jc += kBandCols) {
    const int64_t cols = std::min(kBandCols, p.n - jc);
    for (int64_t pc = 0; pc < p.k; pc += depth) {
      const int64_t k = std::min(depth, p.k - pc);
      const auto pack_b = [&](int64_t from, int64_t to) {
        const int64_t j = from * unit_cols;
        level_of::gemm_pack_b(
            type, static_cast<const void*>(at(p.b, pc * p.b_row + (jc + j) * p.b_col, size)),
            p.b_col, p.b_row, std::min(to * unit_cols, cols) - j, k,
            static_cast<void*>(at(b_scratch.data(), j * k, size)));
      };
      const int64_t row_blocks = blocks(p.m, block_rows), col_blocks = blocks(cols, block_cols);
      const auto multiply = [&](int64_t from, int64_t to) {
        const Scratch a_scratch(in_place ? 0 : block_rows * k * size);
        int64_t packed = -1;
        for (int64_t chunk = from; chunk < to; ++chunk) {
          const int64_t i = chunk / col_blocks * block_rows, j = chunk % col_blocks * block_cols;
          const int64_t rows = std::min(block_rows, p.m - i);
          const void* a = at(p.a, i * p.a_row + pc * p.a_col, size);
          if (packed != i && !in_place)
            level_of::gemm_pack_a(type, a, p.a_row, p.a_col, rows, k,
                                  static_cast<void*>(a_scratch.data()));
          packed = i;
          level_of::gemm_packed(
              type, rows, std::min(block_cols, cols - j), k,
              in_place ? a : static_cast<const void*>(a_scratch.data()), in_place ? p.a_row : 0,
              static_cast<const void*>(at(b_scratch.data(), j * k, size)),
              static_cast<void*>(at(p.c, i * p.c_row + jc + j, size)), p.c_row,
              pc ? 1 : begin_mode(p),
              p.bias && !pc ? static_cast<const void*>(at(p.bias, jc + j, size)) : nullptr);
        }
      };
      if (threads == 1) {
        pack_b(0, blocks(cols, unit_cols));
        for (int64_t chunk = 0; chunk < row_blocks * col_blocks; chunk += col_blocks) {
          if (!p.alone) check_interrupt();
          multiply(chunk, chunk + col_blocks);
        }
      } else {
        parallel_for(blocks(cols, unit_cols), 16, pack_b);
        parallel_for(row_blocks * col_blocks, 1, multiply);
      }
    }
  }
}

}  // namespace

void gemm(const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) return begin_only(p);
  if (tiles_pay(p)) return gemm_tiles(p);
  if (p.dtype == DType::BFloat16) return gemm_bf16(p);
  const int type = type_of(p.dtype), size = dtype_size(p.dtype);
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
  if (outer_pays(p)) return gemm_outer(p, type, size);
  // Where the number of threads decides, both ways must sum in the same order.
  const bool one_thread = p.k <= depth_of(size) && (p.alone || get_num_threads() == 1);
  int unit_rows, unit_cols;
  level_of::gemm_unit(type, &unit_rows, &unit_cols);
  if (turned_pays(p, unit_cols)) return gemm_turned(p, size);
  const int64_t work = p.m * p.n * p.k;
  if (dots_pay(p, type, unit_cols))
    gemm_by_dots(p, type, size);
  else if (p.m <= kFewRows && p.b_col == 1 && p.n >= kLongRow && p.k >= kFewTerms)
    gemm_few(p, type, size);
  else if (p.b_col == 1 && p.n < unit_cols && p.k > depth_of(size))
    gemm_narrow(p, type, size);
  else if (work <= kSmallWork && (work < kParallelWork || one_thread))
    gemm_small(p, type, size);
  else
    gemm_blocked(p, type, size);
}

void gemv(const VectorProduct& p) {
  const int type = type_of(p.dtype), size = dtype_size(p.dtype);
  const bool by_rows = p.a_col == 1 || p.k == 1;
  constexpr int64_t kWork = 1 << 16;  // elements of a per chunk: 10 to 20 us from memory
  if (by_rows) {
    const void* x = p.x;
    const Scratch scratch(p.x_step == 1 ? 0 : p.k * size);
    if (p.x_step != 1) {
      for (int64_t j = 0; j < p.k; ++j)
        std::memcpy(at(scratch.data(), j, size), at(p.x, j * p.x_step, size), size);
      x = scratch.data();
    }
    const auto run = [&](int64_t from, int64_t to) {
      level_of::gemv_rows(type, to - from, p.k,
                          static_cast<const void*>(at(p.a, from * p.a_row, size)), p.a_row, x,
                          static_cast<void*>(at(p.y, from * p.y_step, size)), p.y_step);
      if (p.begin)
        level_of::gemv_add(type, to - from, p.begin,
                           static_cast<void*>(at(p.y, from * p.y_step, size)), p.y_step);
    };
    if (p.alone) return run(0, p.m);
    const int64_t unit = p.k <= 64 ? 64 : 4;  // only the last rows may be left over
    return parallel_for(p.m, std::max<int64_t>(unit, kWork / p.k / unit * unit), run);
  }
  const Scratch scratch(p.y_step == 1 ? 0 : p.m * size);
  void* y = p.y_step == 1 ? p.y : scratch.data();
  const auto run = [&](int64_t from, int64_t to) {
    level_of::gemv_cols(type, to - from, p.k,
                        static_cast<const void*>(at(p.a, from * p.a_row, size)), p.a_col, p.x,
                        p.x_step, static_cast<void*>(at(y, from, size)), to - from == p.m);
    if (p.begin)
      level_of::gemv_add(type, to - from, p.begin, static_cast<void*>(at(y, from, size)),
                         int64_t{1});
  };
  if (p.alone)
    run(0, p.m);
  else
    parallel_for(p.m, std::max<int64_t>(1024, up(kWork / p.k, 256)), run);
  if (p.y_step != 1)
    for (int64_t i = 0; i < p.m; ++i)
      std::memcpy(at(p.y, i * p.y_step, size), at(scratch.data(), i, size), size);
}

void gemv16(const VectorProduct16& p) {
  constexpr int64_t kWork = 1 << 16;
  const bool by_rows = p.col == 1;
  const auto run = [&](int64_t from, int64_t to) {
    if (by_rows)
      level_of::gemv16_rows(to - from, p.k, p.a + from * p.row, p.row, p.x, p.y + from);
    else
      level_of::gemv16_cols(to - from, p.k, p.a + from, p.col, p.x, p.y + from);
  };
  if (p.alone) return run(0, p.m);
  const int64_t some = kWork / p.k;
  parallel_for(
      p.m, by_rows ? std::max<int64_t>(4, some / 4 * 4) : std::max<int64_t>(1024, up(some, 256)),
      run);
}

}  // namespace tycho::cpu
