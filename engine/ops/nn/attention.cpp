// Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017), as PyTorch's: a
// fused op with a fused gradient, one with dropout where a device has a kernel for it, and the
// composition by other ops for what those leave out (gradients of the mask, gradients of gradients).

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

void check_attention(const Call& c) {
  const Tensor &q = c.tensor(0), &k = c.tensor(1), &v = c.tensor(2);
  TYCHO_CHECK(
      Kind::DType, q.dtype() == k.dtype() && q.dtype() == v.dtype(),
      "scaled_dot_product_attention: query, key and value must have one type, these are %s, "
      "%s and %s",
      dtype_name(q.dtype()), dtype_name(k.dtype()), dtype_name(v.dtype()));
  if (!is_floating(q.dtype()))
    fail(Kind::DType,
         format("scaled_dot_product_attention: takes floating point numbers, not %s",
                dtype_name(q.dtype())),
         "query:float(), key:float(), value:float()");
  TYCHO_CHECK(Kind::Shape, q.rank() >= 2 && k.rank() >= 2 && v.rank() >= 2,
              "scaled_dot_product_attention: takes at least 2 dimensions, not shapes %s, %s and %s",
              to_string(q.shape()).c_str(), to_string(k.shape()).c_str(),
              to_string(v.shape()).c_str());
  TYCHO_CHECK(Kind::Shape, q.size(-1) == k.size(-1) && k.size(-2) == v.size(-2),
              "scaled_dot_product_attention: query %s and key %s need one last size, key and value "
              "%s one length",
              to_string(q.shape()).c_str(), to_string(k.shape()).c_str(),
              to_string(v.shape()).c_str());
  TYCHO_CHECK(Kind::Argument, !(c.has(3) && c.flag(5)),
              "scaled_dot_product_attention: give attn_mask or is_causal, not both");
}

// The weights softmax(query key^T * scale + mask) of one rank's tensors, by plain operations.
Tensor weights_of(const Tensor& q, const Tensor& k, Tensor mask, bool causal, double scale) {
  Tensor scores = op<"matmul">(q * scale, op<"transpose">(k, -2, -1));
  if (causal) mask = op<"tril">(op<"ones">(Sizes{q.size(-2), k.size(-2)}, DType::Bool, q.device()));
  if (mask && mask.dtype() == DType::Bool)
    scores = op<"masked_fill">(scores, op<"logical_not">(mask), -HUGE_VAL);
  else if (mask)
    scores = scores + op<"to.dtype">(mask, scores.dtype());
  if (!mask) return op<"softmax">(scores, -1);
  // A row without any key gives zeros, and zero gradients, not nan.
  const auto without_key = [&] {
    NoGrad quiet;
    return op<"logical_not">(op<"any">(op<"ne">(scores, -HUGE_VAL), Sizes{-1}, true));
  };
  const Tensor none = without_key();
  return op<"masked_fill">(op<"softmax">(op<"masked_fill">(scores, none, 0), -1), none, 0);
}

DType computed_in(DType t) { return t == DType::Float64 ? t : DType::Float32; }
Tensor as_type(const Tensor& t, DType type) {
  return t.dtype() == type ? t : op<"to.dtype">(t, type);
}
// Keys and values of groups of queries, one for each query.
Tensor for_each_query(const Tensor& t, const Tensor& q) {
  if (q.rank() < 3 || t.size(-3) == q.size(-3)) return t;
  return op<"repeat_interleave">(t, q.size(-3) / t.size(-3), -3);
}

// --- the fused op: query, key and value have the same leading dimensions, but for groups ---

// Like `shape`, with heads and rows in the order in which `like` has them in memory: what follows
// usually puts them back.
Tensor laid_out_like(const Tensor& like, const Sizes& shape, DType type) {
  const Sizes stride = shown_strides(like.get());
  if (like.rank() != 4 || stride[1] >= stride[2]) return empty(shape, type, like.device());
  const Tensor t = empty(Sizes{shape[0], shape[2], shape[1], shape[3]}, type, like.device());
  return alias(t, shape, Sizes{t.stride(0), t.stride(2), t.stride(1), t.stride(3)}, 0);
}

void fused_shape(Call& c) {
  const Tensor& q = c.tensor(0);
  Sizes out = q.shape(), lse = q.shape();
  out.v[out.n - 1] = c.tensor(2).size(-1);
  --lse.n;
  c.out.push_back(laid_out_like(q, out, q.dtype()));
  c.out.push_back(empty(lse, computed_in(q.dtype()), q.device()));
}

