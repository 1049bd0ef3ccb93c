// Products of shapes that register blocks of packed operands do not fit: few rows, few columns or
// few terms. Operands are read once, as they lie; terms are summed in the order that gemm_blocked
// sums them.
#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/transpose.h"
#include "engine/cpu/matmul/gemm_parts.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kOuterColumns = 512;  // from which on a row of an outer product is a loop
constexpr int64_t kOuterRows = 16;      // that make up for laying b out anew
constexpr int64_t kTurnedColumns = 64;  // up to which fewer lanes are worth a turned result
constexpr int64_t kFarColumns = 64, kFarDepth = 4;  // and of few terms, where it goes to memory

int threads_for(const Product& p) { return p.alone ? 1 : get_num_threads(); }

int unit_columns(int type) {
  int rows, cols;
  level_of::gemm_unit(type, &rows, &cols);
  return cols;
}

// b has fewer columns than a register block, and many rows: both are read as they lie. Terms are
// summed in the parts that gemm_blocked makes.
void multiply_narrow(const Product& p, int type, int size) {
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

// A few rows meet a wide b, which is not worth packing: it is read as it lies, in pieces of its
// rows that are long enough for memory and short enough for c to stay in the first-level cache.
constexpr int64_t kFewRows = 4, kLongRow = 384, kFewTerms = 16;
constexpr int64_t kPieceBytes = 8 << 10, kPiecesBytes = 32 << 10, kRowsAtOnce = 8;
void multiply_few(const Product& p, int type, int size) {
  const int64_t near = std::min(kPieceBytes, kPiecesBytes / std::min(p.m, kRowsAtOnce)) / size;
  const int64_t piece = even_piece(p.n, near, 64, threads_for(p));
  const int64_t depth = depth_of(size);
  const float one_float = 1;
  const double one_double = 1;
  const int64_t one_integer = 1;
  const void* const ones[] = {&one_float, &one_double, &one_integer};
  const void* const one = ones[type];
  const auto run = [&](int64_t from, int64_t to) {
    const int64_t pitch = piece + 64 / size;  // or the rows would share the same lines of a cache
    const Scratch part(p.k > depth ? p.m * pitch * size : 0);
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
        std::memset(part.data(), 0, q.m * pitch * size);
        add(q.m, std::min(depth, q.k - pc), at(q.a, pc * q.a_col, size), q.a_row, q.a_col,
            at(q.b, pc * q.b_row, size), q.b_row, part.data(), pitch);
        for (int64_t r = 0; r < q.m; ++r)
          add(1, 1, one, 0, 0, at(part.data(), r * pitch, size), pitch, at(q.c, r * q.c_row, size),
              q.c_row);
      }
    }
  };
  const int64_t count = blocks(p.n, piece);
  if (p.alone) return run(0, count);
  parallel_for(count, std::max<int64_t>(1, kParallelWork / (p.m * piece * p.k)), run);
}

