// softmax and log_softmax on a device, over any dimension.
#include "engine/cuda/ops/along.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

void softmax(Call& c, bool log) {
  const Tensor x = packed(c.tensor(0)), &out = c.out[0];
  const Written y(out);
  Along a = along(Cut(x.shape(), c.integer(1)));
  a.log = log;
  a.in = x.data<void>();
  a.in_dtype = number_of(x);
  a.out = y.data();
  a.out_dtype = number_of(out);
  const bool wide = wants_double(x) || wants_double(out);
  launch_along(x.device(), {"softmax", wide ? "softmax_f64" : "softmax_f32"}, a);
  y.finish();
}

void softmax_backward(Call& c, bool log) {
  const Tensor g = packed(c.tensor(0)), y = packed(c.tensor(1)), &out = c.out[0];
  const Written dx(out);
  Along a = along(Cut(g.shape(), c.integer(2)));
  a.log = log;
  a.grad = g.data<void>();
  a.grad_dtype = number_of(g);
  a.in = y.data<void>();
  a.in_dtype = number_of(y);
  a.out = dx.data();
  a.out_dtype = number_of(out);
  const bool wide = wants_double(g) || wants_double(y);
  launch_along(g.device(), {"softmax", wide ? "softmax_backward_f64" : "softmax_backward_f32"}, a);
  dx.finish();
}

BIND_KERNEL(Cuda, "softmax", [](Call& c) { softmax(c, false); });
BIND_KERNEL(Cuda, "log_softmax", [](Call& c) { softmax(c, true); });
BIND_KERNEL(Cuda, "softmax_backward", [](Call& c) { softmax_backward(c, false); });
BIND_KERNEL(Cuda, "log_softmax_backward", [](Call& c) { softmax_backward(c, true); });

}  // namespace
}  // namespace tycho::cuda
