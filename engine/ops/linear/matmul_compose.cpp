// Products made of other products: the add- family, outer, inner, tensordot, bilinear.
#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

// beta * self + alpha * product. With beta 0, self is not read: its nan and inf do not spread.
Tensor scaled_sum(const Call& c, Tensor product, int beta, int alpha) {
  const Tensor& self = c.tensor(0);
  if (self.dtype() != product.dtype())
    fail(Kind::DType, format("%s: all tensors must have one type, these are %s and %s", c.op->name,
                             dtype_name(self.dtype()), dtype_name(product.dtype())));
  if (!is_floating(product.dtype()))
    TYCHO_CHECK(Kind::DType, c.arg[beta].tag != Tag::Float && c.arg[alpha].tag != Tag::Float,
                "%s: beta and alpha must be integers for tensors of %s", c.op->name,
                dtype_name(product.dtype()));
  bool fits = self.rank() <= product.rank();
  for (int d = 1; fits && d <= self.rank(); ++d)
    fits = self.size(-d) == 1 || self.size(-d) == product.size(-d);
  if (!fits)
    fail(Kind::Broadcast,
         format("%s: the first tensor's shape %s does not fit the product's %s", c.op->name,
                to_string(self.shape()).c_str(), to_string(product.shape()).c_str()));
  if (is_floating(product.dtype())) {  // nobody else has the product: it takes the rest in
    if (c.number(alpha) != 1) op_<"mul">(product, c.arg[alpha]);
    if (c.number(beta) != 0) op_<"add.alpha">(product, self, c.arg[beta]);
    return product;
  }
  if (c.number(alpha) != 1) product = product * Operand(c.arg[alpha]);
  if (c.number(beta) == 0) return product;
  return (c.number(beta) == 1 ? self : self * Operand(c.arg[beta])) + product;
}

template <OpName Product>
void add_product(Call& c) {
  c.out.push_back(scaled_sum(c, op<Product>(c.tensor(1), c.tensor(2)), 3, 4));
}

// Where one row is added to all rows of a product, it begins its sums. (Gradients keep the factors' layout.)
void add_matrix_product(Call& c) {
  const Tensor &row = c.tensor(0), &a = c.tensor(1), &b = c.tensor(2);
  const bool plain = c.number(3) == 1 && c.number(4) == 1 && is_floating(row.dtype()) &&
                     row.dtype() == a.dtype() && a.dtype() == b.dtype() && row.rank() == 1 &&
                     a.rank() == 2 && b.rank() == 2 && row.size(0) == b.size(1) &&
                     a.size(1) == b.size(0) && !b.get()->requires_grad;
  if (plain) return become<"linear">(c, a, op<"transpose">(b, 0, 1), row);
  add_product<"mm">(c);
}

const Op& addmm = add_op({.name = "addmm",
                          .args = "self, mat1, mat2, beta: number = 1, alpha: number = 1",
                          .doc = "beta * self + alpha * (mat1 times mat2).",
                          .amp = Amp::Low,
                          .inplace = Inplace::Copy,
                          .see = "mm",
                          .rule = "[n, p], [n, m], [m, p] -> [n, p]",
                          .example = "torch.ones(2, 2):addmm(torch.eye(2), torch.tensor{{1.0, "
                                     "2.0}, {3.0, 4.0}}) --> f32 [2, 2]\n"
                                     " 2  3\n"
                                     " 4  5",
                          .compose = add_matrix_product,
                          .samples = [](Samples& s) {
                            s.add({s.normal({2, 4}), s.normal({2, 3}), s.normal({3, 4})});
                            s.add({s.normal({4}), s.normal({2, 3}), s.normal({3, 4}), 0.5, 2});
                          }});

const Op& addmv = add_op({.name = "addmv",
                          .args = "self, mat, vec, beta: number = 1, alpha: number = 1",
                          .doc = "beta * self + alpha * (mat times vec).",
                          .amp = Amp::LowCuda,
                          .inplace = Inplace::Copy,
                          .see = "mv",
                          .rule = "[n], [n, m], [m] -> [n]",
                          .example = "torch.ones(2):addmv(torch.tensor{{1.0, 2.0}, {3.0, 4.0}}, "
                                     "torch.tensor{1.0, 1.0}) --> f32 [2]  4 8",
                          .compose = add_product<"mv">,
                          .samples = [](Samples& s) {
                            s.add({s.normal({2}), s.normal({2, 3}), s.normal({3})});
                            s.add({s.normal({2}), s.normal({2, 3}), s.normal({3}), 0.5, 2});
                          }});

