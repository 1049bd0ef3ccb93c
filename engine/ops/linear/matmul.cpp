// Matrix products with kernels of their own: matmul and its strict relatives mm, bmm, mv, dot, and
// linear. All share one gradient: a product of the result's gradient with the other operand
// transposed (the sweep sums over broadcast batches).

#include <string_view>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/linear/precision.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/flops.h"
#include "engine/ops/table/samples.h"

namespace tycho {

constinit std::atomic<MatmulPrecision> matmul_precision = MatmulPrecision::Highest;

namespace {

void check_factors(const char* name, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) {
    // Data follows a layer's weight; of two others, whole numbers follow the floating one.
    const bool layer = name == std::string_view("linear");
    const bool first = is_floating(b.dtype()) && (layer || !is_floating(a.dtype()));
    const char* turned = layer ? (first ? "input" : "weight") : first ? "a" : "b";
    fail(Kind::DType,
         format("%s: both tensors must have one type, these are %s and %s", name,
                dtype_name(a.dtype()), dtype_name(b.dtype())),
         format("%s = %s:to(\"%s\")", turned, turned, dtype_name(first ? b.dtype() : a.dtype())));
  }
  if (a.dtype() == DType::Bool)
    fail(Kind::DType, format("%s: takes numbers, not bool", name), "a = a:float()");
}

[[noreturn]] void mismatch(const char* name, const Tensor& a, const Tensor& b, int64_t have,
                           int64_t want) {
  const bool turned = b.rank() >= 2 && b.size(-1) == have;
  fail(Kind::Shape,
       format("%s: shapes %s and %s cannot be multiplied: dimension %d of the first is %lld, "
              "dimension %d of the second %lld",
              name, to_string(a.shape()).c_str(), to_string(b.shape()).c_str(), a.rank(),
              static_cast<long long>(have), b.rank() >= 2 ? b.rank() - 1 : 1,
              static_cast<long long>(want)),
       turned ? format("b = b:transpose(-2, -1)  -- %s to %s", to_string(b.shape()).c_str(),
                       to_string(op<"transpose">(b, -2, -1).shape()).c_str())
              : "");
}

// The inner sizes of two tensors with at least one dimension.
void check_inner(const char* name, const Tensor& a, const Tensor& b) {
  const int64_t have = a.size(-1), want = b.size(b.rank() >= 2 ? -2 : 0);
  if (have != want) mismatch(name, a, b, have, want);
}

void check_rank(const char* name, const char* which, const Tensor& t, int rank) {
  TYCHO_CHECK(Kind::Shape, t.rank() == rank, "%s: the %s tensor must have %d dimension%s, not %s",
              name, which, rank, rank == 1 ? "" : "s", to_string(t.shape()).c_str());
}

Sizes matmul_sizes(const char* name, const Tensor& a, const Tensor& b) {
  TYCHO_CHECK(Kind::Argument, a.rank() > 0 && b.rank() > 0,
              "%s: both tensors need at least one dimension, these have %d and %d; use a * b", name,
              a.rank(), b.rank());
  check_inner(name, a, b);
  Sizes batch_a = a.shape(), batch_b = b.shape();
  batch_a.n = std::max(0, batch_a.n - 2);
  batch_b.n = std::max(0, batch_b.n - 2);
  Sizes out;
  if (batch_a == batch_b) {
    out = batch_a;
  } else {
    try {
      out = broadcast(batch_a, batch_b);
    } catch (const Error&) {
      fail(Kind::Broadcast,
           format("%s: the batch dimensions of %s and %s do not broadcast: %s against %s", name,
                  to_string(a.shape()).c_str(), to_string(b.shape()).c_str(),
                  to_string(batch_a).c_str(), to_string(batch_b).c_str()));
    }
  }
  if (a.rank() > 1) out.push_back(a.size(-2));
  if (b.rank() > 1) out.push_back(b.size(-1));
  return out;
}

void matmul_shape(Call& c) {
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  check_factors(c.op->name, a, b);
  c.out.push_back(empty(matmul_sizes(c.op->name, a, b), a.dtype(), a.device()));
}

template <int rank_a, int rank_b>
void strict_shape(Call& c) {
  const char* name = c.op->name;
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  check_rank(name, "first", a, rank_a);
  check_rank(name, "second", b, rank_b);
  check_factors(name, a, b);
  if (rank_a == 3)
    TYCHO_CHECK(Kind::Shape, a.size(0) == b.size(0),
                "%s: batches of %lld and %lld matrices cannot be multiplied; matmul broadcasts",
                name, static_cast<long long>(a.size(0)), static_cast<long long>(b.size(0)));
  matmul_shape(c);
}

// The same elements as rows of the last dimension.
Tensor rows_of(const Tensor& t) {
  return t.rank() == 2 ? t : op<"reshape">(t, Sizes{t.numel() / t.size(-1), t.size(-1)});
}

void matmul_grad(Backward& b) {
  Tensor x = b.in(0), y = b.in(1), g = b.g();
  const bool row = x.rank() == 1, column = y.rank() == 1;
  Sizes shape = g.shape();
  if (row) {
    x = op<"reshape">(x, Sizes{1, x.size(0)});
    shape.insert(column ? shape.n : shape.n - 1, 1);
  }
  if (column) {
    y = op<"reshape">(y, Sizes{y.size(0), 1});
    shape.push_back(1);
  }
  if (row || column) g = op<"reshape">(g, shape);
  if (b.needs(0)) b.set(0, op<"matmul">(g, turned(y)));
  if (!b.needs(1)) return;
  // One product over all rows, where the second operand served a whole batch.
  const bool fold = y.rank() == 2 && x.rank() > 2 && x.numel() > 0 && g.numel() > 0;
  Tensor gy = fold ? op<"matmul">(turned(rows_of(x)), rows_of(g)) : op<"matmul">(turned(x), g);
  if (column) {
    Sizes s = gy.shape();
    --s.n;
    gy = op<"reshape">(gy, s);
  }
  b.set(1, gy);
}

const Op& matmul = add_op(
    {.name = "matmul",
     .args = "self, other",
     .doc = "Matrix product: of matrices, of vectors (dot product), or both; further dimensions in "
            "front are batches and broadcast.",
     .amp = Amp::Low,
     .saves = "self, other",
     .see = "mm, bmm, mv, dot, einsum",
     .rule = "[.., n, m], [.., m, p] -> [.., n, p]; [n, m], [m] -> [n]; [m], [m] -> []",
     .example = "torch.tensor{{1, 2}, {3, 4}}:matmul(torch.tensor{1, 1}) --> i64 [2]  3 7\n"
                "torch.ones(2, 3):matmul(torch.ones(3, 2)) --> f32 [2, 2]\n"
                " 3  3\n"
                " 3  3\n"
                "torch.ones(5, 2, 3):matmul(torch.ones(3, 4)).shape --> [5, 2, 4]",
     .shape = matmul_shape,
     .grad = matmul_grad,
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), s.normal({3, 4})});
           s.add({s.normal({3}), s.normal({3})});
           s.add({s.normal({3}), s.normal({3, 2})});
           s.add({s.normal({2, 3}), s.normal({3})});
           s.add({s.normal({2, 3, 4}), s.normal({4, 2})});
           s.add({s.normal({2, 4}), s.normal({3, 4, 2})});
           s.add({s.normal({2, 1, 3, 2}), s.normal({4, 2, 3})});
           s.add({s.normal({4}), s.normal({2, 4, 3})});
           s.add({s.normal({2, 3, 4}), s.normal({4})});
           s.add({s.normal({2, 0}), s.normal({0, 3})});
           s.add({s.integers({2, 3}, -5, 5), s.integers({3, 4}, -5, 5)});
           s.add({s.integers({3, 3}, -5, 5, DType::Int8), s.integers({3, 2}, -9, 9, DType::Int8)});
           s.add({s.normal({5, 7}, DType::Float64), s.normal({7, 3}, DType::Float64)});
           s.add({s.normal({5, 7}, DType::BFloat16), s.normal({7, 3}, DType::BFloat16)}, false);
           s.add({s.normal({5, 7}, DType::Float16), s.normal({7, 3}, DType::Float16)}, false);
         },
     .flops = sums_of_products});

