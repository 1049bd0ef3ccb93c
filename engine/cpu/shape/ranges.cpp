// Kernels that make numbers from positions: arange, linspace, logspace, the positions of triangles,
// positions repeated, positions of padding.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cpu {
namespace {

// Element i of a one-dimensional tensor becomes f(i), an int64 or a double, converted once.
template <class F>
void fill_by(const Tensor& out, int64_t n, F f) {
  using T = decltype(f(int64_t{0}));
  constexpr DType wide = std::is_same_v<T, double> ? DType::Float64 : DType::Int64;
  if (out.dtype() == wide && out.contiguous()) {
    T* p = out.data<T>();
    for (int64_t i = 0; i < n; ++i) p[i] = f(i);
    return;
  }
  constexpr int64_t kTile = 4096;
  Tensor tile = empty({std::min(n, kTile)}, wide);
  T* p = tile.data<T>();
  for (int64_t at = 0; at < n; at += kTile) {
    const int64_t m = std::min(kTile, n - at);
    for (int64_t i = 0; i < m; ++i) p[i] = f(at + i);
    copy_raw(alias(out, {m}, out.strides(), out->offset + at * out.stride(0)),
             alias(tile, {m}, {1}, 0));
  }
}

bool is_whole(const Value& v) { return v.tag != Tag::Float; }
void fill_arange(const Tensor& out, const Value& start, const Value& step) {
  const int64_t n = out.numel();
  if (is_whole(start) && is_whole(step) && !is_floating(out.dtype())) {
    const uint64_t a = start.tag == Tag::Int ? start.i : start.b,
                   s = step.tag == Tag::Int ? step.i : step.b;
    fill_by(out, n,
            [=](int64_t i) { return static_cast<int64_t>(a + s * static_cast<uint64_t>(i)); });
    return;
  }
  double a = start.number(), s = step.number();
  if (!is_floating(out.dtype())) a = std::trunc(a), s = std::trunc(s);  // as PyTorch
  fill_by(out, n, [=](int64_t i) { return a + s * static_cast<double>(i); });
}

// An end of a range: a number, or a 0-d tensor.
double end_value(const Call& c, int i) {
  return c.arg[i].tag == Tag::Tensor ? item(c.tensor(i)) : c.number(i);
}
// Element i of n evenly spaced ones, exact at both ends.
struct Spaced {
  double a, b, step;
  int64_t n;
  explicit Spaced(const Call& c) : a(end_value(c, 0)), b(end_value(c, 1)), n(c.integer(2)) {
    if (!is_floating(c.out[0].dtype())) a = std::trunc(a), b = std::trunc(b);
    step = n > 1 ? (b - a) / static_cast<double>(n - 1) : 0;
  }
  double operator()(int64_t i) const {
    return i < n / 2 || n == 1 ? a + step * static_cast<double>(i)
                               : b - step * static_cast<double>(n - 1 - i);
  }
};

// Positions (from 1) of the lower or the upper triangle of a matrix.
void triangle_fill(Call& c, bool lower) {
  const int64_t rows = c.integer(0), cols = c.integer(1), offset = c.integer(2),
                n = c.out[0].size(1);
  Tensor wide = empty({2, n}, DType::Int64);
  auto* p = wide.data<int64_t>();
  int64_t i = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t edge = std::clamp<int64_t>(lower ? r + offset + 1 : r + offset, 0, cols);
    for (int64_t k = lower ? 0 : edge, end = lower ? edge : cols; k < end; ++k, ++i)
      p[i] = r + 1, p[n + i] = k + 1;
  }
  copy_raw(c.out[0], wide);
}

}  // namespace

void arange(Call& c) { fill_arange(c.out[0], Value(int64_t{0}), Value(int64_t{1})); }
void arange_start(Call& c) { fill_arange(c.out[0], c.arg[0], c.arg[2]); }
void linspace(Call& c) { fill_by(c.out[0], c.out[0].numel(), Spaced(c)); }
void logspace(Call& c) {
  const Spaced at(c);
  const double base = c.number(3);
  fill_by(c.out[0], c.out[0].numel(), [=](int64_t i) { return std::pow(base, at(i)); });
}
void tril_indices(Call& c) { triangle_fill(c, true); }
void triu_indices(Call& c) { triangle_fill(c, false); }

void repeat_positions(Call& c) {
  const Tensor repeats = empty(c.tensor(0).shape(), DType::Int64);
  copy_raw(repeats, c.tensor(0));
  const int64_t n = repeats.numel(), *times = repeats.data<int64_t>();
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    TYCHO_CHECK(Kind::Value, times[i] >= 0, "repeat_interleave: a count cannot be %lld",
                static_cast<long long>(times[i]));
    TYCHO_CHECK(Kind::Shape, times[i] < kMostRepeated && (total += times[i]) < kMostRepeated,
                "repeat_interleave: too many elements");
  }
  if (c.has(1))
    TYCHO_CHECK(Kind::Value, c.integer(1) == total,
                "repeat_interleave: output_size is %lld, but the counts sum to %lld",
                static_cast<long long>(c.integer(1)), static_cast<long long>(total));
  c.out.push_back(empty({total}, DType::Int64, c.tensor(0).device()));
  int64_t* to = c.out[0].data<int64_t>();
  for (int64_t i = 0; i < n; ++i) to = std::fill_n(to, times[i], i + 1);
}

void pad_positions(Call& c) {
  const int64_t n = c.integer(0), before = c.integer(1), after = c.integer(2);
  const std::string_view mode = c.string(3);
  const bool reflect = mode == "reflect", replicate = mode == "replicate";
  int64_t* to = c.out[0].data<int64_t>();
  for (int64_t i = 0; i < c.out[0].numel(); ++i) {
    int64_t at = i - before;
    if (reflect) {
      at = at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
    } else if (replicate) {
      at = std::clamp<int64_t>(at, 0, n - 1);
    } else {  // circular; what is cropped does not come around
      const int64_t first = std::max<int64_t>(-before, 0),
                    most = n - first + std::min<int64_t>(after, 0);
      at = first + ((at - first) % most + most) % most;
    }
    to[i] = at + 1;
  }
}

BIND_KERNEL(Cpu, "pad_positions", pad_positions);
BIND_KERNEL(Cpu, "arange", arange);
BIND_KERNEL(Cpu, "arange.start", arange_start);
BIND_KERNEL(Cpu, "linspace", linspace);
BIND_KERNEL(Cpu, "logspace", logspace);
BIND_KERNEL(Cpu, "tril_indices", tril_indices);
BIND_KERNEL(Cpu, "triu_indices", triu_indices);
BIND_KERNEL(Cpu, "repeat_interleave.counts", repeat_positions);

}  // namespace tycho::cpu
