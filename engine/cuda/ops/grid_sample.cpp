// grid_sample on a device, where no gradient is wanted.
#include "engine/cuda/kernels/grid_sample.cuh"

#include <string_view>

#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

void grid_sample(Call& c) {
  const Tensor x = packed(c.tensor(0)), grid = packed(c.tensor(1)), &out = c.out[0];
  if (out.numel() == 0) return;
  const Written y(out);
  const std::string_view mode = c.string(2), padding = c.string(3);
  GridSample s{};
  s.x = x.data<void>();
  s.grid = grid.data<void>();
  s.out = y.data();
  s.dtype = number_of(x);
  s.dims = x.rank() - 2;
  s.corners = c.flag(4);
  s.mode = mode == "nearest"   ? GridMode::Nearest
           : mode == "bicubic" ? GridMode::Cubic
                               : GridMode::Linear;
  s.padding = padding == "border"       ? GridPadding::Border
              : padding == "reflection" ? GridPadding::Reflection
                                        : GridPadding::Zeros;
  for (int d = 0; d < s.dims; ++d) s.size[d] = x.size(d + 2);
  s.channels = x.size(1);
  s.places = x.numel() / (x.size(0) * x.size(1));
  s.points = out.numel() / (x.size(0) * x.size(1));
  s.numel = out.numel();
  launch(x.device(), {"grid_sample", wants_double(x) ? "grid_sample_f64" : "grid_sample_f32"},
         grid_for(x.device(), s.numel), {256}, 0, s);
  y.finish();
}

BIND_KERNEL(Cuda, "grid_sample_forward", grid_sample);

}  // namespace
}  // namespace tycho::cuda
