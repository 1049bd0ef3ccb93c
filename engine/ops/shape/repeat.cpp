// Tensors repeated: repeat, tile, repeat_interleave, and kron.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"

namespace tycho {
namespace {

// Copies a block until it fills a dimension: each copy doubles what is there.
void replicate(const Tensor& block, int d, int64_t size, int64_t total) {
  Sizes shape = block.shape();
  for (int64_t done = size; done < total;) {
    const int64_t n = std::min(done, total - done);
    shape[d] = n;
    copy_raw(alias(block, shape, block.strides(), block->offset + done * block.stride(d)),
             alias(block, shape, block.strides(), block->offset));
    done += n;
  }
}
// Rows that are long enough for a copy each are read from where they are, again and again; false
// when they are short.
bool repeat_rows(const Tensor& x, const Tensor& out) {
  constexpr int64_t kLong = 128;
  if (x.rank() == 0 || x.size(-1) * dtype_size(x.dtype()) < kLong) return false;
  Sizes shape, to, from;
  for (int d = 0; d < out.rank(); ++d) {
    const int k = d - (out.rank() - x.rank());
    const int64_t n = k < 0 ? 1 : x.size(k);
    if (shape.n > kMaxDims - 2) return false;
    if (out.size(d) != n) {
      shape.push_back(out.size(d) / n);
      to.push_back(n * out.stride(d));
      from.push_back(0);
    }
    if (n == 1) continue;
    shape.push_back(n);
    to.push_back(out.stride(d));
    from.push_back(x.stride(k));
  }
  copy_raw(alias(out, shape, to, out->offset), alias(x, shape, from, x->offset));
  return true;
}
const Op& repeat = add_op(
    {.name = "repeat",
     .args = "self, repeats: ints*",
     .doc = "The tensor repeated along each dimension; new dimensions may lead. In Lua also "
            "x:tile(...).",
     .where = kMethod,
     .see = "tile, expand, repeat_interleave",
     .rule = "[n, m], repeats r, s -> [r n, s m]",
     .example = "torch.tensor{1, 2}:tile(2) --> i64 [4]  1 2 1 2\n"
                "x = torch.tensor{1, 2}\n"
                "x[\"repeat\"](x, 2, 1) --> i64 [2, 2]\n"
                " 1  2\n"
                " 1  2",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const Sizes times = c.ints(1);
           const int lead = times.n - x.rank();
           TYCHO_CHECK(Kind::Shape, lead >= 0,
                       "repeat: %d counts for a tensor with %d dimensions (%s)", times.n, x.rank(),
                       to_string(x.shape()).c_str());
           Sizes shape;
           for (int d = 0; d < times.n; ++d) {
             TYCHO_CHECK(Kind::Value, times[d] >= 0, "repeat: a count cannot be %lld",
                         static_cast<long long>(times[d]));
             shape.push_back(product({times[d], d < lead ? 1 : x.size(d - lead)}));
           }
           c.out.push_back(empty(shape, x.dtype(), x.device()));
         },
     .run =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &out = c.out[0];
           if (out.numel() == 0) return;
           if (repeat_rows(x, out)) return;
           Sizes shape = x.shape();
           while (shape.n < out.rank()) shape.insert(0, 1);
           copy_raw(alias(out, shape, out.strides(), out->offset), x);
           for (int d = out.rank() - 1; d >= 0; --d) {
             const int64_t size = shape[d];
             shape[d] = out.size(d);
             replicate(alias(out, shape, out.strides(), out->offset), d, size, out.size(d));
           }
         },
     .grad =
         [](Backward& b) {
           const Sizes times = b.ints(1), whole = b.shape(0);
           Sizes have = whole;
           while (have.n < times.n) have.insert(0, 1);
           Tensor g = b.g();
           int64_t before = 1, after = g.numel();
           if (!after) {
             b.set(0, filled(whole, 0, g.dtype(), g.device()));
             return;
           }
           // One dimension after the other: [before, times, have, after] summed over times.
           for (int d = 0; d < times.n; ++d) {
             after /= times[d] * have[d];
             if (times[d] != 1)
               g = op<"sum">(op<"reshape">(g, Sizes{before, times[d], have[d] * after}), Sizes{1});
             before *= have[d];
           }
           b.set(0, op<"reshape">(g, whole));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), s.ints({2, 1})});
           s.add({s.normal({2, 3}), s.ints({3, 1, 2})});
           s.add({s.normal({}), s.ints({4})});
           s.add({s.normal({2}), s.ints({0})}, false);
         }});
