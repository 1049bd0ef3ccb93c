// Reductions over dimensions: sums, products, truth, counts. (Largest and smallest values stand in
// extreme.cpp, variances and norms in moments.cpp.)
#include "engine/ops/reduce/reduce.h"

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/flops.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/read.h"

namespace tycho {

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

Tensor& add_reduced(Call& c, int dims, bool keepdim, DType dtype) {
  const Tensor& x = c.tensor(0);
  const uint32_t bits = dim_bits(c, dims, x.rank());
  c.out.push_back(empty(reduced_shape(x.shape(), bits, keepdim), dtype, x.device()));
  return c.out.back();
}

Tensor unreduce(const Tensor& t, const Sizes& shape, uint32_t bits) {
  if (t.rank() == shape.n) return t;
  return op<"reshape">(t, reduced_shape(shape, bits, true));
}

uint32_t dims_of(const Backward& b, int dims, int rank) {
  if (!b.has(dims) || b.count(dims) == 0) return (1u << rank) - 1;
  uint32_t bits = 0;
  for (int64_t d : b.ints(dims)) bits |= one_dim(d, rank);
  return bits;
}

Sizes dim_list(uint32_t bits, int rank) {
  Sizes dims;
  for (int d = 0; d < rank; ++d)
    if (bits >> d & 1) dims.push_back(d);
  return dims;
}

uint32_t one_dim(int64_t dim, int rank) {
  const int d = wrap_dim(dim, rank);
  return rank ? 1u << d : 0;
}

void check_not_empty(const char* name, const Tensor& x, uint32_t bits) {
  for (int d = 0; d < x.rank(); ++d)
    TYCHO_CHECK(Kind::Dim, !(bits >> d & 1) || x.size(d) > 0,
                "%s: there is nothing to choose from: dimension %d of shape %s has no elements",
                name, d + 1, to_string(x.shape()).c_str());
}

namespace {

// A gradient of a reduced result, stretched back over the reduced dims.
Tensor stretch(const Tensor& g, const Sizes& shape, uint32_t bits) {
  return op<"expand">(unreduce(g, shape, bits), shape);
}

double depth_of(const Sizes& shape, uint32_t bits) {
  double n = 1;
  for (int d = 0; d < shape.n; ++d)
    if (bits >> d & 1) n *= static_cast<double>(shape[d]);
  return n;
}

DType sum_type(const Tensor& x) { return is_floating(x.dtype()) ? x.dtype() : DType::Int64; }

// The result type of a mean, which is of floating point numbers.
DType mean_type(const Call& c, const char* name, int dtype_arg) {
  const DType t = c.dtype(dtype_arg, c.tensor(0).dtype());
  if (!is_floating(t))
    fail(Kind::DType,
         format("%s: a mean is of floating point numbers, not of %s", name, dtype_name(t)),
         format("x:float():%s()", name));
  return t;
}

void dims_samples(Samples& s) {
  s.add({s.normal({3, 4})});
  s.add({s.normal({3, 4}), s.ints({0})});
  s.add({s.normal({2, 3, 4}), s.ints({0, 2}), true});
  s.add({s.normal({2, 3, 4}), s.ints({-1})});
  s.add({s.normal({})});
  s.add({s.normal({2, 0}), s.ints({1})});
}

const Op& sum = add_op(
    {.name = "sum",
     .args = "self, dim: dims?, keepdim: bool = false, dtype: dtype?",
     .doc = "Sum of the elements, over all dimensions or the named ones; integers and bool give "
            "int64.",
     .amp = Amp::F32Cuda,
     .see = "mean, nansum, prod, cumsum",
     .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
     .example = "torch.tensor{{1, 2}, {3, 4}}:sum() --> i64 []  10\n"
                "torch.tensor{{1, 2}, {3, 4}}:sum(1) --> i64 [2]  4 6\n"
                "torch.tensor{{1, 2}, {3, 4}}:sum{dim=2, keepdim=true} --> i64 [2, 1]\n"
                " 3\n"
                " 7",
     .shape = [](Call& c) { add_reduced(c, 1, c.flag(2), c.dtype(3, sum_type(c.tensor(0)))); },
     .grad =
         [](Backward& b) {
           const Sizes shape = b.shape(0);
           b.set(0, stretch(b.g(), shape, dims_of(b, 1, shape.n)));
         },
     .samples =
         [](Samples& s) {
           dims_samples(s);
           s.add({s.integers({3, 4}, -5, 5, DType::Int32), s.ints({1})});
           s.add({s.mask({3, 4})});
         },
     .flops = one_per_element});

const Op& nansum = add_op(
    {.name = "nansum",
     .args = "self, dim: dims?, keepdim: bool = false, dtype: dtype?",
     .doc = "Sum of the elements that are not nan.",
     .saves = "self",
     .see = "sum, nanmean",
     .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
     .example = "torch.tensor{1.0, 0/0, 3.0}:nansum() --> f32 []  4",
     .shape = [](Call& c) { add_reduced(c, 1, c.flag(2), c.dtype(3, sum_type(c.tensor(0)))); },
     .grad =
         [](Backward& b) {
           const Tensor x = b.in(0);
           b.set(0, stretch(b.g(), x.shape(), dims_of(b, 1, x.rank())) * fn::eq(x, x));
         },
     .samples =
         [](Samples& s) {
           dims_samples(s);
           s.add({s.of({2, 2}, {1, __builtin_nan(""), 3, 4}), s.ints({0})}, false);
         },
     .flops = one_per_element});

const Op& mean =
    add_op({.name = "mean",
            .args = "self, dim: dims?, keepdim: bool = false, dtype: dtype?",
            .doc = "Mean of the elements, over all dimensions or the named ones.",
            .see = "sum, nanmean, var_mean",
            .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
            .example = "torch.tensor{1.0, 2.0, 6.0}:mean() --> f32 []  3\n"
                       "torch.tensor{{1.0, 3.0}, {5.0, 7.0}}:mean(1) --> f32 [2]  3 5",
            .shape = [](Call& c) { add_reduced(c, 1, c.flag(2), mean_type(c, "mean", 3)); },
            .grad =
                [](Backward& b) {
                  const Sizes shape = b.shape(0);
                  const uint32_t bits = dims_of(b, 1, shape.n);
                  b.set(0, stretch(b.g() / depth_of(shape, bits), shape, bits));
                },
            .samples = dims_samples,
            .flops = one_per_element});

const Op& count_numbers =
    add_op({.name = "count_numbers",
            .args = "self, dim: dims?, keepdim: bool = false",
            .doc = "How many elements are not nan.",
            .where = kHidden,
            .differentiable = false,
            .shape = [](Call& c) { add_reduced(c, 1, c.flag(2), DType::Int64); },
            .samples = dims_samples});

const Op& nanmean =
    add_op({.name = "nanmean",
            .args = "self, dim: dims?, keepdim: bool = false, dtype: dtype?",
            .doc = "Mean of the elements that are not nan.",
            .see = "mean, nansum",
            .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
            .example = "torch.tensor{1.0, 0/0, 3.0}:nanmean() --> f32 []  2",
            .compose =
                [](Call& c) {
                  mean_type(c, "nanmean", 3);
                  c.out.push_back(op<"nansum">(c.tensor(0), c.arg[1], c.arg[2], c.arg[3]) /
                                  op<"count_numbers">(c.tensor(0), c.arg[1], c.arg[2]));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4})});
                  s.add({s.normal({2, 3, 4}), s.ints({0, 2}), true});
                }});

