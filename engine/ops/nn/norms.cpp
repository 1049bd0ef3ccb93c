// What the normalisations share (see norms.h).
#include "engine/ops/nn/norms.h"

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho::norms {

DType wide(DType t) { return t == DType::Float64 ? t : DType::Float32; }

void check_floating(const Tensor& x, const char* name) {
  TYCHO_CHECK(Kind::DType, is_floating(x.dtype()), "%s: takes floating point numbers, not %s", name,
              dtype_name(x.dtype()));
}

void check_samples(const Tensor& x, const char* name) {
  check_floating(x, name);
  TYCHO_CHECK(Kind::Dim, x.rank() >= 2,
              "%s: the input has at least 2 dimensions (samples and channels), not %d", name,
              x.rank());
}

void result_and_two(Call& c, const Tensor& result, const Sizes& each) {
  c.out.push_back(result);
  for (int i = 0; i < 2; ++i) c.out.push_back(empty(each, wide(result.dtype()), result.device()));
}

Plain::Plain(const Tensor& self, const Tensor& g, const Tensor& gain, const Sizes& shape_,
             const Sizes& weight_, const Sizes& dims_, double eps_, bool centred_,
             const Sizes& w_shape)
    : shape(shape_), weight(weight_), dims(dims_), eps(eps_), centred(centred_) {
  const Tensor v = op<"reshape">(self, shape), gv = op<"reshape">(g, shape);
  double n = 1;
  for (int64_t d : dims) n *= static_cast<double>(shape[static_cast<int>(d)]);
  const auto mean = [&](const Tensor& t) { return op<"sum">(t, dims, true) / n; };
  const Tensor middle = centred ? v - mean(v) : v;
  const Tensor rstd = fn::pow(mean(middle * middle) + eps, -0.5);
  const Tensor unit = middle * rstd;
  const Tensor h = gain ? gv * op<"reshape">(gain, weight) : gv;
  const Tensor inner = h - unit * mean(h * unit);
  x = op<"reshape">(rstd * (centred ? inner - mean(h) : inner), self.shape());
  w = op<"reshape">(op<"sum_to_size">(gv * unit, weight), w_shape);
  b = op<"reshape">(op<"sum_to_size">(gv, weight), w_shape);
}

void set(Backward& b, const Plain& p, int weight, int bias) {
  if (b.needs(0)) b.set(0, p.x);
  if (b.needs(weight)) b.set(weight, p.w);
  if (bias >= 0 && b.needs(bias)) b.set(bias, p.b);
}
void set(Backward& b, const SmallVec<Tensor, 2>& grads, int weight, int bias) {
  if (b.needs(0)) b.set(0, grads[0]);
  if (b.needs(weight)) b.set(weight, grads[1]);
  if (bias >= 0 && b.needs(bias)) b.set(bias, grads[2]);
}

Tensor constant(const Tensor& t) {  // a saved result, without its graph
  NoGrad quiet;
  return op<"clone">(t);
}

void check_channels(const Tensor& t, const char* op_name, const char* name, int64_t channels) {
  if (!t) return;
  TYCHO_CHECK(Kind::Shape, t.rank() == 1 && t.size(0) == channels,
              "%s: %s needs one number for each of the %lld channels, got shape %s", op_name, name,
              static_cast<long long>(channels), to_string(t.shape()).c_str());
  check_floating(t, op_name);
}

}  // namespace tycho::norms
