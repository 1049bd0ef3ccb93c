// Selecting and filling by a mask.
#include "engine/grad/node.h"
#include "engine/ops/index/index.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

void check_mask(const Call& c, int arg) {
  if (c.tensor(arg).dtype() == DType::Bool) return;
  fail(Kind::DType,
       format("%s: the mask must be bool, not %s", c.op->name, dtype_name(c.tensor(arg).dtype())),
       "mask:to(\"bool\")");
}

// The tensor and its mask, row by row in memory, both in the shape that they broadcast to.
Sizes spread_mask(Call& c) {
  const Tensor &x = c.tensor(0), &mask = c.tensor(1);
  const Sizes shape = broadcast(x.shape(), mask.shape());
  if (!(x.shape() == shape)) c.set(0, op<"expand">(x, shape));
  c.set(1, packed(mask.shape() == shape ? mask : op<"expand">(mask, shape)));
  return shape;
}

const Op& masked_select = add_op(
    {.name = "masked_select",
     .args = "self, mask",
     .doc = "The elements where a mask (broadcast with the tensor) is true, as one row.",
     .saves = "mask",
     .see = "masked_fill, nonzero, where",
     .rule = "shapes that broadcast -> [number of trues]",
     .example =
         "torch.tensor{1, 2, 3}:masked_select(torch.tensor{true, false, true}) --> i64 [2]  1 3",
     .size_from_values = true,
     .shape =
         [](Call& c) {
           check_mask(c, 1);
           spread_mask(c);
         },
     .grad =
         [](Backward& b) {
           const Tensor mask = b.in(1);
           b.set(0, op<"masked_scatter">(zeros_for(b.g(), mask.shape()), mask, b.g()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.mask({3, 4})});
           s.add({s.normal({3, 4}), s.mask({4})});
           s.add({s.normal({3, 1}), s.mask({2, 1, 4})});
         }});

const Op& masked_scatter = add_op(
    {.name = "masked_scatter",
     .args = "self, mask, source",
     .doc = "The tensor with the source's elements, in order, written where a mask is true.",
     .inplace = Inplace::Direct,
     .saves = "mask",
     .see = "masked_select, masked_fill",
     .rule = "self and mask that broadcast -> self's shape",
     .example = "torch.zeros(4):masked_scatter(torch.tensor{true, false, true, false}, "
                "torch.tensor{5.0, 6.0}) --> f32 [4]  5 0 6 0",
     .shape =
         [](Call& c) {
           check_mask(c, 1);
           const Tensor x = c.tensor(0), mask = c.tensor(1), source = c.tensor(2);
           TYCHO_CHECK(Kind::DType, x.dtype() == source.dtype(),
                       "masked_scatter: the tensor is %s, the source %s", dtype_name(x.dtype()),
                       dtype_name(source.dtype()));
           const Sizes shape = spread_mask(c);
           TYCHO_CHECK(Kind::Broadcast, !c.inplace || shape == x.shape(),
                       "masked_scatter_: a mask of shape %s does not fit onto %s",
                       to_string(mask.shape()).c_str(), to_string(x.shape()).c_str());
           c.out.push_back(c.inplace ? x : empty(shape, x.dtype(), x.device()));
         },
     .grad =
         [](Backward& b) {
           const Tensor mask = b.in(1);
           if (b.needs(0)) b.set(0, op<"masked_fill">(b.g(), mask, 0));
           if (b.needs(2)) {
             const Sizes want = b.shape(2);
             Tensor g = op<"masked_select">(b.g(), mask);
             const int64_t more = product(want) - g.numel();
             if (more)
               g = op<"cat">(std::vector<Tensor>{g, filled({more}, 0, g.dtype(), g.device())});
             b.set(2, op<"reshape">(g, want));
           }
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.mask({3, 4}), s.normal({12})});
           s.add({s.normal({3, 4}), s.mask({4}), s.normal({4, 4})});
         }});

}  // namespace
}  // namespace tycho