const Op& tile = add_op({.name = "tile",
                         .args = "self, dims: ints*",
                         .doc = "The tensor repeated along each dimension; missing counts are 1.",
                         .see = "repeat_interleave, expand",
                         .rule = "[n, m], repeats r, s -> [r n, s m]",
                         .example = "torch.tensor{1, 2}:tile(2, 2) --> i64 [2, 4]\n"
                                    " 1  2  1  2\n"
                                    " 1  2  1  2",
                         .compose =
                             [](Call& c) {
                               Sizes times = c.ints(1);
                               while (times.n < c.tensor(0).rank()) times.insert(0, 1);
                               become<"repeat">(c, c.tensor(0), times);
                             },
                         .samples =
                             [](Samples& s) {
                               s.add({s.normal({2, 3}), s.ints({2})});
                               s.add({s.normal({3}), s.ints({2, 2})});
                             }});

const Op& repeat_evenly =
    add_op({.name = "repeat_evenly",
            .args = "self, dim: dim, times: int",
            .doc = "Each part along a dimension, as often.",
            .where = kHidden,
            .shape =
                [](Call& c) {
                  Sizes shape = c.tensor(0).shape();
                  shape[static_cast<int>(c.integer(1))] *= c.integer(2);
                  c.out.push_back(empty(shape, c.tensor(0).dtype(), c.tensor(0).device()));
                },
            .run =
                [](Call& c) {
                  const Tensor& out = c.out[0];
                  if (out.numel() == 0) return;
                  Tensor x = c.tensor(0);
                  int d = static_cast<int>(c.integer(1));
                  const int64_t k = c.integer(2), n = x.size(d);
                  if (x.rank() == kMaxDims) {  // no room for another dimension
                    x = packed(x);
                    int64_t before = 1;
                    for (int i = 0; i < d; ++i) before *= x.size(i);
                    x = alias(x, {before, n, x.numel() / before / n},
                              row_major({before, n, x.numel() / before / n}), x->offset);
                    d = 1;
                  }
                  Sizes shape = x.shape(), from = x.strides();
                  shape.insert(d + 1, k);
                  from.insert(d + 1, 0);
                  copy_raw(alias(out, shape, row_major(shape), out->offset),
                           alias(x, shape, from, x->offset));
                },
            .grad =
                [](Backward& b) {
                  const Sizes whole = b.shape(0);
                  const int64_t d = b.integer(1), k = b.integer(2);
                  int64_t before = 1, after = 1;
                  for (int i = 0; i < whole.n; ++i) (i <= d ? before : after) *= whole[i];
                  const Tensor g = op<"reshape">(b.g(), Sizes{before, k, after});
                  b.set(0, op<"reshape">(op<"sum">(g, Sizes{1}), whole));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3}), 1, 2});
                  s.add({s.normal({2, 3, 2}), 0, 3});
                  s.add({s.normal({2, 3}), 0, 0}, false);
                }});