// Products. Each element's derivative is the product of the others, found without division.
DType prod_type(const Tensor& x) { return sum_type(x); }

const Op& prod =
    add_op({.name = "prod",
            .args = "self, dtype: dtype?",
            .doc = "Product of all elements; integers and bool give int64.",
            .amp = Amp::F32,
            .see = "cumprod, sum",
            .rule = "any shape -> []",
            .example = "torch.tensor{2, 3, 4}:prod() --> i64 []  24",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  c.out.push_back(op<"prod.dim">(op<"reshape">(x, Sizes{-1}), 0, false, c.arg[1]));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4})});
                  s.add({s.of({4}, {2, 0, 3, 1})});
                  s.add({s.of({4}, {2, 0, 3, 0})});
                  s.add({s.normal({})});
                }});

const Op& prod_dim = add_op({.name = "prod.dim",
                             .args = "self, dim: dim, keepdim: bool = false, dtype: dtype?",
                             .doc = "Product of the elements along a dimension.",
                             .amp = Amp::F32,
                             .saves = "self",
                             .see = "cumprod, sum",
                             .rule = "[.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
                             .example = "torch.tensor{{2, 3}, {4, 5}}:prod(2) --> i64 [2]  6 20",
                             .shape =
                                 [](Call& c) {
                                   const Tensor& x = c.tensor(0);
                                   const uint32_t bits = one_dim(c.integer(1), x.rank());
                                   c.out.push_back(empty(reduced_shape(x.shape(), bits, c.flag(2)),
                                                         c.dtype(3, prod_type(x)), x.device()));
                                 },
                             .grad =
                                 [](Backward& b) {
                                   const Tensor x = b.in(0);
                                   const uint32_t bits = one_dim(b.integer(1), x.rank());
                                   b.set(0, unreduce(b.g(), x.shape(), bits) *
                                                op<"prod_of_others">(x, b.integer(1)));
                                 },
                             .samples =
                                 [](Samples& s) {
                                   s.add({s.normal({3, 4}), 1});
                                   s.add({s.normal({2, 3, 4}), 1, true});
                                   s.add({s.of({2, 3}, {1, 0, 2, 0, 0, 3}), 1});
                                   s.add({s.integers({2, 3}, -3, 3), 0});
                                 }});