const Op& addr = add_op(
    {.name = "addr",
     .args = "self, vec1, vec2, beta: number = 1, alpha: number = 1",
     .doc = "beta * self + alpha * (the outer product of vec1 and vec2).",
     .amp = Amp::LowCuda,
     .inplace = Inplace::Copy,
     .see = "outer",
     .rule = "[n, m], [n], [m] -> [n, m]",
     .example =
         "torch.zeros(2, 2):addr(torch.tensor{1.0, 2.0}, torch.tensor{3.0, 4.0}) --> f32 [2, 2]\n"
         " 3  4\n"
         " 6  8",
     .compose =
         [](Call& c) {
           const Tensor &self = c.tensor(0), &a = c.tensor(1), &b = c.tensor(2);
           // One pass, where nothing is to be refused and self counts as it is.
           if (a.rank() == 1 && b.rank() == 1 && c.number(3) == 1 && is_floating(self.dtype()) &&
               self.dtype() == a.dtype() && a.dtype() == b.dtype() &&
               self.shape() == Sizes{a.size(0), b.size(0)}) {
             become<"addcmul">(c, self, op<"unsqueeze">(a, 1), b, c.arg[4]);
             return;
           }
           add_product<"outer">(c);
           if (c.tensor(0).dtype() ==
               DType::Bool)  // integer factors do not widen it, as in PyTorch
             c.out[0] = op<"to.dtype">(c.out[0], DType::Bool);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), s.normal({2}), s.normal({3})});
           s.add({s.normal({2, 3}), s.normal({2}), s.normal({3}), 0.5, 2});
         }});

const Op& baddbmm =
    add_op({.name = "baddbmm",
            .args = "self, batch1, batch2, beta: number = 1, alpha: number = 1",
            .doc = "beta * self + alpha * (the products of two batches of matrices).",
            .amp = Amp::Low,
            .inplace = Inplace::Copy,
            .see = "bmm",
            .rule = "[b, n, p], [b, n, m], [b, m, p] -> [b, n, p]",
            .example = "torch.ones(2, 1, 1):baddbmm(torch.ones(2, 1, 3), torch.ones(2, 3, "
                       "1)):flatten() --> f32 [2]  view  4 4",
            .compose = add_product<"bmm">,
            .samples = [](Samples& s) {
              s.add({s.normal({2, 3, 5}), s.normal({2, 3, 4}), s.normal({2, 4, 5})});
              s.add({s.normal({3, 5}), s.normal({2, 3, 4}), s.normal({2, 4, 5}), 0.5, 2});
            }});

const Op& addbmm = add_op(
    {.name = "addbmm",
     .args = "self, batch1, batch2, beta: number = 1, alpha: number = 1",
     .doc = "beta * self + alpha * (the sum of the products of two batches of matrices).",
     .amp = Amp::Low,
     .inplace = Inplace::Copy,
     .see = "bmm",
     .rule = "[n, p], [b, n, m], [b, m, p] -> [n, p]",
     .example =
         "torch.zeros(1, 1):addbmm(torch.ones(3, 1, 2), torch.ones(3, 2, 1)) --> f32 [1, 1]\n"
         " 6",
     .compose =
         [](Call& c) {
           const Tensor products = op<"bmm">(c.tensor(1), c.tensor(2));
           c.out.push_back(
               scaled_sum(c, op<"sum">(products, Sizes{0}, false, products.dtype()), 3, 4));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 5}), s.normal({2, 3, 4}), s.normal({2, 4, 5})});
         }});

const Op& outer =
    add_op({.name = "outer",
            .args = "self, vec2",
            .doc = "Every product of an element of one vector and one of another, as a matrix.",
            .see = "addr",
            .rule = "[n], [m] -> [n, m]",
            .example = "torch.outer(torch.tensor{1, 2}, torch.tensor{1, 10, 100}) --> i64 [2, 3]\n"
                       " 1  10  100\n"
                       " 2  20  200",
            .compose =
                [](Call& c) {
                  const Tensor &a = c.tensor(0), &b = c.tensor(1);
                  TYCHO_CHECK(Kind::Argument, a.rank() == 1 && b.rank() == 1,
                              "outer: takes two vectors, not %s and %s",
                              to_string(a.shape()).c_str(), to_string(b.shape()).c_str());
                  become<"mul">(c, op<"reshape">(a, Sizes{a.size(0), 1}), b);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3}), s.normal({4})});
                }});

Tensor product_over(const char* name, const Tensor& a, const Tensor& b, Sizes dims_a, Sizes dims_b);

const Op& inner =
    add_op({.name = "inner",
            .args = "self, other",
            .doc = "Dot products along the last dimensions; with a 0-d tensor, the plain product.",
            .see = "dot, tensordot",
            .rule = "[.., n], [.., n] -> both without the last dimension",
            .example = "torch.inner(torch.tensor{1, 2}, torch.tensor{3, 4}) --> i64 []  11",
            .compose =
                [](Call& c) {
                  const Tensor &a = c.tensor(0), &b = c.tensor(1);
                  if (a.rank() == 0 || b.rank() == 0)
                    c.out.push_back(a * b);
                  else
                    c.out.push_back(product_over("inner", a, b, {a.rank() - 1}, {b.rank() - 1}));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3}), s.normal({3})});
                  s.add({s.normal({2, 3}), s.normal({4, 3})});
                  s.add({s.normal({2, 3}), s.normal(Sizes())});
                }});

