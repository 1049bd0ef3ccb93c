// grid_sample where no gradient is wanted (ops/nn/grid_sample.cpp says what it computes): the taps of some
// positions are found once, and then read for every channel.
#include "engine/cpu/nn/grid_sample.h"

#include <algorithm>
#include <string_view>

#include "engine/base/parallel.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

template <class T>
void sample(const Tensor& x, const Tensor& grid, const Tensor& out, const GridSampler& s) {
  const int64_t channels = x.size(1), planes = x.size(0) * channels;
  const int64_t places = x.numel() / planes, points = out.numel() / planes;
  const int64_t blocks = (points + kGridPoints - 1) / kGridPoints;
  const T *const from = x.data<T>(), *const g = grid.data<T>();
  T* const to = out.data<T>();
  const int64_t grain = std::max<int64_t>(1, 16384 / (kGridPoints * channels * s.taps()));
  parallel_for(x.size(0) * blocks, grain, [&](int64_t begin, int64_t end) {
    alignas(64) int32_t place[kGridTaps * kGridPoints];
    alignas(64) T weight[kGridTaps * kGridPoints];
    for (int64_t b = begin; b < end; ++b) {
      const int64_t image = b / blocks, first = b % blocks * kGridPoints;
      const int m = static_cast<int>(std::min<int64_t>(kGridPoints, points - first));
      const T* const at = g + (image * points + first) * s.dims;
      if constexpr (sizeof(T) == 4)
        level_of::grid_taps_f32(&s, at, m, place, weight);
      else
        level_of::grid_taps_f64(&s, at, m, place, weight);
      for (int64_t c = 0; c < channels; ++c) {
        const T* const plane = from + (image * channels + c) * places;
        T* const y = to + (image * channels + c) * points + first;
        if constexpr (sizeof(T) == 4)
          level_of::grid_read_f32(plane, place, weight, s.taps(), m, y);
        else
          level_of::grid_read_f64(plane, place, weight, s.taps(), m, y);
      }
    }
  });
}

void grid_sample_forward(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const DType type = out.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  const auto as = [&](const Tensor& t) {
    if (t.dtype() == type && t.contiguous()) return t;
    const Tensor to = empty(t.shape(), type);
    copy_raw(to, t);
    return to;
  };
  const Tensor x = as(c.tensor(0)), grid = as(c.tensor(1));
  const std::string_view mode = c.string(2), padding = c.string(3);
  GridSampler s;
  s.mode = mode == "nearest"   ? GridSampler::Nearest
           : mode == "bicubic" ? GridSampler::Cubic
                               : GridSampler::Linear;
  s.padding = padding == "border"       ? GridSampler::Border
              : padding == "reflection" ? GridSampler::Reflection
                                        : GridSampler::Zeros;
  s.corners = c.flag(4);
  s.dims = x.rank() - 2;
  for (int d = 0; d < s.dims; ++d) s.size[d] = x.size(d + 2);
  const Tensor result = out.dtype() == type ? out : empty(out.shape(), type);
  if (type == DType::Float64)
    sample<double>(x, grid, result, s);
  else
    sample<float>(x, grid, result, s);
  if (result.get() != out.get()) copy_raw(out, result);
}

BIND_KERNEL(Cpu, "grid_sample_forward", grid_sample_forward);

}  // namespace
}  // namespace tycho::cpu
