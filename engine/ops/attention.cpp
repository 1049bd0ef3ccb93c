// Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017), as PyTorch's.
#include <cmath>

#include "engine/ops/apply.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/samples.h"

namespace tycho {
namespace {

void check_attention(const Call& c) {
  const Tensor &q = c.tensor(0), &k = c.tensor(1), &v = c.tensor(2);
  TYCHO_CHECK(
      Kind::DType, q.dtype() == k.dtype() && q.dtype() == v.dtype(),
      "scaled_dot_product_attention: query, key and value must have one type, these are %s, "
      "%s and %s",
      dtype_name(q.dtype()), dtype_name(k.dtype()), dtype_name(v.dtype()));
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
           // Halves are computed in float32 and rounded once.
           const DType type = q.dtype();
           const bool half = type == DType::Float16 || type == DType::BFloat16;
           if (half)
             for (Tensor* t : {&q, &k, &v}) *t = op<"to.dtype">(*t, DType::Float32);
           if (c.flag(7) && q.rank() >= 3) {  // groups of queries share keys and values
             const auto grouped = [&](const Tensor& t) {
               TYCHO_CHECK(Kind::Shape, t.size(-3) > 0 && q.size(-3) % t.size(-3) == 0,
                           "scaled_dot_product_attention: %lld query heads are not divisible by "
                           "%lld",
                           static_cast<long long>(q.size(-3)), static_cast<long long>(t.size(-3)));
               return op<"repeat_interleave">(t, q.size(-3) / t.size(-3), -3);
             };
             k = grouped(k);
             v = grouped(v);
           }
           const double scale =
               c.has(6) ? c.number(6) : 1 / std::sqrt(static_cast<double>(q.size(-1)));
           const int64_t rows = q.size(-2), columns = k.size(-2);
           Tensor scores = op<"matmul">(q * scale, op<"transpose">(k, -2, -1));
           Tensor mask = c.tensor(3);
           if (c.flag(5))
             mask = op<"tril">(op<"ones">(Sizes{rows, columns}, DType::Bool, q.device()));
           if (mask && mask.dtype() == DType::Bool)
             scores = op<"masked_fill">(scores, op<"logical_not">(mask), -HUGE_VAL);
           else if (mask)
             scores = scores + mask;
           Tensor weights = op<"softmax">(scores, -1);
           if (mask && mask.dtype() == DType::Bool) {
             // A row without any key gives zeros, not nan.
             const Tensor none = op<"logical_not">(op<"any">(mask, Sizes{-1}, true));
             weights = op<"masked_fill">(weights, none, 0);
           }
           if (c.number(4) > 0) weights = op<"dropout">(weights, c.number(4));
           const Tensor out = op<"matmul">(weights, v);
           c.out.push_back(half ? Tensor(op<"to.dtype">(out, type)) : out);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3, 4}), s.normal({2, 5, 4}), s.normal({2, 5, 3})});
           s.add(
               {s.normal({1, 3, 4}), s.normal({1, 3, 4}), s.normal({1, 3, 4}), Value(), 0.0, true});
           s.add({s.normal({3, 4}), s.normal({2, 4}), s.normal({2, 4}), s.normal({3, 2}), 0.0,
                  false, 0.5});
         }});

}  // namespace
}  // namespace tycho