// The same of numbers of two bytes, whose sums are kept in float32 until all terms are in.
void multiply_few16(const Product& p) {
  constexpr int64_t kMost = kPiecesBytes / kRowsAtOnce / 4;
  const int64_t piece = even_piece(p.n, kMost, 64, threads_for(p));
  const int64_t pitch = piece + 16;  // or the rows would share the same lines of a cache
  const bool half = p.dtype == DType::Float16;
  const int64_t depth = depth_of(4);
  const auto b16 = [](const void* x) { return static_cast<const uint16_t*>(x); };
  const Scratch wide(static_cast<size_t>(p.m * p.k) * sizeof(float));
  auto* const a = reinterpret_cast<float*>(wide.data());
  widen_lines(half, p.a, p.a_row, p.a_col, p.m, p.k, a, p.k);
  const auto run = [&](int64_t from, int64_t to) {
    alignas(64) float sums[kRowsAtOnce * (kMost + 64)], part[kRowsAtOnce * (kMost + 64)];
    for (int64_t i = from; i < to; ++i) {
      const int64_t j = i * piece, n = std::min(piece, p.n - j), count = p.m * pitch;
      std::fill_n(sums, count, 0.f);
      for (int64_t pc = 0; pc < p.k; pc += depth) {
        float* const to_add = pc ? part : sums;
        if (pc) std::fill_n(part, count, 0.f);
        level_of::gemm16_few_rows(half, p.m, n, std::min(depth, p.k - pc),
                                  static_cast<const float*>(a + pc), p.k,
                                  b16(p.b) + pc * p.b_row + j, p.b_row, to_add, pitch);
        for (int64_t q = 0; pc && q < count; ++q) sums[q] += part[q];
      }
      const Rounded16 r{p.m,
                        n,
                        sums,
                        pitch,
                        p.bias ? b16(p.bias) + j : nullptr,
                        p.add,
                        static_cast<uint16_t*>(p.c) + j,
                        p.c_row};
      level_of::gemm16_round(half, &r);
    }
  };
  const int64_t count = blocks(p.n, piece);
  if (p.alone) return run(0, count);
  parallel_for(count, std::max<int64_t>(1, kParallelWork / (p.m * piece * p.k)), run);
}

// Many rows and few columns of such numbers: float32's product of some rows at a time, which stay
// near.
constexpr int64_t kNarrow16 = 16, kManyNumbers = 1 << 12, kNearTerms = 4096;
bool narrow16_pays(const Product& p) {
  return p.a_col == 1 && p.n <= kNarrow16 && p.n < p.m && p.m * p.k >= kManyNumbers &&
         p.k <= kNearTerms;
}
void multiply_narrow16(const Product& p) {
  constexpr int64_t kNear = 1 << 14;  // numbers
  const bool half = p.dtype == DType::Float16;
  const bool b_lines = p.b_row == 1 && p.n > 1;  // along the terms
  const int64_t b_line = b_lines ? p.k + 16 : p.n;
  const Scratch wide(static_cast<size_t>((b_lines ? p.n : p.k) * b_line) * sizeof(float));
  auto* const wide_b = reinterpret_cast<float*>(wide.data());
  if (b_lines)
    widen_lines(half, p.b, p.b_col, p.b_row, p.n, p.k, wide_b, b_line);
  else
    widen_lines(half, p.b, p.b_row, p.b_col, p.k, p.n, wide_b, b_line);
  const int64_t some = std::max<int64_t>(kNearRows, kNear / (p.k + p.n));
  const auto run = [&](int64_t from, int64_t to) {
    const Scratch room(static_cast<size_t>(some * (p.k + p.n)) * sizeof(float));
    auto* const a = reinterpret_cast<float*>(room.data());
    float* const c = a + some * p.k;
    for (int64_t i = from; i < to; ++i) {
      Product q = rows_of(p, i * some, some, 2);
      const auto* const rows = static_cast<const uint16_t*>(q.a);
      // Rows that follow each other are one line.
      const bool joined = p.a_row == p.k;
      const Lines16 l{rows, p.a_row, joined ? 1 : q.m, joined ? q.m * p.k : p.k};
      level_of::gemm16_widen(half, &l, a, p.k);
      const bool one_line = p.c_row == p.n && !p.bias;
      const Rounded16 r{one_line ? 1 : q.m,
                        one_line ? q.m * p.n : p.n,
                        c,
                        p.n,
                        static_cast<const uint16_t*>(p.bias),
                        p.add,
                        static_cast<uint16_t*>(q.c),
                        p.c_row};
      q.dtype = DType::Float32;
      q.a = a, q.a_row = p.k;
      q.b = wide_b, q.b_row = b_lines ? 1 : b_line, q.b_col = b_lines ? b_line : 1;
      q.c = c, q.c_row = p.n;
      q.bias = nullptr;
      q.add = q.far = false;
      q.alone = true;
      gemm(q);
      level_of::gemm16_round(half, &r);
    }
  };
  const int64_t count = blocks(p.m, some);
  if (p.alone) return run(0, count);
  parallel_for(count, 1, run);
}

