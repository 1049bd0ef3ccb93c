// as_strided and what the graph of views needs: reading and writing the places of one layout inside
// another. All speak of places in the storage; `self_stride` and `self_offset` are the layout the
// first argument had when the call was made (filled in by the shape rule), so that gradients can
// find the same places in tensors laid out otherwise.
#include "engine/grad/node.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

// The last place of a layout, at most 2^62.
int64_t farthest(const Sizes& size, const Sizes& stride, int64_t offset) {
  constexpr int64_t kMost = int64_t{1} << 62;
  for (int d = 0; d < size.n; ++d) {
    if (size[d] == 0) return offset - 1;
    int64_t way;
    if (__builtin_mul_overflow(size[d] - 1, stride[d], &way) || way > kMost - offset) return kMost;
    offset += way;
  }
  return offset;
}

// A layout that a call names: sizes and strides that belong together and stay in range.
void check_layout(const Call& c, int size_arg) {
  const Sizes size = c.ints(size_arg), stride = c.ints(size_arg + 1);
  const char* name = c.op->name;
  TYCHO_CHECK(Kind::Shape, size.n == stride.n, "%s: %d sizes but %d strides", name, size.n,
              stride.n);
  for (int d = 0; d < size.n; ++d)
    TYCHO_CHECK(Kind::Value, size[d] >= 0 && stride[d] >= 0 && stride[d] < (int64_t{1} << 40),
                "%s: sizes and strides cannot be negative or huge", name);
  product(size);
  const int64_t offset = c.integer(size_arg + 2);
  TYCHO_CHECK(Kind::Value, offset >= 0 && offset < (int64_t{1} << 61),
              "%s: the offset %lld is no place in the storage", name,
              static_cast<long long>(offset));
}

void remember_layout(Call& c, int stride_arg) {
  const Tensor& x = c.tensor(0);
  if (c.has(stride_arg) && c.has(stride_arg + 1)) {
    const Sizes stride = c.ints(stride_arg);
    bool fits = stride.n == x.rank() && c.integer(stride_arg + 1) >= 0;
    for (const int64_t s : stride) fits = fits && s >= 0;
    TYCHO_CHECK(Kind::Value, fits, "%s: self_stride and self_offset are no layout of self",
                c.op->name);
    return;
  }
  c.arg[stride_arg].tag = Tag::Ints;
  c.arg[stride_arg].n = static_cast<uint32_t>(x.rank());
  c.arg[stride_arg].ints = x->stride;
  c.arg[stride_arg + 1] = Value(x->offset);
}

const Op& as_strided = add_op(
    {.name = "as_strided",
     .args = "self, size: ints, stride: ints, storage_offset: int?, self_stride: ints?, "
             "self_offset: int?",
     .doc =
         "A view of the tensor's storage with the given sizes, strides and offset (in elements).",
     .view = true,
     .see = "view, unfold",
     .rule = "any shape -> size",
     .example = "torch.arange(6):as_strided({2, 2}, {1, 2}) --> i64 [2, 2]  view  non-contiguous\n"
                " 0  2\n"
                " 1  3",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const Sizes size = c.ints(1), stride = c.ints(2);
           if (!c.has(3)) c.arg[3] = Value(x->offset);
           check_layout(c, 1);
           const int64_t offset = c.integer(3),
                         have = static_cast<int64_t>(x->storage->bytes) / dtype_size(x.dtype());
           TYCHO_CHECK(Kind::Value, farthest(size, stride, offset) < have,
                       "as_strided: sizes %s, strides %s and offset %lld reach past the storage of "
                       "%lld elements",
                       to_string(size).c_str(), to_string(stride).c_str(),
                       static_cast<long long>(offset), static_cast<long long>(have));
           remember_layout(c, 4);
           c.out.push_back(alias(x, size, stride, offset));
         },
     .grad =
         [](Backward& b) {
           b.set(0, op<"strided_add">(b.g(), b.shape(0), b.ints(4), b.integer(5), b.ints(2),
                                      b.integer(3)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.ints({2, 3}), s.ints({4, 1})});
           s.add({s.normal({3, 4}), s.ints({2, 2, 2}), s.ints({1, 0, 3}), 1});
         }});

const Op& strided_take = add_op(
    {.name = "strided_take",
     .args = "self, self_stride: ints, self_offset: int, size: ints, stride: ints, offset: int",
     .doc = "The elements of a tensor at the places of another layout.",
     .where = kHidden,
     .shape =
         [](Call& c) {
           c.out.push_back(empty(c.ints(3), c.tensor(0).dtype(), c.tensor(0).device()));
         },
     .grad =
         [](Backward& b) {
           b.set(0, op<"strided_add">(b.g(), b.shape(0), b.ints(1), b.integer(2), b.ints(4),
                                      b.integer(5)));
         }});

const Op& strided_add = add_op(
    {.name = "strided_add",
     .args = "src, size: ints, self_stride: ints, self_offset: int, stride: ints, offset: int",
     .doc = "Zeros of a shape with src added at the places of a layout.",
     .where = kHidden,
     .shape =
         [](Call& c) {
           c.out.push_back(empty(c.ints(1), c.tensor(0).dtype(), c.tensor(0).device()));
         },
     .grad =
         [](Backward& b) {
           b.set(0, op<"strided_take">(b.g(), b.ints(2), b.integer(3), b.shape(0), b.ints(4),
                                       b.integer(5)));
         }});

const Op& as_strided_scatter = add_op(
    {.name = "as_strided_scatter",
     .args = "self, src, size: ints, stride: ints, storage_offset: int?, self_stride: ints?, "
             "self_offset: int?",
     .doc = "A copy of the tensor with src written at the places that as_strided would show.",
     .see = "as_strided",
     .rule = "any shape, src of shape size -> the first shape",
     .example = "torch.zeros(5):as_strided_scatter(torch.ones(2), {2}, {2}) --> f32 [5]  1 0 1 0 0",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           straighten(x);
           TYCHO_CHECK(Kind::Shape, c.tensor(1).shape() == c.ints(2),
                       "as_strided_scatter: src has shape %s, the view %s",
                       to_string(c.tensor(1).shape()).c_str(), to_string(c.ints(2)).c_str());
           if (!c.has(4)) c.arg[4] = Value(x->offset);
           check_layout(c, 2);
           remember_layout(c, 5);
           c.out.push_back(empty(x.shape(), x.dtype(), x.device()));
         },
     .grad =
         [](Backward& b) {
           if (b.needs(0))
             b.set(0, op<"as_strided_scatter">(
                          b.g(), filled(b.ints(2), 0, b.g().dtype(), b.g().device()), b.ints(2),
                          b.ints(3), b.integer(4), b.ints(5), b.integer(6)));
           if (b.needs(1))
             b.set(1, op<"strided_take">(b.g(), b.ints(5), b.integer(6), b.ints(2), b.ints(3),
                                         b.integer(4)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.normal({2, 3}), s.ints({2, 3}), s.ints({4, 1}), 1});
         }});

}  // namespace
}  // namespace tycho