const Op& mm_row =
    add_op({.name = "mm",
            .args = "self, mat2",
            .doc = "Product of two matrices.",
            .amp = Amp::Low,
            .saves = "self, mat2",
            .see = "matmul, addmm",
            .rule = "[n, m], [m, p] -> [n, p]",
            .example = "torch.tensor{{1, 2}}:mm(torch.tensor{{3}, {4}}) --> i64 [1, 1]\n"
                       " 11",
            .shape = strict_shape<2, 2>,
            .grad = matmul_grad,
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3}), s.normal({3, 4})});
                  s.add({s.normal({17, 9}), s.normal({9, 33})});
                },
            .flops = sums_of_products});

const Op& bmm = add_op(
    {.name = "bmm",
     .args = "self, mat2",
     .doc = "Products of the matrices of two batches, pair by pair.",
     .amp = Amp::Low,
     .saves = "self, mat2",
     .see = "matmul, baddbmm",
     .rule = "[b, n, m], [b, m, p] -> [b, n, p]",
     .example = "torch.ones(2, 1, 3):bmm(torch.ones(2, 3, 1)):flatten() --> f32 [2]  view  3 3",
     .shape = strict_shape<3, 3>,
     .grad = matmul_grad,
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3, 4}), s.normal({2, 4, 5})});
         },
     .flops = sums_of_products});

