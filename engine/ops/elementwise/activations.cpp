// Activations that are compositions of rows: gelu, prelu, glu.
#include <cmath>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

const Op& gelu = add_op(
    {.name = "gelu",
     .args = "self, approximate: string = none",
     .doc = "x * Phi(x), with the normal distribution's Phi, or its approximation by \"tanh\".",
     .where = kFunctional,
     .inplace = Inplace::Direct,
     .see = "relu, silu",
     .rule = "any shape -> the same shape",
     .example = "F.gelu(torch.tensor{-1.0, 0.0, 2.0}) --> f32 [3]   -0.16  0  1.95",
     .compose =
         [](Call& c) {
           const std::string_view mode = c.has(1) ? c.string(1) : "none";
           if (mode == "none") return become<"gelu_erf">(c, c.arg[0]);
           if (mode == "tanh") return become<"gelu_tanh">(c, c.arg[0]);
           fail(Kind::Argument, "gelu: approximate must be \"none\" or \"tanh\", not \"" +
                                    std::string(mode) + "\"");
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4})});
           s.add({s.normal({3, 4}), "tanh"});
         }});

const Op& prelu = add_op(
    {.name = "prelu",
     .args = "self, weight",
     .doc = "Each element, times the weight of its channel (dimension 2) where negative.",
     .where = kFunction | kMethod | kFunctional,
     .amp = Amp::Low,
     .see = "leaky_relu",
     .rule = "[N, C, ..], weight [C] or [1] -> [N, C, ..]",
     .example = "F.prelu(torch.tensor{{-2.0, -2.0}}, torch.tensor{0.5, 0.1}) --> f32 [1, 2]\n"
                " -1.0  -0.2",
     .compose =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &w = c.tensor(1);
           TYCHO_CHECK(Kind::Shape, w.rank() <= 1,
                       "prelu: the weight must be one number or a list, not of shape %s",
                       to_string(w.shape()).c_str());
           if (x.dtype() != w.dtype())
             fail(Kind::DType, format("prelu: the input is %s and the weight %s; they must be of "
                                      "one type",
                                      dtype_name(x.dtype()), dtype_name(w.dtype())));
           if (w.numel() == 1) return become<"prelu_row">(c, x, op<"reshape">(w, Sizes()));
           TYCHO_CHECK(Kind::Shape, x.rank() > 0,
                       "prelu: a 0-d input has no channels for %lld weights",
                       static_cast<long long>(w.numel()));
           const int64_t channels = x.rank() > 1 ? x.size(1) : 1;
           TYCHO_CHECK(Kind::Shape, w.numel() == channels,
                       "prelu: the input %s has %lld channels, the weight %lld elements",
                       to_string(x.shape()).c_str(), static_cast<long long>(channels),
                       static_cast<long long>(w.numel()));
           Sizes shape;
           for (int d = 0; d < x.rank(); ++d) shape.push_back(d == 1 ? channels : 1);
           become<"prelu_row">(c, x, op<"reshape">(w, shape));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3, 2}), s.of({3}, {0.1, 0.25, -0.5})});
           s.add({s.normal({5}), s.of({1}, {0.25})});
         }});

const Op& glu = add_op(
    {.name = "glu",
     .args = "self, dim: dim = -1",
     .doc = "The first half of a dimension times the sigmoid of the second.",
     .where = kFunctional,
     .see = "sigmoid",
     .rule = "[.., 2 n, ..] -> [.., n, ..]",
     .example = "F.glu(torch.tensor{2.0, 4.0, 0.0, 0.0}) --> f32 [2]  1 2",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           TYCHO_CHECK(Kind::Dim, x.rank() > 0, "glu: a 0-d tensor has no dimension to halve");
           const int d = wrap_dim(c.integer(1), x.rank());
           const int64_t n = x.size(d);
           TYCHO_CHECK(Kind::Shape, n % 2 == 0,
                       "glu: dimension %d must have an even size to be halved, not %lld", d + 1,
                       static_cast<long long>(n));
           become<"glu.halves">(c, op<"narrow">(x, d, 0, n / 2), op<"narrow">(x, d, n / 2, n / 2));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4})});
           s.add({s.normal({4, 3}), 0});
         }});

}  // namespace
}  // namespace tycho
