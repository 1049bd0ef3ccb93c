// Elementwise operations that are compositions of rows: forms with a mode, optional bounds,
// parameters of several values.
#include <cmath>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

const Op& div_mode = add_op(
    {.name = "div.mode",
     .args = "self: operand, other: operand, rounding_mode: string?",
     .doc = "Quotient, rounded down (\"floor\"), toward zero (\"trunc\") or not at all (none).",
     .inplace = Inplace::Direct,
     .see = "floor_divide",
     .rule = "shapes that broadcast -> the broadcast shape",
     .example = "torch.tensor{7, -7}:div(2, {rounding_mode=\"floor\"}) --> i64 [2]  3 -4\n"
                "torch.tensor{7, -7}:div(2, {rounding_mode=\"trunc\"}) --> i64 [2]  3 -3",
     .aliases = "divide",
     .compose =
         [](Call& c) {
           if (!c.has(2)) return become<"div">(c, c.arg[0], c.arg[1]);
           const std::string_view mode = c.string(2);
           if (mode == "floor") return become<"floor_divide">(c, c.arg[0], c.arg[1]);
           if (mode == "trunc") return become<"trunc_divide">(c, c.arg[0], c.arg[1]);
           fail(Kind::Argument, "div: rounding_mode must be \"floor\", \"trunc\" or none, not \"" +
                                    std::string(mode) + "\"");
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.uniform({4}, 0.5, 2), "floor"});
           s.add({s.normal({3, 4}), s.uniform({4}, 0.5, 2), "trunc"});
           s.add({s.integers({5}, -9, 9), s.integers({5}, 1, 4), "floor"}, false);
         }});

const Op& positive =
    add_op({.name = "positive",
            .args = "self",
            .doc = "The tensor itself.",
            .see = "neg",
            .rule = "any shape -> the same shape",
            .example = "torch.tensor{-1, 2}:positive() --> i64 [2]  -1 2",
            .compose =
                [](Call& c) {
                  if (c.tensor(0).dtype() == DType::Bool)
                    fail(Kind::DType, "positive: takes numbers, not bool", "x:int()");
                  c.out.push_back(c.tensor(0));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3})});
                }});

// The operand in float64, with its graph.
Tensor in_float64(const Call& c, int i) {
  const Value& v = c.arg[i];
  if (v.tag == Tag::Tensor)
    return v.t->dtype == DType::Float64 ? c.tensor(i) : op<"to.dtype">(c.tensor(i), DType::Float64);
  Tensor t = number_tensor(v.number());
  t->is_number = false;
  return t;
}

const Op& float_power =
    add_op({.name = "float_power",
            .args = "self: operand, exponent: operand",
            .doc = "self to the power exponent, computed in float64 whatever the types.",
            .inplace = Inplace::Copy,
            .see = "pow",
            .rule = "shapes that broadcast -> the broadcast shape",
            .example = "torch.tensor{2, 3}:float_power(-1) --> f64 [2]   0.5  0.333",
            .compose =
                [](Call& c) {
                  if (c.arg[1].is_number())
                    return become<"pow">(c, in_float64(c, 0), c.arg[1].number());
                  become<"pow">(c, in_float64(c, 0), in_float64(c, 1));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.uniform({3, 4}, 0.3, 2), s.normal({4})});
                  s.add({s.uniform({3, 4}, 0.3, 2), 2});
                }});

const Op& clamp =
    add_op({.name = "clamp",
            .args = "self, min: operand?, max: operand?",
            .doc = "Every element kept between min and max; either may be none.",
            .inplace = Inplace::Direct,
            .see = "clamp_min, clamp_max",
            .rule = "any shape -> the same shape",
            .example = "torch.tensor{-5, 0, 5}:clamp(-1, 3) --> i64 [3]  -1 0 3\n"
                       "torch.tensor{-5, 0, 5}:clamp{min=0} --> i64 [3]  0 0 5",
            .aliases = "clip",
            .compose =
                [](Call& c) {
                  TYCHO_CHECK(Kind::Argument, c.has(1) || c.has(2),
                              "clamp: at least one of min and max must be given");
                  if (!c.has(2)) return become<"clamp_min">(c, c.arg[0], c.arg[1]);
                  if (!c.has(1)) return become<"clamp_max">(c, c.arg[0], c.arg[2]);
                  const auto bounds = [&](int i) {
                    return c.arg[i].is_number() && !std::isnan(c.arg[i].number());
                  };
                  if (bounds(1) && bounds(2))
                    return become<"clamp_numbers">(c, c.arg[0], c.arg[1], c.arg[2]);
                  become<"clamp_tensors">(c, c.arg[0], c.arg[1], c.arg[2]);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), -0.5, 0.75});
                  s.add({s.normal({3, 4}), -0.5});
                  s.add({s.normal({3, 4}), nullptr, 0.5});
                  s.add({s.normal({3, 4}), s.uniform({4}, -1, -0.1), s.uniform({3, 1}, 0.1, 1)});
                  s.add({s.integers({5}, -9, 9), -2, 3}, false);
                }});

