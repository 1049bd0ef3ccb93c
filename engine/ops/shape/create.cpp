// Making tensors of one value: zeros, ones, full, empty, their *_like and new_* forms, and filling
// in place.
#include "engine/ops/shape/create.h"

#include <algorithm>
#include <cmath>

#include "engine/grad/node.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/fresh.h"

namespace tycho {

// A plain number may not lose its meaning: what the type cannot hold is refused.
void check_number(const char* op, const Value& v, DType to) {
  const double x = v.number();
  if (v.tag == Tag::Bool || to == DType::Bool || to == DType::Float64 || to == DType::BFloat16)
    return;
  bool fits;
  if (is_floating(to)) {
    fits = !std::isfinite(x) ||
           std::fabs(x) <= (to == DType::Float16 ? 65504.0 : 3.4028235677973366e38);
  } else if (v.tag == Tag::Float && !std::isfinite(x)) {
    fits = false;
  } else {
    const int bits = 8 * dtype_size(to) - (to == DType::UInt8 ? 0 : 1);
    const double top = std::ldexp(1.0, bits);
    // As PyTorch, a negative number may wrap around in an unsigned type.
    fits = v.tag == Tag::Int && to == DType::Int64 ? true : x < top && x >= -top;
  }
  if (!fits) fail(Kind::Value, format("%s: %g does not fit into %s", op, x, dtype_name(to)));
}

namespace {

void check_sizes(const Call& c, const Sizes& shape) {
  for (int d = 0; d < shape.n; ++d)
    TYCHO_CHECK(Kind::Shape, shape[d] >= 0, "%s: a size cannot be negative: %s", c.op->name,
                to_string(shape).c_str());
}

}  // namespace

Tensor make(const Call& c, const Sizes& shape, int at, DType otherwise) {
  check_sizes(c, shape);
  return empty(shape, c.dtype(at, otherwise), c.device(at + 1));
}

Format format_of(const Call& c, int i, int rank) {
  return c.has(i) ? parse_format(c.op->name, c.string(i), rank) : Format::Preserve;
}

Tensor make_like(const Call& c, int at, int format) {
  const Tensor& x = c.tensor(0);
  return empty_like_in(format_of(c, format, x.rank()), x, c.dtype(at, x.dtype()),
                       c.device(at + 1, x.device()));
}

namespace {

// Of tensors that this call has made.
void make_zero(Call& c) {
  if (!shapes_only && holds_fresh_zeros(c.out[0])) return;
  fill_raw(c.out[0], Value(int64_t{0}));
}
void fill_one(Call& c) { fill_raw(c.out[0], Value(int64_t{1})); }

const Op& zeros =
    add_op({.name = "zeros",
            .args = "size: ints*, dtype: dtype?, device: device?, requires_grad: bool = false",
            .doc = "A tensor of the given sizes filled with 0.",
            .where = kFunction,
            .differentiable = false,
            .see = "ones, full, zeros_like",
            .rule = "sizes -> those sizes",
            .example = "torch.zeros(2, 3) --> f32 [2, 3]\n"
                       " 0  0  0\n"
                       " 0  0  0\n"
                       "torch.zeros({2}, {dtype=\"int64\"}) --> i64 [2]  0 0",
            .shape = [](Call& c) { c.out.push_back(make(c, c.ints(0), 1, default_dtype())); },
            .run = make_zero,
            .samples =
                [](Samples& s) {
                  s.add({s.ints({2, 3})});
                  s.add({s.ints({0, 3}), DType::Int64});
                }});
const Op& ones =
    add_op({.name = "ones",
            .args = "size: ints*, dtype: dtype?, device: device?, requires_grad: bool = false",
            .doc = "A tensor of the given sizes filled with 1.",
            .where = kFunction,
            .differentiable = false,
            .see = "zeros, full, ones_like",
            .rule = "sizes -> those sizes",
            .example = "torch.ones(2, 3) --> f32 [2, 3]\n"
                       " 1  1  1\n"
                       " 1  1  1",
            .shape = [](Call& c) { c.out.push_back(make(c, c.ints(0), 1, default_dtype())); },
            .run = fill_one,
            .samples =
                [](Samples& s) {
                  s.add({s.ints({2, 3})});
                  s.add({s.ints({3}), DType::Bool});
                }});
void empty_shape(Call& c) {
  const Sizes size = c.ints(0);
  const Format format = format_of(c, 4, size.n);
  TYCHO_CHECK(Kind::Argument, format != Format::Preserve,
              "empty: there is no layout to preserve; empty_like(x) has that of x");
  if (format == Format::RowMajor) return c.out.push_back(make(c, size, 1, default_dtype()));
  check_sizes(c, size);
  c.out.push_back(empty_in(format, size, c.dtype(1, default_dtype()), c.device(2)));
}

const Op& empty_op =
    add_op({.name = "empty",
            .args = "size: ints*, dtype: dtype?, device: device?, requires_grad: bool = false, "
                    "memory_format: string = contiguous_format",
            .doc = "A tensor of the given sizes whose values are whatever was in memory.",
            .where = kFunction,
            .random = true,
            .differentiable = false,
            .see = "zeros, new_empty",
            .rule = "sizes -> those sizes",
            .example = "torch.empty(2, 3).shape --> [2, 3]",
            .shape = empty_shape,
            .samples = [](Samples& s) {
              s.add({s.ints({2, 3})});
            }});
const Op& full =
    add_op({.name = "full",
            .args = "size: ints, fill_value: number, dtype: dtype?, device: device?, "
                    "requires_grad: bool = false",
            .doc = "A tensor of the given sizes filled with one value, whose kind gives the type.",
            .where = kFunction,
            .differentiable = false,
            .see = "ones, fill_, full_like",
            .rule = "sizes -> those sizes",
            .example = "torch.full({2, 2}, 7) --> i64 [2, 2]\n"
                       " 7  7\n"
                       " 7  7",
            .shape =
                [](Call& c) {
                  c.out.push_back(make(c, c.ints(0), 2, c.arg[1].number_dtype()));
                  check_number("full", c.arg[1], c.out[0].dtype());
                },
            .run = [](Call& c) { fill_raw(c.out[0], c.arg[1]); },
            .samples =
                [](Samples& s) {
                  s.add({s.ints({2, 3}), 2.5});
                  s.add({s.ints({4}), 7});
                  s.add({s.ints({}), true});
                }});
const Op& empty_strided_op = add_op(
    {.name = "empty_strided",
     .args =
         "size: ints, stride: ints, dtype: dtype?, device: device?, requires_grad: bool = false",
     .doc = "An uninitialised tensor with the given sizes and strides (in elements).",
     .where = kFunction,
     .random = true,
     .differentiable = false,
     .see = "as_strided",
     .rule = "size -> size",
     .example = "torch.empty_strided({2, 3}, {1, 2}):stride() --> [1, 2]",
     .shape =
         [](Call& c) {
           const Sizes size = c.ints(0), stride = c.ints(1);
           TYCHO_CHECK(Kind::Shape, size.n == stride.n, "empty_strided: %d sizes but %d strides",
                       size.n, stride.n);
           int64_t last = 1;
           for (int d = 0; d < size.n; ++d) {
             TYCHO_CHECK(Kind::Value, size[d] >= 0 && stride[d] >= 0,
                         "empty_strided: sizes and strides cannot be negative");
             product({size[d], stride[d]});
             last += (size[d] ? size[d] - 1 : 0) * stride[d];
             TYCHO_CHECK(Kind::Value, last < (int64_t{1} << 48),
                         "empty_strided: sizes %s and strides %s reach too far",
                         to_string(size).c_str(), to_string(stride).c_str());
           }
           c.out.push_back(empty_strided(size, stride, c.dtype(2, default_dtype()), c.device(3)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.ints({2, 3}), s.ints({1, 2})});
         }});

// *_like: shape, type, device and layout of a tensor unless said otherwise.
void like_shape(Call& c) { c.out.push_back(make_like(c, 1, 4)); }
#define TYCHO_LIKE \
  ", dtype: dtype?, device: device?, requires_grad: bool = false, memory_format: string?"

const Op& zeros_like = add_op({.name = "zeros_like",
                               .args = "self" TYCHO_LIKE,
                               .doc = "Zeros with the shape, type and device of a tensor.",
                               .where = kFunction,
                               .differentiable = false,
                               .see = "zeros",
                               .rule = "any shape -> the same shape",
                               .example = "torch.zeros_like(torch.tensor{5, 6}) --> i64 [2]  0 0",
                               .shape = like_shape,
                               .run = make_zero,
                               .samples = [](Samples& s) {
                                 s.add({s.normal({2, 3})});
                               }});
const Op& ones_like = add_op({.name = "ones_like",
                              .args = "self" TYCHO_LIKE,
                              .doc = "Ones with the shape, type and device of a tensor.",
                              .where = kFunction,
                              .differentiable = false,
                              .see = "ones",
                              .rule = "any shape -> the same shape",
                              .example = "torch.ones_like(torch.tensor{5, 6}) --> i64 [2]  1 1",
                              .shape = like_shape,
                              .run = fill_one,
                              .samples = [](Samples& s) {
                                s.add({s.normal({2, 3})});
                              }});
const Op& empty_like_op =
    add_op({.name = "empty_like",
            .args = "self" TYCHO_LIKE,
            .doc = "Uninitialised, with the shape, type and device of a tensor.",
            .where = kFunction,
            .random = true,
            .differentiable = false,
            .see = "zeros_like",
            .rule = "any shape -> the same shape",
            .example = "torch.empty_like(torch.ones(2, 3)).shape --> [2, 3]",
            .shape = like_shape,
            .samples = [](Samples& s) {
              s.add({s.normal({2, 3})});
            }});
const Op& full_like =
    add_op({.name = "full_like",
            .args = "self, fill_value: number" TYCHO_LIKE,
            .doc = "One value in the shape, type and device of a tensor.",
            .where = kFunction,
            .differentiable = false,
            .see = "full",
            .rule = "any shape -> the same shape",
            .example = "torch.full_like(torch.zeros(3), 2.5) --> f32 [3]   2.5  2.5  2.5",
            .shape =
                [](Call& c) {
                  c.out.push_back(make_like(c, 2, 5));
                  check_number("full_like", c.arg[1], c.out[0].dtype());
                },
            .run = [](Call& c) { fill_raw(c.out[0], c.arg[1]); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3}), 2.5});
                  s.add({s.integers({3}, 0, 5), 7});
                }});

