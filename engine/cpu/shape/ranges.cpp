// Kernels that make numbers from positions: arange, linspace, logspace, the positions of triangles,
// positions repeated, positions of padding.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cpu {
namespace {

// A one-dimensional tensor from tiles of double or int64: f(tile, at, m) makes elements [at, at + m).
template <class T, class F>
void fill_by(const Tensor& out, F f) {
  constexpr Lanes lanes = std::is_same_v<T, double> ? Lanes::F64 : Lanes::I64;
  constexpr int64_t kElements = 1024, kGrain = 32768;
  const int64_t step = out.stride(0), bytes = step * dtype_size(out.dtype());
  const bool direct = out.dtype() == lane_type_of(lanes) && step == 1;
  char* const data = out.data();
  parallel_for(
      out.numel(), kGrain,
      [&](int64_t begin, int64_t end) {
        alignas(64) T tile[kElements];
        for (int64_t at = begin; at < end; at += kElements) {
          const int64_t m = std::min(kElements, end - at);
          char* const to = data + at * bytes;
          f(direct ? reinterpret_cast<T*>(to) : tile, at, m);
          if (!direct)
            level_of::store_tile(static_cast<int>(lanes), static_cast<int>(out.dtype()), to, tile,
                                 step, m);
        }
      },
      Interrupts::Hold);
}

bool is_whole(const Value& v) { return v.tag != Tag::Float; }
void fill_arange(const Tensor& out, const Value& start, const Value& step) {
  if (is_whole(start) && is_whole(step) && !is_floating(out.dtype())) {
    const uint64_t a = start.tag == Tag::Int ? start.i : start.b,
                   s = step.tag == Tag::Int ? step.i : step.b;
    fill_by<int64_t>(out, [=](int64_t* tile, int64_t at, int64_t m) {
      level_of::ramp_i64(tile, static_cast<int64_t>(a + s * static_cast<uint64_t>(at)),
                         static_cast<int64_t>(s), m);
    });
    return;
  }
  double a = start.number(), s = step.number();
  if (!is_floating(out.dtype())) a = std::trunc(a), s = std::trunc(s);  // as PyTorch
  fill_by<double>(out, [=](double* tile, int64_t at, int64_t m) {
    level_of::ramp_f64(tile, a, s, static_cast<double>(at), 1, m);
  });
}

// An end of a range: a number, or a 0-d tensor.
double end_value(const Call& c, int i) {
  return c.arg[i].tag == Tag::Tensor ? item(c.tensor(i)) : c.number(i);
}
// Elements of n evenly spaced ones, each half counted from its own end, so that both are exact.
struct Spaced {
  double a, b, step;
  int64_t n;
  explicit Spaced(const Call& c) : a(end_value(c, 0)), b(end_value(c, 1)), n(c.integer(2)) {
    if (!is_floating(c.out[0].dtype())) a = std::trunc(a), b = std::trunc(b);
    step = n > 1 ? (b - a) / static_cast<double>(n - 1) : 0;
  }
  void operator()(double* tile, int64_t at, int64_t m) const {
    const int64_t half = n == 1 ? 1 : n / 2, head = std::clamp<int64_t>(half - at, 0, m);
    level_of::ramp_f64(tile, a, step, static_cast<double>(at), 1, head);
    level_of::ramp_f64(tile + head, b, -step, static_cast<double>(n - 1 - at - head), -1, m - head);
  }
};

// Positions (from 1) of the lower or the upper triangle of a matrix: of each row, its number as often
// as it has places, and where they are.
template <class T>
void triangle_rows(T* p, int64_t n, bool lower, int64_t rows, int64_t cols, int64_t offset) {
  T *row = p, *column = p + n;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t edge = std::clamp<int64_t>(lower ? r + offset + 1 : r + offset, 0, cols),
                  first = lower ? 0 : edge, count = lower ? edge : cols - edge;
    row = std::fill_n(row, count, static_cast<T>(r + 1));
    for (int64_t k = 0; k < count; ++k) column[k] = static_cast<T>(first + k + 1);
    column += count;
  }
}
void triangle_fill(Call& c, bool lower) {
  const int64_t rows = c.integer(0), cols = c.integer(1), offset = c.integer(2),
                n = c.out[0].size(1);
  const DType type = c.out[0].dtype();
  if (type == DType::Int32)
    return triangle_rows(c.out[0].data<int32_t>(), n, lower, rows, cols, offset);
  const Tensor wide = type == DType::Int64 ? c.out[0] : empty({2, n}, DType::Int64);
  triangle_rows(wide.data<int64_t>(), n, lower, rows, cols, offset);
  if (type != DType::Int64) copy_raw(c.out[0], wide);
}

}  // namespace

void arange(Call& c) { fill_arange(c.out[0], Value(int64_t{0}), Value(int64_t{1})); }
void arange_start(Call& c) { fill_arange(c.out[0], c.arg[0], c.arg[2]); }
void linspace(Call& c) { fill_by<double>(c.out[0], Spaced(c)); }
void logspace(Call& c) {
  const Spaced spaced(c);
  const double base = c.number(3);
  fill_by<double>(c.out[0], [&](double* tile, int64_t at, int64_t m) {
    spaced(tile, at, m);
    for (int64_t i = 0; i < m; ++i) tile[i] = std::pow(base, tile[i]);
  });
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