// The tensor with its dimensions in another order.
Tensor reordered(const Tensor& t, const Sizes& order) {
  Sizes at;  // where each original dimension is now
  Tensor x = t;
  for (int d = 0; d < order.n; ++d) at.push_back(d);
  for (int d = 0; d < order.n; ++d) {
    int from = 0;
    while (at[from] != order[d]) ++from;
    if (from == d) continue;
    x = op<"transpose">(x, d, from);
    std::swap(at[d], at[from]);
  }
  return x;
}

// Sums of products over pairs of dimensions; the other dimensions of a, then those of b, stay.
Tensor product_over(const char* name, const Tensor& first, const Tensor& second, Sizes dims_a,
                    Sizes dims_b) {
  Tensor a = first, b = second;
  TYCHO_CHECK(Kind::Shape, dims_a.n == dims_b.n,
              "%s: as many dimensions of the first tensor as of the second, not %d and %d", name,
              dims_a.n, dims_b.n);
  Sizes order_a, order_b, shape;
  uint32_t taken_a = 0, taken_b = 0;
  int64_t k = 1, m = 1, n = 1;
  for (int i = 0; i < dims_a.n; ++i) {
    const int x = wrap_dim(dims_a[i], a.rank()), y = wrap_dim(dims_b[i], b.rank());
    TYCHO_CHECK(Kind::Dim, !(taken_a >> x & 1) && !(taken_b >> y & 1),
                "%s: dimension %d is named twice", name, (taken_a >> x & 1 ? x : y) + 1);
    // A summed dimension of size 1 meets any size, as in PyTorch: the other one is summed first.
    if (a.size(x) == 1 && b.size(y) != 1) b = op<"sum">(b, Sizes{y}, true);
    if (b.size(y) == 1 && a.size(x) != 1) a = op<"sum">(a, Sizes{x}, true);
    if (a.size(x) != b.size(y))
      fail(Kind::Shape,
           format("%s: dimension %d of %s is %lld, dimension %d of %s is %lld; summed "
                  "dimensions must agree",
                  name, x + 1, to_string(a.shape()).c_str(), static_cast<long long>(a.size(x)),
                  y + 1, to_string(b.shape()).c_str(), static_cast<long long>(b.size(y))));
    taken_a |= 1u << x, taken_b |= 1u << y;
    dims_a[i] = x, dims_b[i] = y;
    k *= a.size(x);
  }
  for (int d = 0; d < a.rank(); ++d)
    if (!(taken_a >> d & 1)) order_a.push_back(d), shape.push_back(a.size(d)), m *= a.size(d);
  for (int64_t d : dims_a) order_a.push_back(d);
  for (int64_t d : dims_b) order_b.push_back(d);
  for (int d = 0; d < b.rank(); ++d)
    if (!(taken_b >> d & 1)) order_b.push_back(d), shape.push_back(b.size(d)), n *= b.size(d);
  const Tensor left = op<"reshape">(reordered(a, order_a), Sizes{m, k});
  const Tensor right = op<"reshape">(reordered(b, order_b), Sizes{k, n});
  return op<"reshape">(op<"mm">(left, right), shape);
}

const Op& tensordot = add_op(
    {.name = "tensordot",
     .args = "a, b, dims: int = 2",
     .doc = "Sums of products over the last `dims` dimensions of a and the first of b.",
     .where = kFunction,
     .see = "einsum, matmul",
     .rule = "[.., the last dims of a], [the first dims of b, ..] -> [.., ..]",
     .example =
         "torch.tensordot(torch.ones(2, 3), torch.ones(3, 2), {dims=1}) --> f32 [2, 2]  view\n"
         " 3  3\n"
         " 3  3",
     .compose =
         [](Call& c) {
           const Tensor &a = c.tensor(0), &b = c.tensor(1);
           const int64_t n = c.integer(2);
           TYCHO_CHECK(Kind::Value, n >= 0 && n <= a.rank() && n <= b.rank(),
                       "tensordot: dims must be between 0 and %d for tensors with %d and %d "
                       "dimensions, not %lld",
                       std::min(a.rank(), b.rank()), a.rank(), b.rank(), static_cast<long long>(n));
           Sizes x, y;
           for (int64_t i = 0; i < n; ++i) x.push_back(a.rank() - n + i), y.push_back(i);
           c.out.push_back(product_over("tensordot", a, b, x, y));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3, 4}), s.normal({3, 4, 5})});
           s.add({s.normal({2, 3}), s.normal({3, 5}), 1});
         }});

const Op& tensordot_dims = add_op(
    {.name = "tensordot.dims",
     .args = "a, b, dims_self: dims, dims_other: dims",
     .doc = "Sums of products over the named dimensions of a and of b, pair by pair.",
     .where = kFunction,
     .see = "einsum, matmul",
     .rule = "a and b without the named dimensions, one after the other",
     .example = "torch.tensordot(torch.ones(2, 3), torch.ones(2, 4), {1}, {1}).shape --> [3, 4]",
     .compose =
         [](Call& c) {
           c.out.push_back(
               product_over("tensordot", c.tensor(0), c.tensor(1), c.ints(2), c.ints(3)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3, 4}), s.normal({4, 3}), s.ints({1, 2}), s.ints({1, 0})});
         }});

}  // namespace
}  // namespace tycho