const Op& mv =
    add_op({.name = "mv",
            .args = "self, vec",
            .doc = "Product of a matrix and a vector.",
            .amp = Amp::LowCuda,
            .saves = "self, vec",
            .see = "matmul, addmv",
            .rule = "[n, m], [m] -> [n]",
            .example = "torch.tensor{{1, 2}, {3, 4}}:mv(torch.tensor{1, 1}) --> i64 [2]  3 7",
            .shape = strict_shape<2, 1>,
            .grad = matmul_grad,
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), s.normal({4})});
                },
            .flops = sums_of_products});

void dot_shape(Call& c) {
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  check_rank(c.op->name, "first", a, 1);
  check_rank(c.op->name, "second", b, 1);
  check_factors(c.op->name, a, b);
  TYCHO_CHECK(Kind::Shape, a.size(0) == b.size(0),
              "%s: both vectors must have the same size, not %lld and %lld", c.op->name,
              static_cast<long long>(a.size(0)), static_cast<long long>(b.size(0)));
  c.out.push_back(empty(Sizes(), a.dtype(), a.device()));
}

void dot_grad(Backward& b) {
  if (b.needs(0)) b.set(0, b.g() * b.in(1));
  if (b.needs(1)) b.set(1, b.g() * b.in(0));
}

void dot_samples(Samples& s) {
  s.add({s.normal({5}), s.normal({5})});
  s.add({s.normal({100}), s.normal({100})});
  s.add({s.integers({5}, -9, 9), s.integers({5}, -9, 9)});
}

const Op& dot =
    add_op({.name = "dot",
            .args = "self, tensor",
            .doc = "Dot product of two vectors.",
            .saves = "self, tensor",
            .see = "matmul, inner",
            .rule = "[n], [n] -> []",
            .example = "torch.tensor{1, 2, 3}:dot(torch.tensor{4, 5, 6}) --> i64 []  32",
            .shape = dot_shape,
            .grad = dot_grad,
            .samples = dot_samples,
            .flops = sums_of_products});

const Op& vdot =
    add_op({.name = "vdot",
            .args = "self, other",
            .doc = "Dot product of two vectors (the same as dot: numbers are real).",
            .saves = "self, other",
            .see = "dot",
            .rule = "[n], [n] -> []",
            .example = "torch.vdot(torch.tensor{1, 2}, torch.tensor{3, 4}) --> i64 []  11",
            .shape = dot_shape,
            .grad = dot_grad,
            .samples = dot_samples,
            .flops = sums_of_products});