// new_*: type and device of a tensor, sizes as given.
void new_shape(Call& c) {
  const Tensor& x = c.tensor(0);
  c.out.push_back(empty(c.ints(1), c.dtype(2, x.dtype()), c.device(3, x.device())));
}
const Op& new_zeros = add_op(
    {.name = "new_zeros",
     .args = "self, size: ints*, dtype: dtype?, device: device?, requires_grad: bool = false",
     .doc = "Zeros of the given sizes with the tensor's type and device.",
     .where = kMethod,
     .differentiable = false,
     .see = "zeros",
     .rule = "sizes -> those sizes",
     .example = "torch.tensor{1, 2}:new_zeros(3) --> i64 [3]  0 0 0",
     .shape = new_shape,
     .run = make_zero,
     .samples = [](Samples& s) {
       s.add({s.normal({2}), s.ints({2, 3})});
     }});
const Op& new_ones = add_op(
    {.name = "new_ones",
     .args = "self, size: ints*, dtype: dtype?, device: device?, requires_grad: bool = false",
     .doc = "Ones of the given sizes with the tensor's type and device.",
     .where = kMethod,
     .differentiable = false,
     .see = "ones",
     .rule = "sizes -> those sizes",
     .example = "torch.tensor{1, 2}:new_ones(3) --> i64 [3]  1 1 1",
     .shape = new_shape,
     .run = fill_one,
     .samples = [](Samples& s) {
       s.add({s.normal({2}), s.ints({2, 3})});
     }});
