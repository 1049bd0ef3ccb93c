// The matrix product's inner kernel in lanes of T: an M x (N lanes) block of the result is held in
// registers while k runs. Blocked products run it on packed panels, small ones straight on the
// operands.
#pragma once
#include "engine/cpu/lanes/parts.h"
#include "engine/cpu/lanes/transpose.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Rows of the register block, chosen so that M * 2 sums, two lanes of b and one of a fit into the
// registers (32 with AVX-512, else 16).
#if defined(TYCHO_LEVEL_v4)
constexpr int kBlockRows = 12;
#else
constexpr int kBlockRows = 6;
#endif
constexpr int kBlockLanes = 2;
// The baseline has as few kinds of blocks as it can: it need not be fast.
#if defined(TYCHO_LEVEL_x86_64)
constexpr bool kManyBlocks = false;
#else
constexpr bool kManyBlocks = true;
#endif

TYCHO_INLINE F32 muladd(F32 a, F32 b, F32 c) { return fma(a, b, c); }
TYCHO_INLINE F64 muladd(F64 a, F64 b, F64 c) { return fma(a, b, c); }
TYCHO_INLINE I64 muladd(I64 a, I64 b, I64 c) { return a * b + c; }

// Elements [a, b) of a lane, zeros around them; only they are touched in memory.
template <class T>
TYCHO_INLINE Lane<T> load_between(const T* p, int64_t a, int64_t b) {
  using V = typename Raw<T>::V;
  constexpr int64_t size = Lane<T>::size;
  a = a < 0 ? 0 : a > size ? size : a;
  b = b < a ? a : b > size ? size : b;
#if defined(TYCHO_LEVEL_v4)
  const uint32_t mask = ((1u << b) - 1) & ~((1u << a) - 1);
  if constexpr (sizeof(T) == 4)
    return Lane<T>((V)_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p));
  else
    return Lane<T>((V)_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), p));
#else
  T scratch[size] = {};
  for (int64_t i = a; i < b; ++i) scratch[i] = p[i];
  return Lane<T>((V)Lane<T>::load(scratch).v);
#endif
}

// Keeps a lane in its register: few multiply-adds make GCC read it from memory again for each.
template <class T>
TYCHO_INLINE void stay([[maybe_unused]] Lane<T>& x) {
#if defined(TYCHO_LEVEL_v4)
  asm("" : "+v"(x.v));
#elif defined(TYCHO_LEVEL_v3)
  asm("" : "+x"(x.v));
#endif
}

// How a block of the result is begun; kRows: by other rows, as far apart as its own, given as the bias.
enum Begin : int { kZero = 0, kAdd = 1, kBias = 2, kRows = 3 };

// Rows of b that are fetched before they are needed: the processor does not foresee them where they
// lie far apart.
constexpr int64_t kRowsAhead = 16;

// c[M, N lanes] = a * b, with a's element (i, p) at a[i * rs + p * cs] and b's row p at b + p *
// ldb; its lanes from the third on lie `next` elements behind the first. Part: only `last` elements
// of the last lane are there; where b is Padded, its rows may be read in full lanes all the same.
template <class T, int M, int N, bool Part, bool Padded>
TYCHO_INLINE void block_of(int64_t k, const T* a, int64_t rs, int64_t cs, const T* b, int64_t ldb,
                           int64_t next, T* c, int64_t ldc, int last, int begin, const T* bias) {
  using L = Lane<T>;
  constexpr int size = L::size;
  L sum[M][N];
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) sum[i][j] = L(0);
  const T* a4 = a + (M > 4 ? 4 : 0) * rs;
  const T* a8 = a + (M > 8 ? 8 : 0) * rs;
  const int64_t ahead = k > kRowsAhead ? kRowsAhead * ldb : 0;
  for (int64_t p = 0; p < k; ++p) {
    L bv[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      const T* const from = j < 2 ? b + j * size : b + next + (j - 2) * size;
      bv[j] = Part && !Padded && j == N - 1 ? load_part(from, last) : L::load(from);
      stay(bv[j]);
      if (N > 1) __builtin_prefetch(from + ahead, 0, 3);
    }
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) {
      const T* row = i < 4 ? a + i * rs : i < 8 ? a4 + (i - 4) * rs : a8 + (i - 8) * rs;
      const L av(*row);
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) sum[i][j] = muladd(av, bv[j], sum[i][j]);
    }
    a += cs, a4 += cs, a8 += cs;
    b += ldb;
  }
  if (begin != kZero) {
    const T* from = begin == kAdd ? c : bias;
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i, from += begin == kBias ? 0 : ldc)
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j)
        sum[i][j] +=
            Part && j == N - 1 ? load_part<T>(from + j * size, last) : L::load(from + j * size);
  }
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i, c += ldc) {
    asm("" : "+r"(c));  // or else GCC finds all rows before the first, and puts them away
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j)
      if (Part && j == N - 1)
        store_part(sum[i][j], c + j * size, last);
      else
        sum[i][j].store(c + j * size);
  }
}