void linear_shape(Call& c) {
  const Tensor &x = c.tensor(0), &w = c.tensor(1), &bias = c.tensor(2);
  TYCHO_CHECK(Kind::Shape, w.rank() == 1 || w.rank() == 2,
              "linear: the weight must have shape [out, in], not %s", to_string(w.shape()).c_str());
  TYCHO_CHECK(Kind::Shape, x.rank() > 0, "linear: the input needs at least one dimension");
  check_factors("linear", x, w);
  const int64_t in = w.size(-1);
  if (x.size(-1) != in) {
    // A fix is offered where flattening all but the first dimension gives what the layer expects.
    const bool flatten = x.rank() > 2 && x.size(0) > 0 && x.numel() / x.size(0) == in;
    fail(Kind::Shape,
         format("linear: input has %lld features in its last dimension, the layer expects %lld "
                "(weight is %s%lld = %sin). Input shape %s. Did you forget to flatten, or is "
                "in_features wrong?",
                static_cast<long long>(x.size(-1)), static_cast<long long>(in),
                w.rank() == 2 ? (std::to_string(w.size(0)) + "x").c_str() : "",
                static_cast<long long>(in), w.rank() == 2 ? "out x " : "",
                to_string(x.shape()).c_str()),
         flatten ? "x = x:flatten(2)" : "");
  }
  const int64_t out = w.rank() == 2 ? w.size(0) : 1;
  if (bias) {
    check_factors("linear", x, bias);
    TYCHO_CHECK(Kind::Shape,
                w.rank() == 2 ? bias.rank() == 1 && bias.size(0) == out : bias.numel() == 1,
                "linear: the bias must have shape [%lld], one number per output, not %s",
                static_cast<long long>(out), to_string(bias.shape()).c_str());
  }
  Sizes shape = x.shape();
  if (w.rank() == 2)
    shape[shape.n - 1] = out;
  else
    --shape.n;
  c.out.push_back(empty(shape, x.dtype(), x.device()));
}

const Op& linear = add_op(
    {.name = "linear",
     .args = "input, weight, bias: tensor?",
     .doc = "Each row of the input times the transposed weight ([out, in]), plus the bias.",
     .where = kFunctional,
     .amp = Amp::Low,
     .saves = "input, weight",
     .see = "matmul",
     .rule = "[.., in], [out, in], bias [out] -> [.., out]",
     .example = "F.linear(torch.tensor{1.0, 2.0}, torch.tensor{{1.0, 1.0}, {0.0, 3.0}}, "
                "torch.tensor{10.0, 20.0}) --> f32 [2]  13 26",
     .shape = linear_shape,
     .grad =
         [](Backward& b) {
           const Tensor x = b.in(0);
           Tensor w = b.in(1), g = b.g();
           if (w.rank() == 1) {
             Sizes shape = g.shape();
             shape.push_back(1);
             g = op<"reshape">(g, shape);
             w = op<"reshape">(w, Sizes{1, w.size(0)});
           }
           if (b.needs(0)) b.set(0, op<"matmul">(g, w));
           if (!b.needs(1) && !b.needs(2)) return;
           int64_t rows = 1;  // by the sizes: a width may be 0
           for (int d = 0; d < x.rank() - 1; ++d) rows *= x.size(d);
           const Tensor g2 = op<"reshape">(g, Sizes{rows, w.size(0)});
           if (b.needs(1) && b.needs(2) && b.shape(1).n == 2 && !x.device().is_cpu()) {
             const auto both =
                 ops<"linear_backward">(g2, op<"reshape">(x, Sizes{rows, x.size(-1)}));
             b.set(1, both[0]);
             b.set(2, op<"reshape">(both[1], b.shape(2)));
             return;
           }
           if (b.needs(1)) {
             const Tensor gw = op<"matmul">(turned(g2), op<"reshape">(x, Sizes{rows, x.size(-1)}));
             b.set(1, b.shape(1).n == 1 ? op<"reshape">(gw, b.shape(1)) : gw);
           }
           if (b.needs(2)) {
             const Tensor gb = op<"sum">(g2, Sizes{0});
             b.set(2, b.shape(2).n == 1 ? gb : op<"reshape">(gb, b.shape(2)));
           }
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), s.normal({5, 3}), s.normal({5})});
           s.add({s.normal({4, 3}), s.normal({5, 3})});
           s.add({s.normal({3}), s.normal({5, 3}), s.normal({5})});
           s.add({s.normal({2, 4, 3}), s.normal({5, 3}), s.normal({5})});
           s.add({s.normal({4, 3}), s.normal({3}), s.normal({1})});
           s.add({s.normal({0, 3}), s.normal({5, 3}), s.normal({5})});
           s.add({s.normal({4, 3}, DType::BFloat16), s.normal({5, 3}, DType::BFloat16),
                  s.normal({5}, DType::BFloat16)},
                 false);
         },
     .flops = sums_of_products});