void check_counts(const Tensor& repeats) {
  TYCHO_CHECK(Kind::DType, repeats.dtype() == DType::Int64 || repeats.dtype() == DType::Int32,
              "repeat_interleave: counts are int64 or int32, not %s", dtype_name(repeats.dtype()));
  TYCHO_CHECK(Kind::Shape, repeats.rank() <= 1,
              "repeat_interleave: counts must be a number or a list, not %s",
              to_string(repeats.shape()).c_str());
}
Tensor repeated_evenly(const Tensor& x, int d, int64_t k, const Value& output_size) {
  const int64_t n = x.size(d);
  if (n) {
    TYCHO_CHECK(Kind::Value, k >= 0, "repeat_interleave: a count cannot be %lld",
                static_cast<long long>(k));
    TYCHO_CHECK(Kind::Shape, k < kMostRepeated && k * n / n == k && k * n < kMostRepeated,
                "repeat_interleave: too many elements");
  }
  const int64_t total = n ? k * n : 0;
  if (!output_size.is_none())
    TYCHO_CHECK(Kind::Value, output_size.i == total,
                "repeat_interleave: output_size is %lld, but the counts sum to %lld",
                static_cast<long long>(output_size.i), static_cast<long long>(total));
  return op<"repeat_evenly">(x, d, n ? k : 0);
}
const Op& repeat_interleave = add_op(
    {.name = "repeat_interleave",
     .args = "self, repeats: operand, dim: dim?, output_size: int?",
     .doc = "Each part along a dimension (each element when none) repeated in place.",
     .see = "tile, repeat",
     .rule = "[.., n, ..] -> [.., sum of repeats, ..]",
     .example = "torch.tensor{1, 2}:repeat_interleave(2) --> i64 [4]  1 1 2 2\n"
                "torch.tensor{1, 2}:repeat_interleave(torch.tensor{3, 1}) --> i64 [4]  1 1 1 2",
     .compose =
         [](Call& c) {
           Tensor x = c.tensor(0), repeats = c.tensor(1);
           TYCHO_CHECK(Kind::DType, repeats || c.arg[1].tag == Tag::Int,
                       "repeat_interleave: the count must be whole, not %g", c.number(1));
           int d = 0;
           if (c.has(2) && x.rank())
             d = wrap_dim(c.integer(2), x.rank());
           else
             x = op<"reshape">(x, Sizes{-1});
           if (!repeats) {
             c.out.push_back(repeated_evenly(x, d, c.integer(1), c.arg[3]));
             return;
           }
           const int64_t n = x.size(d);
           check_counts(repeats);
           const bool one = repeats.numel() == 1;
           TYCHO_CHECK(Kind::Shape, one || repeats.numel() == n,
                       "repeat_interleave: %lld counts for %lld elements",
                       static_cast<long long>(repeats.numel()), static_cast<long long>(n));
           if (one) repeats = op<"expand">(op<"reshape">(repeats, Sizes{1}), Sizes{n});
           const Tensor at = op<"repeat_interleave.counts">(repeats, c.arg[3]);
           become<"index_select">(c, x, d, at);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), 2});
           s.add({s.normal({2, 3}), 3, 1});
           s.add({s.normal({2, 3}), s.of({3}, {1, 0, 2}, DType::Int64), 1});
         }});
const Op& repeat_interleave_counts =
    add_op({.name = "repeat_interleave.counts",
            .args = "repeats, output_size: int?",
            .doc = "Each position as often as its count says.",
            .differentiable = false,
            .see = "tile",
            .rule = "[n] -> [sum of the counts]",
            .example = "torch.repeat_interleave(torch.tensor{3, 1}) --> i64 [4]  1 1 1 2",
            .size_from_values = true,
            .shape =
                [](Call& c) {
                  const Tensor& r = c.tensor(0);
                  TYCHO_CHECK(Kind::Shape, r.rank() == 1,
                              "repeat_interleave: counts must be a list, not %s",
                              to_string(r.shape()).c_str());
                  check_counts(r);
                  if (shapes_only && c.has(1) && c.integer(1) >= 0)
                    c.out.push_back(empty({c.integer(1)}, DType::Int64, r.device()));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.of({3}, {1, 0, 2}, DType::Int64)});
                }});

const Op& kron = add_op(
    {.name = "kron",
     .args = "self, other",
     .doc = "Kronecker product: each element of the first times the whole second.",
     .see = "outer",
     .rule = "[n, m], [p, q] -> [n p, m q]",
     .example = "torch.kron(torch.tensor{1, 10}, torch.tensor{1, 2}) --> i64 [4]  view  1 2 10 20",
     .compose =
         [](Call& c) {
           Tensor a = c.tensor(0), b = c.tensor(1);
           const int n = std::max(a.rank(), b.rank());
           TYCHO_CHECK(Kind::Shape, 2 * n <= kMaxDims, "kron: at most %d dimensions, not %d",
                       kMaxDims / 2, n);
           Sizes sa, sb, shape;
           for (int d = 0; d < n; ++d) {
             const int64_t x = d < n - a.rank() ? 1 : a.size(d - n + a.rank()),
                           y = d < n - b.rank() ? 1 : b.size(d - n + b.rank());
             sa.push_back(x), sa.push_back(1);
             sb.push_back(1), sb.push_back(y);
             shape.push_back(x * y);
           }
           c.out.push_back(op<"reshape">(op<"reshape">(a, sa) * op<"reshape">(b, sb), shape));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), s.normal({2, 2})});
           s.add({s.normal({2}), s.normal({3, 2})});
         }});

}  // namespace
}  // namespace tycho