const Op& new_empty = add_op(
    {.name = "new_empty",
     .args = "self, size: ints*, dtype: dtype?, device: device?, requires_grad: bool = false",
     .doc = "Uninitialised, of the given sizes, with the tensor's type and device.",
     .where = kMethod,
     .random = true,
     .differentiable = false,
     .see = "empty",
     .rule = "sizes -> those sizes",
     .example = "torch.ones(2):new_empty(2, 3).shape --> [2, 3]",
     .shape = new_shape,
     .samples = [](Samples& s) {
       s.add({s.normal({2}), s.ints({2, 3})});
     }});
const Op& new_full =
    add_op({.name = "new_full",
            .args = "self, size: ints, fill_value: number, dtype: dtype?, device: device?, "
                    "requires_grad: bool = false",
            .doc = "One value in the given sizes, with the tensor's type and device.",
            .where = kMethod,
            .differentiable = false,
            .see = "full",
            .rule = "sizes -> those sizes",
            .example = "torch.ones(2):new_full({2}, 7) --> f32 [2]  7 7",
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  c.out.push_back(empty(c.ints(1), c.dtype(3, x.dtype()), c.device(4, x.device())));
                  check_number("new_full", c.arg[2], c.out[0].dtype());
                },
            .run = [](Call& c) { fill_raw(c.out[0], c.arg[2]); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2}), s.ints({2, 3}), 2.5});
                }});