// What devices compute in one pass over the gradient.
const Op& linear_backward = add_op(
    {.name = "linear_backward",
     .args = "grad, input",
     .doc = "The gradients of linear's weight and bias, from its result's [n, out] and its input "
            "[n, in].",
     .where = kHidden,
     .saves = "grad, input",
     .shape =
         [](Call& c) {
           const Tensor &g = c.tensor(0), &x = c.tensor(1);
           c.out.push_back(empty({g.size(1), x.size(1)}, g.dtype(), g.device()));
           c.out.push_back(empty({g.size(1)}, g.dtype(), g.device()));
         },
     .compose =
         [](Call& c) {
           c.out.push_back(op<"matmul">(turned(c.tensor(0)), c.tensor(1)));
           c.out.push_back(op<"sum">(c.tensor(0), Sizes{0}));
         },
     .grad =
         [](Backward& b) {
           const Tensor g = b.in(0), x = b.in(1);
           if (b.needs(0)) {
             Tensor dg;
             if (b.has_g(0)) dg = op<"matmul">(x, turned(b.g(0)));
             if (b.has_g(1)) {
               const Tensor all = op<"expand">(b.g(1), g.shape());
               dg = dg ? dg + all : all;
             }
             if (dg) b.set(0, dg);
           }
           if (b.needs(1) && b.has_g(0)) b.set(1, op<"matmul">(g, b.g(0)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), s.normal({4, 5})});
           s.add({s.normal({7, 1}), s.normal({7, 2})});
         }});

// Matrices of all examples as a stack; a vector is a matrix of one row or column meanwhile.
BatchResults batched_product(Spread& s) {
  Tensor a = s.tensor(0), b = s.tensor(1);
  const bool row = s.rank(0) == 1, column = s.rank(1) == 1;
  if (row) a = op<"unsqueeze">(a, -2);
  if (column) b = op<"unsqueeze">(b, -1);
  const int ra = s.rank(0) + row, rb = s.rank(1) + column;
  for (int d = ra; s.batched(0) && d < rb; ++d) a = op<"unsqueeze">(a, 1);
  for (int d = rb; s.batched(1) && d < ra; ++d) b = op<"unsqueeze">(b, 1);
  Tensor y = op<"matmul">(a, b);
  if (column) y = op<"squeeze">(y, Sizes{-1});
  if (row) y = op<"squeeze">(y, Sizes{column ? -1 : -2});
  return {y};
}
BATCH("matmul", batched_product);
BATCH("mm", batched_product);
BATCH("bmm", batched_product);
BATCH("mv", batched_product);
BATCH("dot", batched_product);
BATCH("linear", [](Spread& s) -> BatchResults {
  if (s.batched(0) && !s.batched(1) && !s.batched(2)) return by_leading(s);
  Tensor x = s.tensor(0), w = op<"mT">(s.tensor(1));
  const bool row = s.rank(0) == 1;
  if (row) x = op<"unsqueeze">(x, -2);
  for (int d = 2; s.batched(1) && d < s.rank(0); ++d) w = op<"unsqueeze">(w, 1);
  Tensor y = op<"matmul">(x, w);
  if (s.one.has(2)) {
    Tensor bias = s.tensor(2);
    for (int d = s.rank(0) + row; s.batched(2) && d > 1; --d) bias = op<"unsqueeze">(bias, 1);
    y = op<"add">(y, bias);
  }
  return {row ? op<"squeeze">(y, Sizes{-2}) : y};
});

}  // namespace
}  // namespace tycho