const Op& round_decimals = add_op(
    {.name = "round.decimals",
     .args = "self, decimals: int",
     .doc = "Rounded to a number of decimal places; negative ones stand before the point.",
     .inplace = Inplace::Copy,
     .see = "round",
     .rule = "any shape -> the same shape",
     .example = "torch.tensor{3.14159}:round{decimals=2} --> f32 [1]   3.14",
     .compose =
         [](Call& c) {
           const int64_t n = c.integer(1);
           const Tensor& x = c.tensor(0);
           if (n == 0) return become<"round">(c, x);
           if (!is_floating(x.dtype()))
             fail(Kind::DType,
                  format("round: decimals are for floats, not for %s", dtype_name(x.dtype())),
                  "x:float()");
           const double p = std::pow(10.0, static_cast<double>(n < 0 ? -n : n));
           c.out.push_back(n > 0 ? fn::round(x * p) / p : fn::round(x / p) * p);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), 1});
           s.add({s.uniform({3, 4}, -200, 200), -1});
         }});

const Op& logit_eps = add_op(
    {.name = "logit.eps",
     .args = "self, eps: float?",
     .doc = "log(x / (1 - x)) of each element kept between eps and 1 - eps.",
     .inplace = Inplace::Copy,
     .see = "sigmoid",
     .rule = "any shape -> the same shape",
     .example = "torch.tensor{0.0, 0.5}:logit(0.1) --> f32 [2]   -2.2  0",
     .compose =
         [](Call& c) {
           if (!c.has(1)) return become<"logit">(c, c.tensor(0));
           const Tensor& x = c.tensor(0);
           const double low = c.number(1), high = 1 - low;
           Tensor kept;
           {
             NoGrad quiet;
             kept = fn::clamp_numbers(x, low, high);
           }
           if (mode.grad && x.requires_grad())  // elements at the bounds have a gradient, too
             kept = fn::where(fn::logical_and(fn::ge(x, low), fn::le(x, high)), x, kept);
           become<"logit">(c, kept);
         },
     .samples =
         [](Samples& s) {
           s.add({s.uniform({3, 4}, 0.05, 0.95), 0.1});
         }});

// n stands first in the function and after self in the method.
void polygamma(Call& c, const Tensor& x, int64_t n) {
  TYCHO_CHECK(Kind::Value, n >= 0, "polygamma: n must not be negative, but is %lld",
              static_cast<long long>(n));
  if (n == 0)
    become<"digamma">(c, x);
  else
    become<"polygamma_row">(c, x, n);
}
const Op& polygamma_function =
    add_op({.name = "polygamma",
            .args = "n: int, self",
            .doc = "The n-th derivative of digamma.",
            .where = kFunction,
            .see = "digamma",
            .rule = "any shape -> the same shape",
            .example = "torch.polygamma(1, torch.tensor{1.0}) --> f32 [1]   1.64",
            .compose = [](Call& c) { polygamma(c, c.tensor(1), c.integer(0)); },
            .samples =
                [](Samples& s) {
                  s.add({1, s.uniform({3, 4}, 0.5, 4)});
                }});
const Op& polygamma_method =
    add_op({.name = "polygamma.method",
            .args = "self, n: int",
            .doc = "The n-th derivative of digamma.",
            .where = kMethod,
            .inplace = Inplace::Copy,
            .see = "digamma",
            .rule = "any shape -> the same shape",
            .example = "torch.tensor{1.0}:polygamma(1) --> f32 [1]   1.64",
            .compose = [](Call& c) { polygamma(c, c.tensor(0), c.integer(1)); },
            .samples =
                [](Samples& s) {
                  s.add({s.uniform({3, 4}, 0.5, 4), 2});
                }});

const Op& where_method =
    add_op({.name = "where.method",
            .args = "self, condition, other: operand",
            .doc = "The tensor where the condition holds, else other.",
            .where = kMethod,
            .see = "masked_fill",
            .rule = "shapes that broadcast -> the broadcast shape",
            .example = "torch.tensor{1, 2}:where(torch.tensor{true, false}, 0) --> i64 [2]  1 0",
            .compose = [](Call& c) { become<"where">(c, c.arg[1], c.arg[0], c.arg[2]); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), s.mask({4}), s.normal({3, 1})});
                }});

// The largest number of a type: infinity is replaced by it.
double largest(DType t) {
  return t == DType::Float64   ? 1.7976931348623157e308
         : t == DType::Float16 ? 65504
         : t == DType::Float32 ? 3.4028234663852886e38
                               : 3.3895313892515355e38;
}

