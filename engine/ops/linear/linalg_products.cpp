// Powers and products of several matrices, and of vectors: matrix_power, multi_dot, vecdot, cross.
#include <algorithm>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

const Op& matrix_power = add_op(
    {.name = "matrix_power",
     .args = "self, n: int",
     .doc = "A square matrix multiplied n times with itself; n below 0 powers the inverse.",
     .where = kFunction | kMethod | kLinalg,
     .see = "linalg.inv, matmul",
     .rule = "[.., n, n] -> [.., n, n]",
     .example = "torch.tensor{{1, 1}, {0, 1}}:matrix_power(3) --> i64 [2, 2]\n"
                " 1  3\n"
                " 0  1",
     .compose =
         [](Call& c) {
           Tensor a = c.tensor(0);
           TYCHO_CHECK(Kind::Shape, a.rank() >= 2 && a.size(-1) == a.size(-2),
                       "matrix_power: takes square matrices, not shape %s",
                       to_string(a.shape()).c_str());
           int64_t n = c.integer(1);
           if (n == 0) {
             // The identity, whose gradient is zero but there.
             const Tensor all = op<"ones">(a.shape(), DType::Bool, a.device());
             c.out.push_back(op<"masked_fill">(a, all, 0) +
                             op<"eye">(a.size(-1), Value(), a.dtype(), a.device()));
             return;
           }
           if (n < 0) a = op<"inv">(a);
           Tensor out;
           for (uint64_t left = n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);;) {
             if (left & 1) out = out ? op<"matmul">(out, a) : a;
             if (!(left >>= 1)) break;
             a = op<"matmul">(a, a);
           }
           c.out.push_back(out.get() == c.tensor(0).get() ? op<"clone">(out) : out);
         },
     .samples =
         [](Samples& s) {
           s.add({s.of({2, 2}, {2, 1, 1, 3}), 3});
           s.add({s.of({2, 2}, {2, 1, 1, 3}), -2});
           s.add({s.normal({2, 2, 2}), 1});
           s.add({s.normal({2, 2}), 0}, false);
         }});

// The cheapest order of products (dynamic programming, Cormen et al., chapter 15).
Tensor chain(const std::vector<Tensor>& m) {
  const size_t n = m.size();
  std::vector<double> cost(n * n, 0);
  std::vector<size_t> cut(n * n, 0);
  for (size_t length = 2; length <= n; ++length)
    for (size_t i = 0; i + length <= n; ++i) {
      const size_t j = i + length - 1;
      cost[i * n + j] = 1e300;
      for (size_t k = i; k < j; ++k) {
        const double price = cost[i * n + k] + cost[(k + 1) * n + j] +
                             static_cast<double>(m[i].size(0)) * static_cast<double>(m[k].size(1)) *
                                 static_cast<double>(m[j].size(1));
        if (price < cost[i * n + j]) cost[i * n + j] = price, cut[i * n + j] = k;
      }
    }
  const auto product = [&](auto&& self, size_t i, size_t j) -> Tensor {
    if (i == j) return m[i];
    const size_t k = cut[i * n + j];
    return op<"matmul">(self(self, i, k), self(self, k + 1, j));
  };
  return product(product, 0, n - 1);
}

