// The same elements elsewhere: flip, roll, rot90; triangles and diagonals.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"

namespace tycho {
namespace {

const Op& flip = add_op({.name = "flip",
                         .args = "self, dims: dims*",
                         .doc = "A copy with the order along the given dimensions reversed.",
                         .see = "roll, rot90",
                         .rule = "any shape -> the same shape",
                         .example = "torch.tensor{1, 2, 3}:flip(1) --> i64 [3]  3 2 1",
                         .shape =
                             [](Call& c) {
                               if (c.count(1)) dim_bits(c, 1, c.tensor(0).rank());
                               c.out.push_back(empty_like(c.tensor(0)));
                             },
                         .run =
                             [](Call& c) {
                               const Tensor& x = c.tensor(0);
                               Sizes stride = x.strides();
                               int64_t offset = x->offset;
                               for (int k = 0; k < c.count(1) && x.rank() && x.numel(); ++k) {
                                 const int d = wrap_dim(c.arg[1].ints[k], x.rank());
                                 offset += (x.size(d) - 1) * stride[d];
                                 stride[d] = -stride[d];
                               }
                               copy_raw(c.out[0], alias(x, x.shape(), stride, offset));
                             },
                         .grad = [](Backward& b) { b.set(0, op<"flip">(b.g(), b.ints(1))); },
                         .samples =
                             [](Samples& s) {
                               s.add({s.normal({2, 3}), s.ints({0})});
                               s.add({s.normal({2, 3, 4}), s.ints({-1, 0})});
                             }});
const Op& fliplr = add_op({.name = "fliplr",
                           .args = "self",
                           .doc = "A copy with the second dimension reversed.",
                           .see = "flip",
                           .rule = "[n, m, ..] -> the same shape",
                           .example = "torch.tensor{{1, 2}, {3, 4}}:fliplr() --> i64 [2, 2]\n"
                                      " 2  1\n"
                                      " 4  3",
                           .compose =
                               [](Call& c) {
                                 TYCHO_CHECK(Kind::Value, c.tensor(0).rank() >= 2,
                                             "fliplr: at least 2 dimensions are needed, not %d",
                                             c.tensor(0).rank());
                                 become<"flip">(c, c.tensor(0), Sizes{1});
                               },
                           .samples =
                               [](Samples& s) {
                                 s.add({s.normal({2, 3})});
                               }});
const Op& flipud = add_op({.name = "flipud",
                           .args = "self",
                           .doc = "A copy with the first dimension reversed.",
                           .see = "flip",
                           .rule = "any shape -> the same shape",
                           .example = "torch.tensor{{1, 2}, {3, 4}}:flipud() --> i64 [2, 2]\n"
                                      " 3  4\n"
                                      " 1  2",
                           .compose =
                               [](Call& c) {
                                 TYCHO_CHECK(Kind::Value, c.tensor(0).rank() >= 1,
                                             "flipud: at least 1 dimension is needed");
                                 become<"flip">(c, c.tensor(0), Sizes{0});
                               },
                           .samples =
                               [](Samples& s) {
                                 s.add({s.normal({2, 3})});
                               }});

// One dimension rolled; roll goes through its dimensions.
const Op& roll_one = add_op(
    {.name = "roll_one",
     .args = "self, shift: int, dim: dim",
     .doc = "A copy with the positions along a dimension moved, the last to the front.",
     .where = kHidden,
     .shape =
         [](Call& c) {
           c.out.push_back(empty(c.tensor(0).shape(), c.tensor(0).dtype(), c.tensor(0).device()));
         },
     .run =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &out = c.out[0];
           const int d = static_cast<int>(c.integer(2));
           const int64_t n = x.size(d);
           if (n == 0) return;
           const int64_t by = ((c.integer(1) % n) + n) % n;
           Sizes head = x.shape(), tail = head;
           head[d] = by;
           tail[d] = n - by;
           copy_raw(alias(out, head, out.strides(), out->offset),
                    alias(x, head, x.strides(), x->offset + (n - by) * (by ? x.stride(d) : 0)));
           copy_raw(
               alias(out, tail, out.strides(), out->offset + (by < n ? by * out.stride(d) : 0)),
               alias(x, tail, x.strides(), x->offset));
         },
     .grad = [](Backward& b) { b.set(0, op<"roll_one">(b.g(), -b.integer(1), b.integer(2))); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 5}), 2, 1});
         }});