template <class T, int M, int N, bool Part, bool Padded>
void block(int64_t k, const T* a, int64_t rs, int64_t cs, const T* b, int64_t ldb, T* c,
           int64_t ldc, int last, int begin, const T* bias) {
  block_of<T, M, N, Part, Padded>(k, a, rs, cs, b, ldb, 2 * Lane<T>::size, c, ldc, last, begin,
                                  bias);
}

template <class T>
using BlockFn = void (*)(int64_t, const T*, int64_t, int64_t, const T*, int64_t, T*, int64_t, int,
                         int, const T*);

// Rows of the block that comes next where m are left. A multiply-add takes four cycles and two
// begin in each, so that a block of less than four rows waits for its own sums: what is left is cut
// evenly.
constexpr int rows_next(int64_t m) {
  if (!kManyBlocks) return m >= kBlockRows ? kBlockRows : 1;
  if (m >= 2 * kBlockRows) return kBlockRows;
  return static_cast<int>(m > kBlockRows ? (m + 1) / 2 : m);
}

// By rows, lanes - 1, and whether the last one is a part.
template <class T, bool Padded>
struct Blocks {
  template <int M>
  static BlockFn<T> of(int lanes, bool part) {
    if (lanes == 1) return part ? block<T, M, 1, true, Padded> : block<T, M, 1, false, false>;
    return part ? block<T, M, 2, true, Padded> : block<T, M, 2, false, false>;
  }
  template <int M = kBlockRows>
  static BlockFn<T> at(int rows, int lanes, bool part) {
    if constexpr (M > 1)
      if (rows < M) return at<(kManyBlocks ? M - 1 : 1)>(rows, lanes, part);
    return of<M>(lanes, part);
  }
};

// Rows [0, m) of one column panel (n <= 2 lanes), in register blocks.
template <class T, bool Padded>
TYCHO_INLINE void panel(int64_t m, int n, int64_t k, const T* a, int64_t rs, int64_t cs, const T* b,
                        int64_t ldb, T* c, int64_t ldc, int begin, const T* bias) {
  constexpr int size = Lane<T>::size;
  const int lanes = n > size ? 2 : 1;
  const int last = n - (lanes - 1) * size;
  while (m > 0) {
    const int rows = rows_next(m);
    const BlockFn<T> fn = Blocks<T, Padded>::at(rows, lanes, last < size);
    do {
      fn(k, a, rs, cs, b, ldb, c, ldc, last, begin, bias);
      a += rows * rs;
      c += rows * ldc;
      if (begin == kRows) bias += rows * ldc;
      m -= rows;
    } while (m > 0 && rows == rows_next(m));
  }
}

// Few rows have four lanes of columns at a time, for enough sums that do not wait for each other.
#if defined(TYCHO_LEVEL_v4)
constexpr int kWideRows = 5;
#elif defined(TYCHO_LEVEL_v3)
constexpr int kWideRows = 2;
#else
constexpr int kWideRows = 0;
#endif
// Columns [0, n) as far as four lanes of them are there; returns how many. The row of b for column
// j begins at b + j * step.
template <class T, int M = kWideRows>
int64_t wide_rows(int64_t m, int64_t n, int64_t k, const T* a, int64_t rs, int64_t cs, const T* b,
                  int64_t ldb, int64_t step, T* c, int64_t ldc, int begin, const T* bias) {
  if constexpr (M > 0) {
    if (m < M) return wide_rows<T, M - 1>(m, n, k, a, rs, cs, b, ldb, step, c, ldc, begin, bias);
    constexpr int width = 2 * Lane<T>::size;
    int64_t j = 0;
    for (; m == M && j + 2 * width <= n; j += 2 * width)
      block_of<T, M, 4, false, false>(k, a, rs, cs, b + j * step, ldb, width * step, c + j, ldc,
                                      Lane<T>::size, begin, bias + (begin == kBias ? j : 0));
    return j;
  }
  return 0;
}