const Op& multi_dot = add_op(
    {.name = "multi_dot",
     .args = "tensors: tensors",
     .doc = "The product of several matrices in the cheapest order; the first and last may be "
            "vectors.",
     .where = kLinalg,
     .amp = Amp::Low,
     .see = "matmul",
     .rule = "[a, b], [b, c], [c, d] -> [a, d]",
     .example = "torch.linalg.multi_dot{torch.ones(1, 2), torch.ones(2, 3), torch.ones(3, 1)} --> "
                "f32 [1, 1]\n"
                " 6",
     .compose =
         [](Call& c) {
           const int n = c.count(0);
           TYCHO_CHECK(Kind::Value, n >= 2, "multi_dot: takes at least 2 matrices, not %d", n);
           std::vector<Tensor> m;
           bool row = false, column = false;
           for (int i = 0; i < n; ++i) {
             Tensor t = c.tensor(0, i);
             if (i == 0 && t.rank() == 1) t = op<"unsqueeze">(t, 0), row = true;
             if (i == n - 1 && t.rank() == 1) t = op<"unsqueeze">(t, 1), column = true;
             TYCHO_CHECK(Kind::Shape, t.rank() == 2,
                         "multi_dot: matrix %d has shape %s; it needs 2 dimensions", i + 1,
                         to_string(t.shape()).c_str());
             if (i > 0)
               TYCHO_CHECK(Kind::Shape, m.back().size(1) == t.size(0),
                           "multi_dot: matrices %d and %d have shapes %s and %s, which do not fit",
                           i, i + 1, to_string(m.back().shape()).c_str(),
                           to_string(t.shape()).c_str());
             m.push_back(t);
           }
           Tensor out = chain(m);
           if (row) out = op<"squeeze">(out, 0);
           if (column) out = op<"squeeze">(out, -1);
           c.out.push_back(out);
         },
     .samples =
         [](Samples& s) {
           s.add({s.list({s.normal({2, 3}), s.normal({3, 4}), s.normal({4, 2})})});
           s.add({s.list({s.normal({3}), s.normal({3, 2}), s.normal({2})})});
         }});

const Op& vecdot = add_op({.name = "vecdot",
                           .args = "x, y, dim: dim = -1",
                           .doc = "Dot products along a dimension, with broadcasting.",
                           .where = kLinalg,
                           .see = "dot, matmul",
                           .rule = "[.., n], [.., n] -> [..]",
                           .example = "torch.linalg.vecdot(torch.tensor{{1, 2}, {3, 4}}, "
                                      "torch.tensor{1, 10}) --> i64 [2]  21 43",
                           .compose =
                               [](Call& c) {
                                 const Tensor product = c.tensor(0) * c.tensor(1);
                                 const int dim = wrap_dim(c.integer(2), product.rank());
                                 become<"sum">(c, product, Sizes{dim});
                               },
                           .samples =
                               [](Samples& s) {
                                 s.add({s.normal({3, 4}), s.normal({4})});
                                 s.add({s.normal({3, 4}), s.normal({3, 4}), 0});
                               }});

// PyTorch: without a dim, the first dimension of size 3.
int cross_dim(const Call& c, const Sizes& shape) {
  if (c.has(2)) return wrap_dim(c.integer(2), shape.n);
  for (int d = 0; d < shape.n; ++d)
    if (shape[d] == 3) return d;
  fail(Kind::Shape, format("cross: no dimension has size 3 in shape %s", to_string(shape).c_str()));
}

void cross_product(Call& c) {
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  const Sizes shape = broadcast(a.shape(), b.shape());
  const int dim = cross_dim(c, shape);
  TYCHO_CHECK(Kind::Shape, shape[dim] == 3 && a.rank() == b.rank(),
              "cross: dimension %d must have size 3 in both, the shapes are %s and %s", dim + 1,
              to_string(a.shape()).c_str(), to_string(b.shape()).c_str());
  const auto next = [&](const Tensor& t, int64_t by) {
    return op<"roll">(op<"expand">(t, shape), Sizes{-by}, Sizes{dim});
  };
  c.out.push_back(next(a, 1) * next(b, 2) - next(a, 2) * next(b, 1));
}

const Op& cross = add_op(
    {.name = "cross",
     .args = "self, other, dim: dim?",
     .doc = "The cross product of vectors of 3 elements.",
     .where = kFunction | kMethod | kLinalg,
     .see = "dot",
     .rule = "[.., 3], [.., 3] -> [.., 3]",
     .example = "torch.cross(torch.tensor{1, 0, 0}, torch.tensor{0, 1, 0}) --> i64 [3]  0 0 1",
     .compose = cross_product,
     .samples = [](Samples& s) {
       s.add({s.normal({3}), s.normal({3})});
       s.add({s.normal({2, 3}), s.normal({1, 3}), -1});
       s.add({s.normal({3, 2}), s.normal({3, 2})});
     }});

}  // namespace
}  // namespace tycho