// Few rows, few columns and many terms of such numbers: parts of the terms are summed apart, by all
// threads, and joined in order.
constexpr int64_t kFewSums = 128, kManyTerms = 4096;
bool short16_pays(const Product& p) { return p.m * p.n <= kFewSums && p.k >= kManyTerms; }
void multiply_short16(const Product& p) {
  constexpr int64_t kPart = 1 << 14, kNear = 1 << 13;  // terms; numbers
  const bool half = p.dtype == DType::Float16;
  const int64_t parts = blocks(p.k, kPart), numel = p.m * p.n;
  const int64_t some = std::max<int64_t>(64, kNear / (p.m + p.n) / 64 * 64);
  const Scratch sums(static_cast<size_t>(parts * numel) * sizeof(float));
  const int64_t line = some + 16;  // so that lines do not share cache sets
  auto* const sum = reinterpret_cast<float*>(sums.data());
  const auto run = [&](int64_t from, int64_t to) {
    const Scratch room(static_cast<size_t>(line * (p.m + p.n)) * sizeof(float));
    auto* const a = reinterpret_cast<float*>(room.data());
    float* const b = a + line * p.m;
    float more[kFewSums];
    for (int64_t part = from; part < to; ++part)
      for (int64_t k = part * kPart; k < std::min(p.k, (part + 1) * kPart); k += some) {
        const int64_t n = std::min(some, std::min(p.k, (part + 1) * kPart) - k);
        const bool a_lines = p.a_col == 1, b_lines = p.b_row == 1;  // along the terms
        const void *const at_a = at(p.a, k * p.a_col, 2), *const at_b = at(p.b, k * p.b_row, 2);
        if (a_lines)
          widen_lines(half, at_a, p.a_row, p.a_col, p.m, n, a, line);
        else
          widen_lines(half, at_a, p.a_col, p.a_row, n, p.m, a, p.m);
        if (b_lines)
          widen_lines(half, at_b, p.b_col, p.b_row, p.n, n, b, line);
        else
          widen_lines(half, at_b, p.b_row, p.b_col, n, p.n, b, p.n);
        Product q{};
        q.dtype = DType::Float32;
        q.m = p.m, q.n = p.n, q.k = n;
        q.a = a, q.a_row = a_lines ? line : 1, q.a_col = a_lines ? 1 : p.m;
        q.b = b, q.b_row = b_lines ? 1 : p.n, q.b_col = b_lines ? line : 1;
        q.c = more, q.c_row = p.n;
        q.alone = true;
        gemm(q);
        float* const to_add = sum + part * numel;
        for (int64_t i = 0; i < numel; ++i)
          to_add[i] = k > part * kPart ? to_add[i] + more[i] : more[i];
      }
  };
  if (p.alone)
    run(0, parts);
  else
    parallel_for(parts, 1, run);
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t i = 0; i < numel; ++i) sum[i] += sum[part * numel + i];
  const Rounded16 r{p.m,
                    p.n,
                    sum,
                    p.n,
                    static_cast<const uint16_t*>(p.bias),
                    p.add,
                    static_cast<uint16_t*>(p.c),
                    p.c_row};
  level_of::gemm16_round(half, &r);
}