// With a graph of their own; `factor`: what dropout made of the weights.
void composed_grad(Backward& b, const Tensor& factor) {
  const bool causal = b.flag(4);
  const double scale = b.number(5);
  const Tensor q0 = b.in(0), k0 = b.in(1), v0 = b.in(2), mask = b.in(3);
  const DType type = computed_in(q0.dtype());
  const Tensor q = as_type(q0, type), k = for_each_query(as_type(k0, type), q),
               v = for_each_query(as_type(v0, type), q), g = as_type(b.g(), type);
  const Tensor p = weights_of(q, k, mask, causal, scale);
  const auto turned = [](const Tensor& t) { return op<"transpose">(t, -2, -1); };
  const auto of_groups = [](const Tensor& t, const Tensor& like) {
    if (t.shape() == like.shape()) return t;
    Sizes split;
    for (int d = 0; d < t.rank() - 3; ++d) split.push_back(t.size(d));
    for (int64_t n :
         {like.size(-3), t.size(-3) / std::max<int64_t>(1, like.size(-3)), t.size(-2), t.size(-1)})
      split.push_back(n);
    return op<"sum">(op<"reshape">(t, split), Sizes{-3}, false);
  };
  const auto dropped = [&](const Tensor& t) { return factor ? t * factor : t; };
  const Tensor dp = dropped(op<"matmul">(g, turned(v)));
  const Tensor ds = p * (dp - op<"sum">(dp * p, Sizes{-1}, true)) * scale;
  if (b.needs(0)) b.set(0, op<"matmul">(ds, k));
  if (b.needs(1)) b.set(1, of_groups(op<"matmul">(turned(ds), q), k0));
  if (b.needs(2)) b.set(2, of_groups(op<"matmul">(turned(dropped(p)), g), v0));
}

void set_all(Backward& b, const SmallVec<Tensor, 2>& grads) {
  for (int i = 0; i < 3; ++i)
    if (b.needs(i)) b.set(i, grads[i]);
}
void fused_grad(Backward& b) {
  if (mode.grad) return composed_grad(b, Tensor());
  set_all(b, ops<"fused_attention_backward">(b.g(), b.in(0), b.in(1), b.in(2), b.in(3), b.flag(4),
                                             b.number(5), b.out(), b.out(1)));
}

const Op& fused_attention =
    add_op({.name = "fused_attention",
            .args = "query, key, value, attn_mask: tensor?, is_causal: bool, scale: float",
            .doc = "scaled_dot_product_attention in one pass, and the logarithm of each row's sum.",
            .where = kHidden,
            .saves = "query, key, value, attn_mask, out, out2",
            .shape = fused_shape,
            .grad = fused_grad});

void backward_shape(Call& c) {
  for (int i = 1; i <= 3; ++i) {
    const Tensor& t = c.tensor(i);
    c.out.push_back(laid_out_like(t, t.shape(), t.dtype()));
  }
}

const Op& fused_attention_backward = add_op(
    {.name = "fused_attention_backward",
     .args = "grad, query, key, value, attn_mask: tensor?, is_causal: bool, scale: float, result, "
             "lse",
     .doc = "The gradients of fused_attention's query, key and value.",
     .where = kHidden,
     .differentiable = false,
     .shape = backward_shape});

// --- the same with dropout, whose numbers are functions of a seed and a counter ---

void dropout_grad(Backward& b) {
  const Tensor q = b.in(0), k = b.in(1), mask = b.in(3);
  const double p = b.number(6);
  const std::vector<int64_t> state = items<int64_t>(b.out(2));
  const int64_t seed = state[0], first = state[1];
  if (!mode.grad)
    return set_all(
        b, ops<"dropout_attention_backward">(b.g(), q, k, b.in(2), mask, b.flag(4), b.number(5),
                                             b.out(), b.out(1), p, seed, first));
  Tensor factor;
  {
    // The weights of keys are the results for values that are a row of the identity each.
    NoGrad quiet;
    Sizes shape = k.shape();
    shape[shape.n - 1] = k.size(-2);
    const Tensor eye = op<"expand">(op<"eye">(k.size(-2), Value(), k.dtype(), k.device()), shape);
    const Tensor kept =
        ops<"dropout_attention">(q, k, eye, mask, b.flag(4), b.number(5), p, seed, first)[0];
    factor = op<"to.dtype">(op<"ne">(kept, 0), computed_in(q.dtype())) * (1 / (1 - p));
  }
  composed_grad(b, factor);
}

const Op& dropout_attention = add_op(
    {.name = "dropout_attention",
     .args = "query, key, value, attn_mask: tensor?, is_causal: bool, scale: float, dropout_p: "
             "float, seed: int?, first: int?",
     .doc = "fused_attention with dropout of the weights, and where its random numbers begin.",
     .where = kHidden,
     .random = true,
     .saves = "query, key, value, attn_mask, out, out2, out3",
     .shape =
         [](Call& c) {
           fused_shape(c);
           c.out.push_back(empty({2}, DType::Int64));
         },
     .grad = dropout_grad});

const Op& dropout_attention_backward = add_op(
    {.name = "dropout_attention_backward",
     .args = "grad, query, key, value, attn_mask: tensor?, is_causal: bool, scale: float, result, "
             "lse, dropout_p: float, seed: int, first: int",
     .doc = "The gradients of dropout_attention's query, key and value.",
     .where = kHidden,
     .differentiable = false,
     .shape = backward_shape});