// Filling an existing tensor.
const Op& fill =
    add_op({.name = "fill",
            .args = "self, value: operand",
            .doc = "Every element replaced by one value.",
            .inplace = Inplace::Direct,
            .see = "full, zero",
            .rule = "any shape -> the same shape",
            .example = "torch.zeros(3):fill_(7) --> f32 [3]  7 7 7",
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  if (c.arg[1].tag == Tag::Tensor)
                    TYCHO_CHECK(Kind::Shape, c.tensor(1).rank() == 0,
                                "fill: the value must be a number or a 0-d tensor, not %s",
                                describe(c.tensor(1)).c_str());
                  else
                    check_number("fill", c.arg[1], x.dtype());
                  c.out.push_back(c.inplace ? x : empty_like(x));
                },
            .run =
                [](Call& c) {
                  if (c.arg[1].tag == Tag::Tensor)
                    copy_raw(c.out[0], c.tensor(1));
                  else
                    fill_raw(c.out[0], c.arg[1]);
                },
            .grad =
                [](Backward& b) {
                  if (b.needs(0)) b.set(0, op<"zeros_like">(b.g()));
                  if (b.needs(1)) b.set(1, op<"sum">(b.g()));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3}), 2.5});
                  s.add({s.normal({2, 3}), s.normal({})});
                }});
const Op& zero = add_op(
    {.name = "zero",
     .args = "self",
     .doc = "Every element replaced by 0.",
     .where = kMethod,
     .inplace = Inplace::Direct,
     .see = "zeros, fill_",
     .rule = "any shape -> the same shape",
     .example = "torch.ones(2):zero_() --> f32 [2]  0 0",
     .shape = [](Call& c) { c.out.push_back(c.inplace ? c.tensor(0) : empty_like(c.tensor(0))); },
     .run = [](Call& c) { fill_raw(c.out[0], Value(int64_t{0})); },
     .grad = [](Backward& b) { b.set(0, op<"zeros_like">(b.g())); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3})});
         }});

}  // namespace
}  // namespace tycho