const Op& nan_to_num = add_op(
    {.name = "nan_to_num",
     .args = "self, nan: float?, posinf: float?, neginf: float?",
     .doc = "nan becomes 0, infinities the largest numbers of the type, or what is given.",
     .inplace = Inplace::Copy,
     .see = "isnan, isfinite",
     .rule = "any shape -> the same shape",
     .example = "torch.tensor{0/0, 2.0}:nan_to_num() --> f32 [2]  0 2\n"
                "torch.tensor{0/0, 1/0}:nan_to_num(-1, 100) --> f32 [2]  -1 100",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           if (!is_floating(x.dtype())) {
             c.out.push_back(op<"clone">(x));
             return;
           }
           const double most = largest(x.dtype());
           const double nan = c.has(1) ? c.number(1) : 0.0, up = c.has(2) ? c.number(2) : most,
                        down = c.has(3) ? c.number(3) : -most;
           become<"finite_or">(c, x, nan, up, down);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4})});
           s.add({s.of({5}, {0.5, std::nan(""), HUGE_VAL, -HUGE_VAL, 2}), 1.5, 9.0, -9.0}, false);
         }});

// Where two tensors agree within atol + rtol * |other|.
Tensor close(const Call& c, const char* name) {
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  const double rtol = c.number(2), atol = c.number(3);
  if (a.dtype() != b.dtype())
    fail(Kind::DType, format("%s: the tensors must be of one type, not %s and %s", name,
                             dtype_name(a.dtype()), dtype_name(b.dtype())));
  TYCHO_CHECK(Kind::Value, rtol >= 0, "%s: rtol must not be negative, but is %g", name, rtol);
  TYCHO_CHECK(Kind::Value, atol >= 0, "%s: atol must not be negative, but is %g", name, atol);
  const NoGrad quiet;
  Tensor near = fn::eq(a, b);
  if (c.flag(4)) near = fn::logical_or(near, fn::logical_and(fn::isnan(a), fn::isnan(b)));
  if (rtol == 0 && atol == 0) return near;
  const bool real = is_floating(a.dtype());
  const Tensor x = real ? a : op<"to.dtype">(a, DType::Float64);
  const Tensor y = real ? b : op<"to.dtype">(b, DType::Float64);
  const Tensor error = fn::abs(x - y), allowed = fn::abs(y * rtol) + atol;
  return fn::logical_or(near, fn::logical_and(fn::isfinite(error), fn::le(error, allowed)));
}

const Op& isclose = add_op(
    {.name = "isclose",
     .args = "self, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = false",
     .doc = "Where two elements are equal or differ by at most atol + rtol * |other|.",
     .differentiable = false,
     .see = "allclose, eq",
     .rule = "shapes that broadcast -> the broadcast shape",
     .example = "torch.tensor{1.0, 2.0}:isclose(torch.tensor{1.0, 2.1}) --> bool [2]  # .",
     .compose = [](Call& c) { c.out.push_back(close(c, "isclose")); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.normal({4}), 0.5, 0.1});
           s.add({s.integers({5}, 0, 4), s.integers({5}, 0, 4)});
         }});

const Op& allclose = add_op(
    {.name = "allclose",
     .args = "self, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = false",
     .doc = "Whether all elements are equal or differ by at most atol + rtol * |other|.",
     .differentiable = false,
     .scalar_result = true,
     .see = "isclose, equal",
     .rule = "shapes that broadcast -> a boolean",
     .example = "torch.tensor{1.0, 2.0}:allclose(torch.tensor{1.0, 2.000001}) --> true",
     .compose = [](Call& c) { c.out.push_back(op<"all">(close(c, "allclose"))); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.normal({4})});
           s.add({s.of({2}, {1, 2}), s.of({2}, {1, 2})});
         }});

const Op& equal =
    add_op({.name = "equal",
            .args = "self, other",
            .doc = "Whether two tensors have the same shape and the same elements.",
            .differentiable = false,
            .scalar_result = true,
            .see = "eq, allclose",
            .rule = "any two tensors -> a boolean",
            .example = "torch.equal(torch.tensor{1, 2}, torch.tensor{1, 2}) --> true\n"
                       "torch.equal(torch.tensor{1, 2}, torch.tensor{1, 3}) --> false",
            .compose =
                [](Call& c) {
                  const Tensor &a = c.tensor(0), &b = c.tensor(1);
                  const bool same = a.shape() == b.shape();
                  c.out.push_back(same ? op<"all">(fn::eq(a, b))
                                       : filled(Sizes(), 0, DType::Bool, a.device()));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.of({2}, {1, 2}), s.of({2}, {1, 2})});
                  s.add({s.of({2}, {1, 2}), s.of({2}, {1, 3})});
                  s.add({s.of({2}, {1, 2}), s.of({3}, {1, 3})});
                }});

}  // namespace
}  // namespace tycho
