// The kernel of `resample` (ops/nn/resize.cpp): weighted sums of neighbours along one dimension,
// and their transpose.
#include "engine/cpu/nn/resample.h"
#include "engine/ops/table/kernel.h"

#include <algorithm>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/ops/table/apply.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kWork = 16384;  // multiplications in one chunk

struct Loops {
  int64_t outer, in, out, inner, taps;
  const int64_t* first;
};

int64_t grain(int64_t work_each) {
  return std::max<int64_t>(1, kWork / std::max<int64_t>(1, work_each));
}

template <class T, class Rows, class Lines>
void mix(const Loops& s, const T* x, T* y, const T* w, Rows rows, Lines lines) {
  if (s.inner == 1) {
    parallel_for(s.outer, (grain(s.out * s.taps) + 3) / 4 * 4, [&](int64_t begin, int64_t end) {
      lines(x + begin * s.in, s.in, y + begin * s.out, s.out, s.first, w, s.taps, end - begin);
    });
    return;
  }
  parallel_for(s.outer * s.out, grain(s.inner * s.taps), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t o = r / s.out, i = r % s.out;
      rows(x + (o * s.in + s.first[i]) * s.inner, s.inner, y + r * s.inner, w + i * s.taps, s.taps,
           s.inner);
    }
  });
}

// Each chunk owns some columns of one outer index, so that no two add to the same place.
template <class T, class Rows>
void spread(const Loops& s, const T* x, T* y, const T* w, Rows rows) {
  constexpr int64_t kColumns = 512;
  const int64_t blocks = (s.inner + kColumns - 1) / kColumns;
  parallel_for(s.outer * blocks, grain(s.out * s.taps * std::min(s.inner, kColumns)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   const int64_t o = r / blocks, j = r % blocks * kColumns;
                   const int64_t n = std::min(kColumns, s.inner - j);
                   T* const to = y + o * s.in * s.inner + j;
                   for (int64_t p = 0; p < s.in; ++p)
                     std::memset(to + p * s.inner, 0, static_cast<size_t>(n) * sizeof(T));
                   for (int64_t i = 0; i < s.out; ++i)
                     rows(x + (o * s.out + i) * s.inner + j, s.inner, to + s.first[i] * s.inner,
                          w + i * s.taps, s.taps, n);
                 }
               });
}

}  // namespace

void resample(Call& c) {
  const Tensor x = packed(c.tensor(0)), first = packed(c.tensor(1)), w = packed(c.tensor(2));
  const Tensor& y = c.out[0];
  const int dim = static_cast<int>(c.integer(3));
  const bool back = c.flag(5);
  Loops s{1, back ? y.size(dim) : x.size(dim), w.size(0), 1, w.size(1), first.data<int64_t>()};
  for (int d = 0; d < dim; ++d) s.outer *= x.size(d);
  for (int d = dim + 1; d < x.rank(); ++d) s.inner *= x.size(d);
  if (x.numel() == 0 || y.numel() == 0) return;
  if (x.dtype() == DType::Float64) {
    const double *a = x.data<double>(), *b = w.data<double>();
    if (back)
      spread(s, a, y.data<double>(), b, [](auto... v) { level_of::spread_rows_f64(v...); });
    else
      mix(
          s, a, y.data<double>(), b, [](auto... v) { level_of::mix_rows_f64(v...); },
          [](auto... v) { level_of::mix_lines_f64(v...); });
    return;
  }
  const float *a = x.data<float>(), *b = w.data<float>();
  if (back)
    spread(s, a, y.data<float>(), b, [](auto... v) { level_of::spread_rows_f32(v...); });
  else
    mix(
        s, a, y.data<float>(), b, [](auto... v) { level_of::mix_rows_f32(v...); },
        [](auto... v) { level_of::mix_lines_f32(v...); });
}

BIND_KERNEL(Cpu, "resample", resample);

}  // namespace tycho::cpu