// Straight on the operands; b's rows are contiguous (ldb apart).
template <class T, bool Padded>
void gemm_direct(int64_t m, int64_t n, int64_t k, const T* a, int64_t rs, int64_t cs, const T* b,
                 int64_t ldb, T* c, int64_t ldc, int begin, const T* bias) {
  constexpr int width = kBlockLanes * Lane<T>::size;
  for (int64_t j = wide_rows<T>(m, n, k, a, rs, cs, b, ldb, 1, c, ldc, begin, bias); j < n;
       j += width) {
    const int cols = static_cast<int>(n - j < width ? n - j : width);
    panel<T, Padded>(m, cols, k, a, rs, cs, b + j, ldb, c + j, ldc, begin,
                     bias + (begin == kBias ? j : 0));
  }
}

// Panels of R rows by k: element (i, p), at from[i * rs + p * cs], goes to to[p * R + i]. Rows
// beyond `rows` are zeros.
template <class T, int R>
TYCHO_INLINE void pack_panel(const T* from, int64_t rs, int64_t cs, int rows, int64_t k, T* to) {
  constexpr int size = Lane<T>::size, line = 64 / sizeof(T);
  if (rs == 1) {
    for (int64_t p = 0; p < k; ++p)
      if (rows == R)
        memcpy(to + p * R, from + p * cs, R * sizeof(T));
      else
        for (int i = 0; i < R; i += size) {
          const int some = rows < i ? 0 : rows - i < size ? rows - i : size;
          store_part(load_part(from + p * cs + i, some), to + p * R + i,
                     R - i < size ? R - i : size);
        }
    return;
  }
  if (rows < R) memset(to, 0, static_cast<size_t>(k * R) * sizeof(T));
  int64_t p = 0;
  // A line of each row at a time: further ones may lie in the same sets of the first-level cache.
  const auto turn = [&](int64_t terms) __attribute__((always_inline)) {
    int i = 0;
    if constexpr (R % size == 0 && kTurnsLanes<T>)
      for (; i + size <= rows; i += size)
        for (int64_t q = p; q < p + terms; q += 4)
          transpose_lane(from + i * rs + q, rs, to + q * R + i, R);
    for (; i + 4 <= rows; i += 4)
      for (int64_t q = p; q < p + terms; q += 4) turn4(from + i * rs + q, rs, to + q * R + i, R);
    for (; i < rows; ++i)
      for (int64_t q = p; q < p + terms; ++q) to[q * R + i] = from[i * rs + q];
    p += terms;
  };
  if (cs == 1) {
    while (p + line <= k) turn(line);
    while (p + 4 <= k) turn(4);
  }
  for (; p < k; ++p)
    for (int i = 0; i < rows; ++i) to[p * R + i] = from[i * rs + p * cs];
}

template <class T, int R>
void pack(const T* from, int64_t rs, int64_t cs, int64_t rows, int64_t k, T* to) {
  // Where elements of one p lie side by side, a few p go through all panels at a time: whole cache
  // lines are used while they are there.
  const int64_t depth = rs == 1 ? 16 : k;
  for (int64_t p = 0; p < k; p += depth)
    for (int64_t i = 0; i < rows; i += R)
      pack_panel<T, R>(from + i * rs + p * cs, rs, cs,
                       static_cast<int>(rows - i < R ? rows - i : R), k - p < depth ? k - p : depth,
                       to + i * k + p * R);
}

// A block of rows times a block of columns, b packed. Panel i of a's rows begins at a + i * step,
// its element (i, p) lies at [i * rs + p * cs]: packed panels, or rows in place.
template <class T>
void gemm_packed(int64_t m, int64_t n, int64_t k, const T* a, int64_t step, int64_t rs, int64_t cs,
                 const T* b, T* c, int64_t ldc, int begin, const T* bias) {
  constexpr int width = kBlockLanes * Lane<T>::size;
  for (int64_t j = wide_rows<T>(m, n, k, a, rs, cs, b, width, k, c, ldc, begin, bias); j < n;
       j += width) {
    const int cols = static_cast<int>(n - j < width ? n - j : width);
    const T* bias_j = bias + (begin == kBias ? j : 0);
    int64_t i = 0;
    if (cols == width) {
      for (; i + kBlockRows <= m; i += kBlockRows)
        block<T, kBlockRows, kBlockLanes, false, false>(k, a + i * step, rs, cs, b + j * k, width,
                                                        c + i * ldc + j, ldc, Lane<T>::size, begin,
                                                        bias_j);
      if (i < m)
        panel<T, kManyBlocks>(m - i, cols, k, a + i * step, rs, cs, b + j * k, width,
                              c + i * ldc + j, ldc, begin, bias_j);
      continue;
    }
    for (; i < m; i += kBlockRows)
      panel<T, kManyBlocks>(m - i < kBlockRows ? m - i : kBlockRows, cols, k, a + i * step, rs, cs,
                            b + j * k, width, c + i * ldc + j, ldc, begin, bias_j);
  }
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
