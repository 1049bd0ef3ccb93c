// Resizing on a device.
#include "engine/cuda/kernels/resample.cuh"

#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

void resample(Call& c) {
  const Tensor x = packed(c.tensor(0)), first = packed(c.tensor(1)), w = packed(c.tensor(2));
  const Tensor& y = c.out[0];
  if (x.numel() == 0 || y.numel() == 0) return;
  const int dim = static_cast<int>(c.integer(3));
  const Written out(y);
  Resample r{};
  r.in = x.data<void>();
  r.in_dtype = number_of(x);
  r.weight = w.data<void>();
  r.weight_dtype = number_of(w);
  r.first = first.data<int64_t>();
  r.out = out.data();
  r.out_dtype = number_of(y);
  r.back = c.flag(5);
  r.numel = y.numel();
  r.inputs = r.back ? y.size(dim) : x.size(dim);
  r.outputs = w.size(0);
  r.taps = w.size(1);
  r.inner = Cut(x.shape(), dim).inner;
  launch(x.device(), {"resample", wants_double(x) ? "resample_f64" : "resample_f32"},
         grid_for(x.device(), r.numel), {256}, 0, r);
  out.finish();
}

void resample_taps(Call& c) {
  const Tensor &first = c.out[0], &weight = c.out[1];
  if (weight.numel() == 0) return;
  const Tensor wide = empty(weight.shape(), DType::Float64, weight.device());
  ResampleTaps t{};
  t.first = first.data<int64_t>();
  t.weight = wide.data<double>();
  t.inputs = c.integer(0);
  t.outputs = c.integer(1);
  t.taps = weight.size(1);
  t.scale = c.number(2);
  t.cubic = c.flag(3);
  t.corners = c.flag(4);
  t.antialias = c.flag(5);
  launch(wide.device(), {"resample", "resample_weights"}, grid_for(wide.device(), t.outputs), {256},
         0, t);
  copy_raw(weight, wide);
}

BIND_KERNEL(Cuda, "resample", resample);
BIND_KERNEL(Cuda, "resample_taps", resample_taps);

}  // namespace
}  // namespace tycho::cuda
