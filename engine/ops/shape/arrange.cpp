// The same elements elsewhere: flip, roll, rot90; triangles and diagonals; padding.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
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
                                 c.out.push_back(op<"flip">(c.tensor(0), Sizes{1}));
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
                                 c.out.push_back(op<"flip">(c.tensor(0), Sizes{0}));
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
                      c.out.push_back(op<"flip">(x, Sizes{i, j}));
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

// Padding: pairs of counts from the last dimension backwards, negative ones crop.
Sizes padded_shape(const Tensor& x, const Value& pad) {
  Sizes shape = x.shape();
  TYCHO_CHECK(Kind::Value, pad.n % 2 == 0, "pad: counts come in pairs (before, after), not %d",
              static_cast<int>(pad.n));
  TYCHO_CHECK(Kind::Shape, pad.n / 2 <= static_cast<uint32_t>(shape.n),
              "pad: %d pairs of counts for %d dimensions", static_cast<int>(pad.n / 2), shape.n);
  for (uint32_t k = 0; k < pad.n / 2; ++k) {
    int64_t& n = shape[shape.n - 1 - static_cast<int>(k)];
    const int64_t have = n;
    const int64_t before = pad.ints[2 * k], after = pad.ints[2 * k + 1], most = int64_t{1} << 48;
    TYCHO_CHECK(Kind::Shape,
                before < most && after < most && before > -most && after > -most &&
                    (n += before + after) >= 0,
                "pad: %lld and %lld do not leave anything of dimension %d with size %lld",
                static_cast<long long>(before), static_cast<long long>(after),
                shape.n - static_cast<int>(k), static_cast<long long>(have));
  }
  return shape;
}
const Op& pad_constant =
    add_op({.name = "pad_constant",
            .args = "input, pad: ints, value: number",
            .doc = "One value added around a tensor; negative counts crop.",
            .where = kHidden,
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  check_number("pad", c.arg[2], x.dtype());
                  c.out.push_back(
                      empty_in(preferred(x), padded_shape(x, c.arg[1]), x.dtype(), x.device()));
                },
            .run =
                [](Call& c) {
                  const Tensor& out = c.out[0];
                  fill_raw(out, c.arg[2]);
                  Tensor x = c.tensor(0), hole = out;
                  for (int k = 0; k < c.count(1) / 2; ++k) {
                    const int d = x.rank() - 1 - k;
                    const int64_t before = c.arg[1].ints[2 * k],
                                  from = std::max<int64_t>(0, -before),
                                  to = std::max<int64_t>(0, before);
                    const int64_t n = std::min(x.size(d) - from, out.size(d) - to);
                    if (n <= 0) return;
                    x = op<"narrow">(x, d, from, n);
                    hole = op<"narrow">(hole, d, to, n);
                  }
                  copy_raw(hole, x);
                },
            .grad =
                [](Backward& b) {
                  std::vector<int64_t> back;
                  for (int k = 0; k < b.count(1); ++k) back.push_back(-b.arg(1).ints[k]);
                  b.set(0, op<"pad_constant">(b.g(), back, 0));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3}), s.ints({1, 2}), 1.5});
                  s.add({s.normal({3, 4}), s.ints({-1, 2, 1, -1}), 0});
                }});
const Op& pad_positions = add_op(
    {.name = "pad_positions",
     .args = "size: int, before: int, after: int, mode: string, device: device",
     .doc = "The positions along a dimension that its padded form shows, one after the other.",
     .where = kHidden,
     .differentiable = false,
     .shape =
         [](Call& c) {
           const int64_t n = c.integer(0) + c.integer(1) + c.integer(2);
           c.out.push_back(empty({n}, DType::Int64, c.device(4)));
         },
     .samples =
         [](Samples& s) {
           s.add({4, 2, 3, "reflect", Device()});
           s.add({4, 2, -3, "replicate", Device()});
           s.add({4, -1, 3, "circular", Device()});
         }});
const Op& pad = add_op(
    {.name = "pad",
     .args = "input, pad: ints, mode: string = constant, value: number?",
     .doc = "A tensor with elements added around it: one value, or its own mirrored (reflect), "
            "repeated (replicate) "
            "or from the other side (circular).",
     .where = kFunctional,
     .see = "cat, roll",
     .rule = "the last size grows by the first two numbers, the one before by the next two, ..",
     .example = "F.pad(torch.tensor{1, 2}, {1, 2}) --> i64 [5]  0 1 2 0 0\n"
                "F.pad(torch.tensor{{1.0, 2.0, 3.0}}, {1, 1}, {mode=\"reflect\"}) --> f32 [1, 5]\n"
                " 2  1  2  3  2",
     .compose =
         [](Call& c) {
           Tensor x = c.tensor(0);
           const std::string mode = c.string(2);
           const bool reflect = mode == "reflect", replicate = mode == "replicate",
                      circular = mode == "circular";
           if (mode == "constant") {
             c.out.push_back(
                 op<"pad_constant">(x, c.arg[1], c.has(3) ? c.arg[3] : Value(int64_t{0})));
             return;
           }
           TYCHO_CHECK(
               Kind::Value, reflect || replicate || circular,
               "pad: mode is \"constant\", \"reflect\", \"replicate\" or \"circular\", not \"%s\"",
               mode.c_str());
           TYCHO_CHECK(Kind::Value, !c.has(3) || c.number(3) == 0,
                       "pad: mode \"%s\" takes no value", mode.c_str());
           padded_shape(x, c.arg[1]);
           const int pairs = c.count(1) / 2, rank = x.rank();
           TYCHO_CHECK(Kind::Shape, pairs <= 3 && (rank == pairs + 1 || rank == pairs + 2),
                       "pad: in mode \"%s\" %d pairs of counts need a tensor with %d or %d "
                       "dimensions, not %d",
                       mode.c_str(), pairs, pairs + 1, pairs + 2, rank);
           for (int k = 0; k < pairs; ++k) {
             const int d = rank - 1 - k;
             const int64_t before = c.arg[1].ints[2 * k], after = c.arg[1].ints[2 * k + 1],
                           n = x.size(d);
             if (before == 0 && after == 0) continue;
             TYCHO_CHECK(
                 Kind::Shape, !reflect || (before < n && after < n),
                 "pad: reflecting %lld and %lld elements needs more than dimension %d has (%lld)",
                 static_cast<long long>(before), static_cast<long long>(after), d + 1,
                 static_cast<long long>(n));
             TYCHO_CHECK(
                 Kind::Shape, !circular || (before <= n && after <= n),
                 "pad: wrapping %lld and %lld elements needs more than dimension %d has (%lld)",
                 static_cast<long long>(before), static_cast<long long>(after), d + 1,
                 static_cast<long long>(n));
             TYCHO_CHECK(Kind::Shape, n > 0, "pad: dimension %d is empty", d + 1);
             TYCHO_CHECK(Kind::Shape,
                         n + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0) > 0 ||
                             n + before + after == 0,
                         "pad: nothing is left of dimension %d", d + 1);
             const Tensor from = op<"pad_positions">(n, before, after, mode.c_str(), x.device());
             x = op<"index_select">(x, d, from);
           }
           c.out.push_back(x);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), s.ints({1, 2})});
           s.add({s.normal({1, 2, 4}), s.ints({2, 1}), "reflect"});
           s.add({s.normal({1, 2, 3, 3}), s.ints({1, 2, 0, 1}), "replicate"});
           s.add({s.normal({1, 2, 3}), s.ints({2, 3}), "circular"});
         }});

}  // namespace
}  // namespace tycho