const Op& roll = add_op(
    {.name = "roll",
     .args = "self, shifts: ints, dims: dims?",
     .doc = "A copy with elements moved along dimensions (of the flat tensor when none), the last "
            "to the front.",
     .see = "flip",
     .rule = "any shape -> the same shape",
     .example = "torch.tensor{1, 2, 3, 4}:roll(1) --> i64 [4]  view  4 1 2 3",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const int dims = c.has(2) ? c.count(2) : 0;
           TYCHO_CHECK(Kind::Value, c.count(1) > 0, "roll: shifts are missing");
           if (dims == 0) {
             TYCHO_CHECK(Kind::Value, c.count(1) == 1, "roll: %d shifts need as many dimensions",
                         c.count(1));
             if (x.numel() == 0) {
               c.out.push_back(op<"clone">(x));
               return;
             }
             const Tensor flat = op<"reshape">(x, Sizes{-1});
             c.out.push_back(op<"reshape">(op<"roll_one">(flat, c.arg[1].ints[0], 0), x.shape()));
             return;
           }
           TYCHO_CHECK(Kind::Value, c.count(1) == dims, "roll: %d shifts but %d dimensions",
                       c.count(1), dims);
           TYCHO_CHECK(Kind::Dim, x.rank() > 0, "roll: a 0-d tensor has no dimensions");
           Tensor y = x;
           for (int k = 0; k < dims; ++k)
             y = op<"roll_one">(y, c.arg[1].ints[k], wrap_dim(c.arg[2].ints[k], x.rank()));
           c.out.push_back(y);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 5}), s.ints({2})});
           s.add({s.normal({2, 5}), s.ints({-1, 7}), s.ints({0, 1})});
         }});
const Op& rot90 =
    add_op({.name = "rot90",
            .args = "self, k: int = 1, dims: dims?",
            .doc = "A copy turned by k quarter turns in the plane of two dimensions.",
            .see = "flip, transpose",
            .rule = "[n, m] -> [m, n]",
            .example = "torch.tensor{{1, 2}, {3, 4}}:rot90() --> i64 [2, 2]  view  non-contiguous\n"
                       " 2  4\n"
                       " 1  3",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  const int n = c.has(2) ? c.count(2) : 2;
                  TYCHO_CHECK(Kind::Value, n == 2, "rot90: a plane has two dimensions, not %d", n);
                  TYCHO_CHECK(Kind::Value, x.rank() >= 2,
                              "rot90: at least 2 dimensions are needed, not %d", x.rank());
                  const int i = c.has(2) ? wrap_dim(c.arg[2].ints[0], x.rank()) : 0,
                            j = c.has(2) ? wrap_dim(c.arg[2].ints[1], x.rank()) : 1;
                  TYCHO_CHECK(Kind::Value, i != j, "rot90: the two dimensions are both %d", i + 1);
                  switch ((c.integer(1) % 4 + 4) % 4) {
                    case 1:
                      c.out.push_back(op<"transpose">(op<"flip">(x, Sizes{j}), i, j));
                      break;
                    case 2:
                      become<"flip">(c, x, Sizes{i, j});
                      break;
                    case 3:
                      c.out.push_back(op<"transpose">(op<"flip">(x, Sizes{i}), i, j));
                      break;
                    default:
                      c.out.push_back(op<"clone">(x));
                  }
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3})});
                  s.add({s.normal({2, 3}), 2});
                  s.add({s.normal({2, 3, 2}), -1, s.ints({2, 0})});
                }});

void triangle_shape(Call& c) {
  const Tensor& x = c.tensor(0);
  TYCHO_CHECK(Kind::Shape, x.rank() >= 2, "%s: at least 2 dimensions are needed, not %d",
              c.op->name, x.rank());
  c.out.push_back(empty(x.shape(), x.dtype(), x.device()));
}
void triangle_samples(Samples& s) {
  s.add({s.normal({3, 4})});
  s.add({s.normal({2, 4, 3}), 1});
  s.add({s.normal({4, 3}), -2});
}
const Op& tril =
    add_op({.name = "tril",
            .args = "self, diagonal: int = 0",
            .doc = "The lower triangle of each matrix, zeros above the given diagonal.",
            .inplace = Inplace::Copy,
            .see = "triu, tril_indices",
            .rule = "[.., n, m] -> [.., n, m]",
            .example = "torch.ones(3, 3):tril() --> f32 [3, 3]\n"
                       " 1  0  0\n"
                       " 1  1  0\n"
                       " 1  1  1",
            .shape = triangle_shape,
            .grad = [](Backward& b) { b.set(0, op<"tril">(b.g(), b.integer(1))); },
            .samples = triangle_samples});
