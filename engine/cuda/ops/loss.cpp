// Losses of labels on a device, of other operations that have kernels there: nothing leaves the device.
#include "engine/ops/nn/loss.h"

#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

DType wide_of(DType t) { return t == DType::Float64 ? t : DType::Float32; }
Tensor widened(const Tensor& t) {
  return t.dtype() == wide_of(t.dtype()) ? t : op<"to.dtype">(t, wide_of(t.dtype()));
}

// Scores as [samples, classes, places], and what their labels say.
struct Labelled {
  Classes k;
  Sizes flat, each;     // with and without the classes
  Tensor keep, at;      // as Labels, [samples, 1, places]
  Tensor weights, own;  // [1, classes, 1] or none; each label's
  Labelled(const Classes& classes, const Tensor& target, const Tensor& weight, int64_t ignored,
           DType type)
      : k(classes), flat{k.samples, k.classes, k.places}, each{k.samples, 1, k.places} {
    const Labels labels = labels_of(target, each, ignored);
    keep = labels.keep;
    at = labels.at;
    if (!weight) {
      own = filled(each, 1, type, target.device());
      return;
    }
    weights = op<"reshape">(op<"to.dtype">(weight, type), Sizes{1, k.classes, 1});
    own = op<"gather">(op<"expand">(weights, flat), 1, at);
  }
  Tensor total() const { return op<"sum">(where_kept(own)); }
  Tensor where_kept(const Tensor& x) const { return op<"where">(keep, x, 0.0); }
  Tensor times_weights(const Tensor& x) const { return weights ? x * weights : x; }
  Tensor sum_of_weights() const { return op<"sum">(weights); }
};

void store(const Tensor& each, const Tensor& total, const char* reduction, const Tensor& out) {
  const Reduction r = parse_reduction(reduction);
  if (r == Reduction::None) return copy_raw(out, op<"reshape">(each, out.shape()));
  const Tensor sum = op<"sum">(each, Value(), false, DType::Float64);
  copy_raw(out, r == Reduction::Mean ? sum / total : sum);
}

void softmax_nll(Call& c) {
  const Tensor x = widened(c.tensor(0));
  const Labelled l(classes_of(x), c.tensor(1), c.tensor(2), c.integer(3), x.dtype());
  const Tensor scores = op<"reshape">(x, l.flat);
  const Tensor sums = op<"logsumexp">(scores, Sizes{1}, true), total = l.total();
  const double smoothing = c.number(4);
  Tensor loss = l.own * (sums - op<"gather">(scores, 1, l.at)) * (1 - smoothing);
  if (smoothing > 0)
    loss = loss + op<"sum">(l.times_weights(sums - scores), Sizes{1}, true) *
                      (smoothing / static_cast<double>(l.k.classes));
  copy_raw(c.out[1], op<"reshape">(sums, c.out[1].shape()));
  copy_raw(c.out[2], total);
  store(l.where_kept(loss), total, c.string(5), c.out[0]);
}

void softmax_nll_backward(Call& c) {
  const Tensor x = widened(c.tensor(1)), given = widened(c.tensor(0));
  const Labelled l(classes_of(x), c.tensor(2), c.tensor(3), c.integer(6), x.dtype());
  const Reduction r = parse_reduction(c.string(8));
  const double smoothing = c.number(7), spread = smoothing / static_cast<double>(l.k.classes);
  const Tensor g = r == Reduction::None   ? op<"reshape">(given, l.each)
                   : r == Reduction::Mean ? given / c.tensor(5)
                                          : given;
  const Tensor unit = l.where_kept(op<"expand">(g, l.each)),
               chosen = unit * l.own * (1 - smoothing);
  Tensor scale = chosen;
  if (smoothing > 0)
    scale = scale + (l.weights ? unit * l.sum_of_weights() * spread : unit * smoothing);
  const Tensor sums = op<"reshape">(c.tensor(4), l.each);
  Tensor d = fn::exp(op<"reshape">(x, l.flat) - sums) * scale;
  if (smoothing > 0) d = d - l.times_weights(op<"expand">(unit * spread, l.flat));
  op_<"scatter_add">(d, 1, l.at, -chosen);
  copy_raw(c.out[0], op<"reshape">(l.where_kept(d), c.out[0].shape()));
}

void nll(Call& c) {
  const Tensor x = widened(c.tensor(0));
  const Labelled l(classes_of(x), c.tensor(1), c.tensor(2), c.integer(3), x.dtype());
  const Tensor total = l.total();
  const Tensor loss = -(l.own * op<"gather">(op<"reshape">(x, l.flat), 1, l.at));
  copy_raw(c.out[1], total);
  store(l.where_kept(loss), total, c.string(4), c.out[0]);
}

void nll_backward(Call& c) {
  const Tensor g = widened(c.tensor(0));
  const Tensor& out = c.out[0];
  const Labelled l(classes_of(out), c.tensor(1), c.tensor(2), c.integer(3), g.dtype());
  const Tensor d = filled(l.flat, 0, g.dtype(), g.device());
  op_<"scatter_add">(d, 1, l.at, l.where_kept(-(l.own * op<"reshape">(g, l.each))));
  copy_raw(out, op<"reshape">(d, out.shape()));
}

void nll_terms(Call& c) {
  const Tensor& terms = c.out[0];
  const Labelled l(classes_of(c.tensor(0)), c.tensor(1), c.tensor(2), c.integer(3), terms.dtype());
  const double smoothing = c.number(4), spread = smoothing / static_cast<double>(l.k.classes);
  const Tensor one = filled(l.each, 1, terms.dtype(), terms.device());
  const Tensor unit = l.where_kept(one), chosen = unit * l.own * (1 - smoothing);
  Tensor d = op<"clone">(l.times_weights(op<"expand">(unit * spread, l.flat)));
  op_<"scatter_add">(d, 1, l.at, chosen);
  copy_raw(terms, d);
  copy_raw(c.out[1], chosen + unit * smoothing *
                                  (l.weights ? l.sum_of_weights() / static_cast<double>(l.k.classes)
                                             : filled(Sizes(), 1, terms.dtype(), terms.device())));
}

// Labels count up to the first negative one.
void label_counts(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  const Tensor& given = c.tensor(1);
  const Tensor target = given.rank() ? given : Tensor(op<"reshape">(given, Sizes{1}));
  const Tensor ended = op<"cumsum">(op<"to.dtype">(fn::lt(target, 0), DType::Int64), -1);
  const Tensor counts = fn::eq(ended, 0), at = op<"where">(counts, target, 1);
  const Tensor sums = filled(target.shape(), 0, out.dtype(), out.device());
  op_<"scatter_add">(sums, -1, at, op<"to.dtype">(counts, out.dtype()));
  copy_raw(out, op<"reshape">(sums, out.shape()));
}

BIND_KERNEL(Cuda, "nll_terms", nll_terms);
BIND_KERNEL(Cuda, "label_counts", label_counts);
BIND_KERNEL(Cuda, "softmax_nll", softmax_nll);
BIND_KERNEL(Cuda, "softmax_nll_backward", softmax_nll_backward);
BIND_KERNEL(Cuda, "nll_forward", nll);
BIND_KERNEL(Cuda, "nll_backward", nll_backward);

}  // namespace
}  // namespace tycho::cuda
