// Of each element of a line the product of all others, which is the derivative of the line's product.
#include <algorithm>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/row_parts.h"
#include "engine/cpu/scratch.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/layout.h"

namespace tycho::cpu {
namespace {

// Forward, each element's place takes the product of those before it; backward, of those behind. So many
// lines beside each other, `apart` elements from one to the next: a product waits for the one before.
template <int lines>
[[gnu::always_inline]] inline void products_of_others(const double* __restrict v,
                                                      double* __restrict y, int64_t n, int64_t step,
                                                      int64_t apart, const double* before,
                                                      const double* behind) {
  double product[lines];
  std::copy_n(before, lines, product);
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 16
    for (int k = 0; k < lines; ++k) {
      y[i * step + k * apart] = product[k];
      product[k] *= v[i * step + k * apart];
    }
  std::copy_n(behind, lines, product);
  for (int64_t i = n - 1; i >= 0; --i)
#pragma GCC unroll 16
    for (int k = 0; k < lines; ++k) {
      y[i * step + k * apart] *= product[k];
      product[k] *= v[i * step + k * apart];
    }
}

constexpr int kLanes = 16;
// The products of every sixteenth element of n / 16 * 16, and of the rest.
[[gnu::always_inline]] inline void products_of_lanes(const double* v, int64_t n, int64_t step,
                                                     double (&product)[kLanes + 1]) {
  std::fill_n(product, kLanes + 1, 1.0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma GCC unroll 16
    for (int k = 0; k < kLanes; ++k) product[k] *= v[(i + k) * step];
  for (; i < n; ++i) product[kLanes] *= v[i * step];
}

// One line. Its lanes go beside each other, each with the product of the other ones before and behind it;
// `first` and `last` are the products of what lies before and behind the line.
void products_of_line(const double* v, double* y, int64_t n, int64_t step, double first = 1,
                      double last = 1) {
  double lane[kLanes + 1], before[kLanes + 1], behind[kLanes + 1];
  if (step == 1)
    products_of_lanes(v, n, 1, lane);
  else
    products_of_lanes(v, n, step, lane);
  before[0] = first, behind[kLanes] = last;
  for (int k = 0; k < kLanes; ++k) before[k + 1] = before[k] * lane[k];
  for (int k = kLanes; k > 0; --k) behind[k - 1] = behind[k] * lane[k];
  const int64_t rows = n / kLanes, rest = rows * kLanes;
  if (step == 1)
    products_of_others<kLanes>(v, y, rows, kLanes, 1, before, behind);
  else
    products_of_others<kLanes>(v, y, rows, kLanes * step, step, before, behind);
  products_of_others<1>(v + rest * step, y + rest * step, n - rest, step, 0, before + kLanes,
                        behind + kLanes);
}

// Few long lines: pieces of a line, which stay near as doubles, are multiplied first; then each has the
// products before and behind it.
void products_in_parts(const RowParts& p, const Tensor& x, const Tensor& out) {
  constexpr int64_t kPiece = 1024;
  const Tensor in = packed(x), to = out.contiguous() ? out : empty(out.shape(), out.dtype());
  const int bytes = dtype_size(in.dtype()), type = static_cast<int>(in.dtype()),
            lanes = static_cast<int>(Lanes::F64);
  const int64_t pieces = (p.n + kPiece - 1) / kPiece;
  for (int64_t row = 0; row < p.rows; ++row) {
    const int64_t line = row * p.n;
    std::vector<double> before(static_cast<size_t>(pieces + 1), 1.0), behind(before);
    // f(first element, elements, their values)
    const auto each = [&](auto f) {
      p.each([&](int64_t at, int64_t n) {
        static_assert(RowParts::kPart % kPiece == 0);
        alignas(64) double v[kPiece];
        for (const int64_t end = at + n; at < end; at += kPiece) {
          const int64_t count = std::min(kPiece, end - at);
          level_of::load_tile(lanes, type, static_cast<void*>(v),
                              static_cast<const void*>(in.data() + (line + at) * bytes), int64_t{1},
                              count);
          f(at, count, static_cast<const double*>(v));
        }
      });
    };
    each([&](int64_t at, int64_t n, const double* v) {
      double lane[kLanes + 1], all = 1;
      products_of_lanes(v, n, 1, lane);
      for (double x : lane) all *= x;
      before[static_cast<size_t>(at / kPiece + 1)] = behind[static_cast<size_t>(at / kPiece)] = all;
    });
    for (size_t k = 1; k < before.size(); ++k) before[k] *= before[k - 1];
    for (size_t k = before.size() - 1; k > 0; --k) behind[k - 1] *= behind[k];
    each([&](int64_t at, int64_t n, const double* v) {
      alignas(64) double y[kPiece];
      const size_t k = static_cast<size_t>(at / kPiece);
      products_of_line(v, y, n, 1, before[k], behind[k + 1]);
      level_of::store_tile(lanes, type, static_cast<void*>(to.data() + (line + at) * bytes),
                           static_cast<const void*>(y), int64_t{1}, n);
    });
  }
  if (to.get() != out.get()) copy_raw(out, to);
}

// Long lines beside each other, the same way: parts of some rows of them stay near.
constexpr int64_t kLongColumn = 1024;
void products_of_columns(const Tensor& x, const Tensor& out, int64_t n, int64_t inner) {
  constexpr int64_t kRows = 128, kCols = 64;
  constexpr int kBeside = 8;
  const Tensor in = packed(x), to = out.contiguous() ? out : empty(out.shape(), out.dtype());
  const int bytes = dtype_size(in.dtype()), type = static_cast<int>(in.dtype()),
            lanes = static_cast<int>(Lanes::F64);
  const int64_t parts = (n + kRows - 1) / kRows, blocks = (inner + kCols - 1) / kCols;
  for (int64_t slab = 0; slab < x.numel(); slab += n * inner) {
    std::vector<double> before(static_cast<size_t>((parts + 1) * inner), 1.0), behind(before);
    // f(part, its first column, rows, columns, their values)
    const auto each = [&](auto f) {
      parallel_for(parts * blocks, 4, [&](int64_t begin, int64_t end) {
        const Scratch scratch(static_cast<size_t>(kRows * kCols) * sizeof(double));
        double* const v = reinterpret_cast<double*>(scratch.data());
        for (int64_t u = begin; u < end; ++u) {
          const int64_t part = u / blocks, j = u % blocks * kCols,
                        cols = std::min(kCols, inner - j), rows = std::min(kRows, n - part * kRows);
          const int64_t first = slab + part * kRows * inner + j;
          for (int64_t r = 0; r < rows; ++r)
            level_of::load_tile(lanes, type, v + r * cols, in.data() + (first + r * inner) * bytes,
                                1, cols);
          f(part, j, rows, cols, v);
        }
      });
    };
    each([&](int64_t part, int64_t j, int64_t rows, int64_t cols, const double* v) {
      double product[kCols];
      std::fill_n(product, cols, 1.0);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = 0; k < cols; ++k) product[k] *= v[r * cols + k];
      std::copy_n(product, cols, before.data() + (part + 1) * inner + j);
      std::copy_n(product, cols, behind.data() + part * inner + j);
    });
    for (int64_t k = inner; k < (parts + 1) * inner; ++k) before[k] *= before[k - inner];
    for (int64_t k = parts * inner - 1; k >= 0; --k) behind[k] *= behind[k + inner];
    each([&](int64_t part, int64_t j, int64_t rows, int64_t cols, const double* v) {
      double y[kRows * kCols];
      const double *const b = before.data() + part * inner + j, *const a = behind.data() +
                                                                           (part + 1) * inner + j;
      int64_t k = 0;
      for (; k + kBeside <= cols; k += kBeside)
        products_of_others<kBeside>(v + k, y + k, rows, cols, 1, b + k, a + k);
      for (; k < cols; ++k) products_of_others<1>(v + k, y + k, rows, cols, 0, b + k, a + k);
      const int64_t first = slab + part * kRows * inner + j;
      for (int64_t r = 0; r < rows; ++r)
        level_of::store_tile(lanes, type, to.data() + (first + r * inner) * bytes, y + r * cols, 1,
                             cols);
    });
  }
  if (to.get() != out.get()) copy_raw(out, to);
}

void prod_of_others(Call& c) {
  constexpr int kBeside = 8;
  constexpr double kOnes[kBeside] = {1, 1, 1, 1, 1, 1, 1, 1};
  const Tensor &x = c.tensor(0), &out = c.out[0];
  const int d = wrap_dim(c.integer(1), x.rank());
  const int64_t n = x.rank() ? x.size(d) : 1;
  if (x.numel() == 0) return;
  int64_t inner = 1;
  for (int k = d + 1; k < x.rank(); ++k) inner *= x.size(k);
  if (const RowParts parts(x.numel() / n, n); inner == 1 && !parts.whole())
    return products_in_parts(parts, x, out);
  if (inner > 1 && n >= kLongColumn && x.dtype() == out.dtype())
    return products_of_columns(x, out, n, inner);
  Tensor in = empty(x.shape(), DType::Float64), result = empty(x.shape(), DType::Float64);
  copy_raw(in, x);
  const double* v = in.data<double>();
  double* y = result.data<double>();
  parallel_for(x.numel() / n, std::max<int64_t>(1, 8192 / n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin, lines; row < end; row += lines) {
      const int64_t first = row / inner * n * inner + row % inner;
      // Neighbours, or whole rows one after the other.
      const bool beside = row + kBeside <= end && (inner == 1 || row % inner + kBeside <= inner);
      lines = beside ? kBeside : 1;
      if (beside)
        products_of_others<kBeside>(v + first, y + first, n, inner, inner == 1 ? n : 1, kOnes,
                                    kOnes);
      else
        products_of_line(v + first, y + first, n, inner);
    }
  });
  copy_raw(out, result);
}

}  // namespace

BIND_KERNEL(Cpu, "prod_of_others", prod_of_others);

}  // namespace tycho::cpu
