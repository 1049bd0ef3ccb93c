// Reductions over dimensions.
#include "engine/ops/reduce.h"

#include "engine/grad/node.h"
#include "engine/ops/apply.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/samples.h"

namespace tycho {
namespace {

// The shape left when the dims in `bits` are reduced.
Sizes reduced_shape(const Sizes& shape, uint32_t bits, bool keepdim) {
  Sizes out;
  for (int d = 0; d < shape.n; ++d) {
    if (!(bits >> d & 1))
      out.push_back(shape[d]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

// A gradient of a reduced result, stretched back over the reduced dims.
Tensor stretch(Tensor g, const Sizes& shape, uint32_t bits, bool keepdim) {
  if (!keepdim && g.rank() != shape.n) {
    Sizes kept = shape;
    for (int d = 0; d < shape.n; ++d)
      if (bits >> d & 1) kept[d] = 1;
    g = op<"reshape">(g, kept);
  }
  return op<"expand">(g, shape);
}

const Op& sum = add_op(
    {.name = "sum",
     .args = "self, dim: dims?, keepdim: bool = false, dtype: dtype?",
     .doc = "Sum of the elements, over all dimensions or the named ones; integers and bool give "
            "int64.",
     .amp = Amp::F32,
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const uint32_t bits = dim_bits(c, 1, x.rank());
           const DType out = c.dtype(3, is_floating(x.dtype()) ? x.dtype() : DType::Int64);
           c.out.push_back(empty(reduced_shape(x.shape(), bits, c.flag(2)), out, x.device()));
         },
     .kernel = cpu::sum,
     .grad =
         [](Backward& b) {
           const Sizes shape = b.shape(0);
           uint32_t bits = 0;
           if (!b.has(1) || b.count(1) == 0)
             bits = (1u << shape.n) - 1;
           else
             for (int64_t d : b.ints(1)) bits |= 1u << wrap_dim(d, shape.n);
           b.set(0, stretch(b.g(), shape, bits, b.flag(2)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4})});
           s.add({s.normal({3, 4}), s.ints({0})});
           s.add({s.normal({2, 3, 4}), s.ints({0, 2}), true});
         }});

const Op& sum_to_size = add_op(
    {.name = "sum_to_size",
     .args = "self, size: ints",
     .doc =
         "The tensor summed over the dimensions along which `size` would broadcast to its shape.",
     .where = kMethod,
     .compose = [](Call& c) {
       Tensor x = c.tensor(0);
       const Sizes want = c.ints(1);
       const int lead = x.rank() - want.n;
       TYCHO_CHECK(Kind::Broadcast, lead >= 0 && broadcast(want, x.shape()) == x.shape(),
                   "sum_to_size: %s does not broadcast to %s", to_string(want).c_str(),
                   to_string(x.shape()).c_str());
       Sizes first, rest;
       for (int d = 0; d < lead; ++d) first.push_back(d);
       if (first.n) x = op<"sum">(x, first, false);
       for (int d = 0; d < want.n; ++d)
         if (want[d] == 1 && x.size(d) != 1) rest.push_back(d);
       if (rest.n) x = op<"sum">(x, rest, true);
       c.out.push_back(x);
     }});

}  // namespace
}  // namespace tycho