const Op& triu =
    add_op({.name = "triu",
            .args = "self, diagonal: int = 0",
            .doc = "The upper triangle of each matrix, zeros below the given diagonal.",
            .inplace = Inplace::Copy,
            .see = "tril, triu_indices",
            .rule = "[.., n, m] -> [.., n, m]",
            .example = "torch.ones(3, 3):triu(1) --> f32 [3, 3]\n"
                       " 0  1  1\n"
                       " 0  0  1\n"
                       " 0  0  0",
            .shape = triangle_shape,
            .grad = [](Backward& b) { b.set(0, op<"triu">(b.g(), b.integer(1))); },
            .samples = triangle_samples});

const Op& diag_embed = add_op(
    {.name = "diag_embed",
     .args = "self, offset: int = 0, dim1: dim = -2, dim2: dim = -1",
     .doc = "The last dimension set on a diagonal of two new ones, zeros elsewhere.",
     .fresh = true,
     .see = "diag, diagonal",
     .rule = "[.., n] -> [.., n, n]",
     .example = "torch.tensor{1, 2}:diag_embed() --> i64 [2, 2]\n"
                " 1  0\n"
                " 0  2",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           TYCHO_CHECK(Kind::Shape, x.rank() > 0, "diag_embed: a 0-d tensor has no diagonal");
           const int rank = x.rank() + 1, i = wrap_dim(c.integer(2), rank),
                     j = wrap_dim(c.integer(3), rank);
           TYCHO_CHECK(Kind::Dim, i != j, "diag_embed: dim1 and dim2 are both %d", i + 1);
           const int64_t offset = c.integer(1);
           TYCHO_CHECK(Kind::Value, offset > -(int64_t{1} << 40) && offset < (int64_t{1} << 40),
                       "diag_embed: offset %lld is too large", static_cast<long long>(offset));
           const int64_t n = x.size(-1) + std::abs(offset);
           Sizes shape = x.shape();
           shape.erase(shape.n - 1);
           shape.insert(std::min(i, j), n);
           shape.insert(std::max(i, j), n);
           c.out.push_back(filled(shape, 0, x.dtype(), x.device()));
         },
     .run =
         [](Call& c) {
           copy_raw(op<"diagonal">(c.out[0], c.integer(1), c.integer(2), c.integer(3)),
                    c.tensor(0));
         },
     .grad =
         [](Backward& b) {
           b.set(0, op<"diagonal">(b.g(), b.integer(1), b.integer(2), b.integer(3)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3})});
           s.add({s.normal({2, 3}), -1});
           s.add({s.normal({2, 3}), 1, 0, 2});
         }});
const Op& diag =
    add_op({.name = "diag",
            .args = "self, diagonal: int = 0",
            .doc = "A matrix with a list on its diagonal, or a matrix' diagonal as a list.",
            .see = "diagonal, diag_embed, eye",
            .rule = "[n] -> [n, n]; [n, m] -> [min(n, m)]",
            .example = "torch.tensor{1, 2}:diag() --> i64 [2, 2]\n"
                       " 1  0\n"
                       " 0  2\n"
                       "torch.tensor{{1, 2}, {3, 4}}:diag() --> i64 [2]  1 4",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  TYCHO_CHECK(Kind::Shape, x.rank() == 1 || x.rank() == 2,
                              "diag: a list or a matrix is expected, not %s",
                              to_string(x.shape()).c_str());
                  c.out.push_back(x.rank() == 1 ? op<"diag_embed">(x, c.integer(1))
                                                : op<"clone">(op<"diagonal">(x, c.integer(1))));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3})});
                  s.add({s.normal({3, 4}), -1});
                }});
const Op& diagflat = add_op(
    {.name = "diagflat",
     .args = "self, offset: int = 0",
     .doc = "A matrix with all elements of a tensor on its diagonal.",
     .see = "diag",
     .rule = "n elements of any shape -> [n, n]",
     .example = "torch.tensor{{1, 2}}:diagflat() --> i64 [2, 2]\n"
                " 1  0\n"
                " 0  2",
     .compose =
         [](Call& c) {
           c.out.push_back(op<"diag_embed">(op<"reshape">(c.tensor(0), Sizes{-1}), c.integer(1)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 2}), 1});
         }});

BATCH("flip", by_dims);
BATCH("roll_one", by_dims);
BATCH("tril", by_leading);
BATCH("triu", by_leading);

}  // namespace
}  // namespace tycho