// Its gradient with zeros anywhere: element (i, k) of a square is x[k], and 1 on the diagonal; row
// i's product is result i. It squares the memory, so it serves only x with zeros.
Tensor others_grad_with_zeros(const Tensor& g, const Tensor& x) {
  const int64_t n = x.size(-1);
  Sizes square = x.shape();
  square.insert(square.n - 1, n);
  const Tensor line = op<"cumsum">(filled({n}, 1, DType::Int64, x.device()), 0);
  const Tensor same = fn::eq(line, op<"unsqueeze">(line, -1));
  const Tensor wide = op<"where">(same, 1.0, op<"expand">(op<"unsqueeze">(x, -2), square));
  const Tensor part = op<"unsqueeze">(g, -1) * op<"prod_of_others">(wide, -1);
  return op<"sum">(op<"where">(same, 0.0, part), Sizes{-2});
}

const Op& prod_of_others = add_op(
    {.name = "prod_of_others",
     .args = "self, dim: dim",
     .doc = "For each element the product of all others along a dimension.",
     .where = kHidden,
     .saves = "self",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           wrap_dim(c.integer(1), x.rank());
           c.out.push_back(empty(x.shape(), x.dtype(), x.device()));
         },
     .grad =
         [](Backward& b) { b.set(0, op<"prod_of_others_backward">(b.g(), b.in(0), b.integer(1))); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), 1});
           s.add({s.of({2, 3}, {1, 0, 2, 0, 0, 3}), 1});
         }});

const Op& prod_of_others_backward =
    add_op({.name = "prod_of_others_backward",
            .args = "grad, self, dim: dim",
            .doc = "The gradient of prod_of_others.",
            .where = kHidden,
            .compose =
                [](Call& c) {
                  const Tensor &g = c.tensor(0), &x = c.tensor(1);
                  if (x.rank() == 0) {
                    c.out.push_back(op<"zeros_like">(g));
                    return;
                  }
                  const int64_t d = c.integer(2);
                  bool zeros;
                  {
                    NoGrad quiet;
                    zeros = !item<bool>(op<"all">(x));
                  }
                  if (zeros) {
                    const Tensor moved = others_grad_with_zeros(op<"transpose">(g, d, -1),
                                                                op<"transpose">(x, d, -1));
                    c.out.push_back(op<"transpose">(moved, d, -1));
                  } else {
                    const Tensor part = g * op<"prod_of_others">(x, d);
                    c.out.push_back((op<"sum">(part, Sizes{d}, true) - part) / x);
                  }
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), s.normal({3, 4}), 1});
                  s.add({s.normal({2, 3}), s.of({2, 3}, {1, 0, 2, 0, 0, 3}), 1});
                }});