// Brings the leading dimensions of the three together.
void align(Tensor& q, Tensor& k, Tensor& v, bool grouped) {
  const auto lead_of = [&](const Tensor& t) {
    Sizes s;
    for (int d = 0; d < t.rank() - (grouped ? 3 : 2); ++d) s.push_back(t.size(d));
    return s;
  };
  const Sizes qs = lead_of(q), ks = lead_of(k), vs = lead_of(v);
  if (qs == ks && qs == vs) return;
  const Sizes all = broadcast(broadcast(qs, ks), vs);
  for (Tensor* t : {&q, &k, &v}) {
    Sizes shape = all;
    for (int d = grouped ? -3 : -2; d < 0; ++d) shape.push_back(t->size(d));
    if (!(shape == t->shape())) *t = op<"expand">(*t, shape);
  }
}

// What the fused ops take; the mask broadcasts to the scores without growing them.
bool fits_fused(const Call& c, bool grouped) {
  const Tensor &q = c.tensor(0), &k = c.tensor(1), &v = c.tensor(2), &mask = c.tensor(3);
  const double dropped = c.number(4);
  if (dropped > 0 && (dropped >= 1 || !dropout_attention.kernel_on(kernels_of(q.device()))))
    return false;
  if (grouped && k.size(-3) != v.size(-3)) return false;
  if (!mask) return true;
  if (mode.grad && (mask->requires_grad || mask->node)) return false;
  if (mask.rank() < 2 || mask.rank() > q.rank()) return false;
  for (int d = -mask.rank(); d < 0; ++d) {
    const int64_t n = d == -1 ? k.size(-2) : q.size(d);
    if (mask.size(d) != n && mask.size(d) != 1) return false;
  }
  return true;
}

const Op& attention = add_op(
    {.name = "scaled_dot_product_attention",
     .args = "query, key, value, attn_mask: tensor?, dropout_p: float = 0.0, is_causal: bool = "
             "false, scale: float?, enable_gqa: bool = false",
     .doc =
         "softmax(query key^T * scale + mask) value; scale is 1/sqrt of the last size, a mask of "
         "bool keeps where it is true.",
     .where = kFunctional,
     .amp = Amp::Low,
     .see = "nn.functional.softmax, matmul",
     .rule = "[.., l, e], [.., s, e], [.., s, v] -> [.., l, v]",
     .example = "F.scaled_dot_product_attention(torch.zeros(1, 2), torch.ones(2, 2), "
                "torch.tensor{{1., 2.}, {3., 4.}}) --> f32 [1, 2]\n"
                " 2  3",
     .compose =
         [](Call& c) {
           check_attention(c);
           Tensor q = c.tensor(0), k = c.tensor(1), v = c.tensor(2);
           const Tensor mask = c.tensor(3);
           const bool grouped = c.flag(7) && q.rank() >= 3 && k.rank() >= 3 && v.rank() >= 3;
           if (grouped)
             for (const Tensor* t : {&k, &v})
               TYCHO_CHECK(Kind::Shape, t->size(-3) > 0 && q.size(-3) % t->size(-3) == 0,
                           "scaled_dot_product_attention: %lld query heads are not divisible by "
                           "%lld",
                           static_cast<long long>(q.size(-3)), static_cast<long long>(t->size(-3)));
           const double scale =
               c.has(6) ? c.number(6) : 1 / std::sqrt(static_cast<double>(q.size(-1)));
           if (fits_fused(c, grouped)) {
             align(q, k, v, grouped);
             const double p = c.number(4);
             c.out.push_back(p > 0 ? ops<"dropout_attention">(q, k, v, mask, c.flag(5), scale, p)[0]
                                   : ops<"fused_attention">(q, k, v, mask, c.flag(5), scale)[0]);
             return;
           }
           // Halves are computed in float32 and rounded once.
           const DType type = q.dtype(), wide = computed_in(type);
           for (Tensor* t : {&q, &k, &v}) *t = as_type(*t, wide);
           if (grouped) {
             k = for_each_query(k, q);
             v = for_each_query(v, q);
           }
           Tensor weights = weights_of(q, k, mask, c.flag(5), scale);
           if (c.number(4) > 0) weights = op<"dropout">(weights, c.number(4));
           c.out.push_back(as_type(op<"matmul">(weights, v), type));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3, 4}), s.normal({2, 5, 4}), s.normal({2, 5, 3})});
           s.add(
               {s.normal({1, 3, 4}), s.normal({1, 3, 4}), s.normal({1, 3, 4}), Value(), 0.0, true});
           s.add({s.normal({3, 4}), s.normal({2, 4}), s.normal({2, 4}), s.normal({3, 2}), 0.0,
                  false, 0.5});
           s.add({s.normal({1, 4, 3, 2}), s.normal({1, 2, 5, 2}), s.normal({1, 2, 5, 3}), Value(),
                  0.0, true, Value(), true});
           s.add({s.normal({2, 3, 4}), s.normal({1, 5, 4}), s.normal({5, 2}), s.mask({3, 5})});
         }});

BATCH("fused_attention", [](Spread& s) { return s.one.has(3) ? BatchResults() : by_images(s); });

}  // namespace
}  // namespace tycho