// Few rows or few columns, along which a and b are contiguous: each element of c is a dot product,
// so that the larger matrix is read once, as it lies. A register block would waste lanes on less
// than half a lane of columns: for many rows those are even turned.
constexpr int64_t kFewDots = 8, kDotTerms = 64, kTurnedRows = 64;
bool dots_pay(const Product& p, int type, int unit_cols) {
  // Hardly a row makes up for b laid out anew.
  const int64_t terms = p.m <= 4 ? std::min<int64_t>(kDotTerms, unit_cols * 3 / 2) : kDotTerms;
  if (type > 1 || p.add || p.k < terms || p.a_col != 1) return false;
  const bool narrow = p.n * 4 <= unit_cols;
  return p.b_row == 1 ? narrow || p.m <= kFewDots : narrow && p.m >= kTurnedRows;
}
void multiply_dots(Product p, int type, int size) {
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

// The columns of a are contiguous, and b's rows do not fill lanes: those of the transposed product
// are full, and no operand is packed. Long rows of a are read once (multiply_few).
bool long_rows(const Product& p) {
  return p.m >= kLongRow && p.k >= kFewTerms && p.n <= 2 * kFewRows;
}
bool turned_pays(const Product& p, int unit_cols) {
  if (p.a_row != 1 || p.a_col <= 1 || p.add || p.c_row != p.n || p.n > kTurnedColumns) return false;
  // In multiply-adds, of which one number turned, or packed, takes as long as some.
  const int64_t lane = unit_cols / 2, some = lane;
  const int64_t as_it_is = p.m * up(p.n, lane) * p.k + (p.b_col == 1 ? 0 : some / 2 * p.n * p.k);
  const int64_t turned = up(p.m, lane) * p.n * p.k + some * p.m * p.n;
  return long_rows(p) || turned + turned / 8 < as_it_is;
}
void multiply_turned(const Product& p, int size) {
  const Scratch columns(p.m * p.n * size);
  const int64_t some = long_rows(p) ? kFewRows : p.n;
  for (int64_t j = 0; j < p.n; j += some) {
    Product q = p;
    q.m = std::min(some, p.n - j), q.n = p.m;
    q.a = at(p.b, j * p.b_col, size), q.a_row = p.b_col, q.a_col = p.b_row;
    q.b = p.a, q.b_row = p.a_col, q.b_col = 1;
    q.c = at(columns.data(), j * p.m, size), q.c_row = p.m;
    q.far = false;
    q.bias = nullptr;
    gemm(q);
  }
  level_of::transpose(size, int64_t{1}, p.n, p.m, static_cast<const void*>(columns.data()), p.c);
  if (p.bias) add_bias(p);
}

// One column times a row, or few: each row of c is written once, from left to right. Register
// blocks write a little to each of many lines, and in memory wait for them.
bool outer_pays(const Product& p) {
  if (p.add || (p.m < kOuterRows && (p.b_col != 1 || p.bias))) return false;
  return p.far ? p.k <= kFarDepth && p.n >= kFarColumns : p.k == 1 && p.n >= kOuterColumns;
}
void multiply_outer(const Product& p, int type, int size) {
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

bool narrow_pays(const Product& p, int unit_cols, int size) {
  return p.b_col == 1 && p.n < unit_cols && p.k > depth_of(size);
}
// More rows are quicker in register blocks, unless those wait for their columns of a b that no near
// cache holds.
bool few_pays(const Product& p, int size) {
  constexpr int64_t kFarBytes = 3 << 19;
  const bool far = level() == Level::v4 && p.n * p.k * size > kFarBytes;
  return p.m <= (far ? kRowsAtOnce : kFewRows) && p.b_col == 1 && p.n >= kLongRow &&
         p.k >= kFewTerms;
}

}  // namespace

bool gemm_thin(const Product& p) {
  if (dtype_size(p.dtype) == 2) {
    const bool few = p.m <= kRowsAtOnce && p.b_col == 1 && p.n >= kLongRow && p.k >= kFewTerms;
    if (short16_pays(p))
      multiply_short16(p);
    else if (few)
      multiply_few16(p);
    else if (narrow16_pays(p))
      multiply_narrow16(p);
    else
      return false;
    return true;
  }
  const int type = gemm_type(p.dtype), size = dtype_size(p.dtype), unit_cols = unit_columns(type);
  if (outer_pays(p))
    multiply_outer(p, type, size);
  else if (turned_pays(p, unit_cols))
    multiply_turned(p, size);
  else if (dots_pay(p, type, unit_cols))
    multiply_dots(p, type, size);
  else if (few_pays(p, size))
    multiply_few(p, type, size);
  else if (narrow_pays(p, unit_cols, size))
    multiply_narrow(p, type, size);
  else
    return false;
  return true;
}

}  // namespace tycho::cpu
