// Least squares by LAPACK's complete orthogonal factorization; its gradient is that of the
// pseudo-inverse times the right hand sides.
#include <algorithm>
#include <string>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

const Op& least_squares =
    add_op({.name = "least_squares",
            .args = "self, b, rcond: float",
            .doc = "The X of least norm that makes A X - B smallest, and A's rank.",
            .where = kHidden,
            .amp = Amp::F32,
            .saves = "self, b, out",
            .shape =
                [](Call& c) {
                  const Tensor &a = c.tensor(0), &b = c.tensor(1);
                  check_matrix("lstsq", a);
                  check_types("lstsq", a, b);
                  c.out.push_back(empty_columns(joined(batch_of(a), {a.size(-1), b.size(-1)}),
                                                a.dtype(), a.device()));
                  c.out.push_back(empty(batch_of(a), DType::Int64, a.device()));
                },
            .grad =
                [](Backward& b) {
                  if (!b.has_g(0)) return;
                  const Tensor a = b.in(0), g = b.g(0);
                  const Tensor p = op<"pinv">(a, Value(), Value(b.number(2)));
                  if (b.needs(0)) b.set(0, pinv_slope(a, p, mm(g, turned(b.in(1)))));
                  if (b.needs(1)) b.set(1, mm(turned(p), g));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({4, 2}), s.normal({4, 3}), 1e-6}, false);
                  s.add({s.normal({2, 2, 3}), s.normal({2, 2, 1}), 1e-6}, false);
                }});

const Op& lstsq = add_op(
    {.name = "lstsq",
     .args = "self, b, rcond: float?, driver: string?",
     .doc =
         "Least squares: the X (of least norm) that makes A X - B smallest; then residuals, rank "
         "and singular values as PyTorch's driver gives them.",
     .where = kLinalg,
     .amp = Amp::F32,
     .see = "linalg.solve, linalg.pinv",
     .rule = "[.., m, n], [.., m, k] -> [.., n, k], [.., k], [..], [.., min(m, n)]",
     .example =
         "(torch.linalg.lstsq(torch.tensor{{1.}, {1.}}, torch.tensor{{1.}, {3.}})) --> f32 [1, 1]\n"
         " 2",
     .compose =
         [](Call& c) {
           const Tensor &a = c.tensor(0), &b = c.tensor(1);
           check_matrix("lstsq", a);
           check_matrix("lstsq", b);
           TYCHO_CHECK(Kind::Shape, a.size(-2) == b.size(-2),
                       "lstsq: A and B must have the same number of rows, the shapes are %s and %s",
                       to_string(a.shape()).c_str(), to_string(b.shape()).c_str());
           const std::string driver = c.has(3) ? c.string(3) : "gelsy";
           TYCHO_CHECK(
               Kind::Value,
               driver == "gels" || driver == "gelsy" || driver == "gelsd" || driver == "gelss",
               "lstsq: driver is \"gels\", \"gelsy\", \"gelsd\" or \"gelss\", not \"%s\"",
               driver.c_str());
           const double eps = a.dtype() == DType::Float32 ? 0x1p-23 : 0x1p-52;
           const double rcond =
               c.has(2) ? c.number(2) : eps * static_cast<double>(std::max(a.size(-1), a.size(-2)));
           const Sizes batch = broadcast(batch_of(a), batch_of(b));
           const auto whole = [&](const Tensor& t) {
             if (batch_of(t) == batch) return t;
             return Tensor(op<"expand">(t, joined(batch, {t.size(-2), t.size(-1)})));
           };
           const auto solved = ops<"least_squares">(whole(a), whole(b), rcond);
           const Tensor& x = solved[0];
           c.out.push_back(x);
           // What a driver does not give is empty, but in the graph.
           const Tensor nothing = op<"narrow">(op<"reshape">(x, Sizes{-1}), 0, 0, 0);
           const int64_t m = a.size(-2), n = a.size(-1);
           Tensor rank = op<"zeros">(Sizes{0}, DType::Int64, a.device());
           bool residuals = m > n && driver != "gelsy";
           if (driver != "gels") {
             NoGrad quiet;
             rank = driver == "gelsy" ? solved[1] : op<"matrix_rank">(a, Value(), Value(rcond));
             // Residuals where there are more equations than unknowns and the rank is full.
             residuals = residuals && item<bool>(op<"all">(fn::eq(rank, n)));
           }
           Tensor miss;
           if (residuals) miss = mm(a, x) - b;
           c.out.push_back(residuals ? Tensor(op<"sum">(miss * miss, Sizes{-2})) : nothing);
           c.out.push_back(rank);
           c.out.push_back(driver == "gelsd" || driver == "gelss" ? op<"svdvals">(a) : nothing);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 2}), s.normal({4, 3})}, false);
           s.add({s.normal({3, 3}), s.normal({3, 1}), Value(), "gelsd"}, false);
         }});

}  // namespace
}  // namespace tycho