// Truth. uint8 stays uint8, all others give bool.
void truth_shape(Call& c) {
  const DType t = c.tensor(0).dtype();
  add_reduced(c, 1, c.flag(2), t == DType::UInt8 ? t : DType::Bool);
}
void truth_samples(Samples& s) {
  s.add({s.mask({3, 4})});
  s.add({s.mask({3, 4}), s.ints({0})});
  s.add({s.integers({2, 3, 4}, 0, 1), s.ints({0, 2}), true});
  s.add({s.normal({3})});
  s.add({s.mask({0, 2}), s.ints({0})});
}

const Op& any =
    add_op({.name = "any",
            .args = "self, dim: dims?, keepdim: bool = false",
            .doc = "Whether any element is true (not zero).",
            .differentiable = false,
            .see = "all, count_nonzero",
            .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
            .example = "torch.tensor{false, true}:any() --> bool []  true\n"
                       "torch.tensor{1, 0, 3}:gt(2):any():item() --> true",
            .shape = truth_shape,
            .samples = truth_samples});

const Op& all =
    add_op({.name = "all",
            .args = "self, dim: dims?, keepdim: bool = false",
            .doc = "Whether all elements are true (not zero).",
            .differentiable = false,
            .see = "any, count_nonzero",
            .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
            .example = "torch.tensor{true, true, false}:all() --> bool []  false\n"
                       "torch.tensor{{1, 1}, {0, 1}}:all(2) --> bool [2]  # .",
            .shape = truth_shape,
            .samples = truth_samples});

const Op& count_nonzero =
    add_op({.name = "count_nonzero",
            .args = "self, dim: dims?",
            .doc = "How many elements are not zero.",
            .differentiable = false,
            .see = "nonzero, any",
            .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
            .example = "torch.tensor{0, 3, 0, 1}:count_nonzero() --> i64 []  2",
            .shape = [](Call& c) { add_reduced(c, 1, false, DType::Int64); },
            .samples =
                [](Samples& s) {
                  s.add({s.integers({3, 4}, 0, 2)});
                  s.add({s.integers({2, 3, 4}, 0, 2), s.ints({0, 2})});
                }});

const Op& sum_to_size = add_op(
    {.name = "sum_to_size",
     .args = "self, size: ints",
     .doc =
         "The tensor summed over the dimensions along which `size` would broadcast to its shape.",
     .where = kMethod,
     .see = "sum, expand",
     .rule = "a shape that size broadcasts to -> size",
     .example = "torch.ones(2, 3):sum_to_size{1, 3} --> f32 [1, 3]\n"
                " 2  2  2",
     .compose =
         [](Call& c) {
           Tensor x = c.tensor(0);
           const Sizes want = c.ints(1);
           const int lead = x.rank() - want.n;
           TYCHO_CHECK(Kind::Broadcast, lead >= 0 && broadcast(want, x.shape()) == x.shape(),
                       "sum_to_size: %s does not broadcast to %s", to_string(want).c_str(),
                       to_string(x.shape()).c_str());
           // One sum, which rounds once.
           Sizes dims;
           for (int d = 0; d < lead; ++d) dims.push_back(d);
           for (int d = lead; d < x.rank(); ++d)
             if (want[d - lead] == 1 && x.size(d) != 1) dims.push_back(d);
           const bool keep = dims.n > lead;
           if (dims.n) x = op<"sum">(x, dims, keep);
           if (keep && lead) x = op<"reshape">(x, want);
           c.out.push_back(x);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3, 4}), s.ints({3, 1})});
         }});

}  // namespace
}  // namespace tycho
