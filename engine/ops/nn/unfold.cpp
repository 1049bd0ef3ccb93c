// Sliding blocks of images: unfold cuts them out as columns, fold adds columns back together (each
// is the other's gradient), and max_unpool puts the largest values back where they came from.
#include <cmath>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

struct Pair {
  int64_t v[2];
};

Pair pair_of(const char* op, const char* what, const Sizes& s, int64_t least) {
  TYCHO_CHECK(Kind::Shape, s.n == 1 || s.n == 2, "%s: %s takes one number or 2, not %d", op, what,
              s.n);
  const Pair p = {{s[0], s[s.n - 1]}};
  for (int64_t x : p.v)
    TYCHO_CHECK(Kind::Shape, x >= least && x < int64_t{1} << 31,
                "%s: %s must be at least %lld, not %lld", op, what, static_cast<long long>(least),
                static_cast<long long>(x));
  return p;
}

int64_t product(const char* op, int64_t a, int64_t b) {
  int64_t n;
  TYCHO_CHECK(Kind::Shape, !__builtin_mul_overflow(a, b, &n), "%s: the blocks are too many", op);
  return n;
}

struct Blocks {
  Pair kernel, dilation, padding, stride;

  int64_t count(int d, int64_t size) const {
    const int64_t reach = dilation.v[d] * (kernel.v[d] - 1) + 1;
    const int64_t room = size + 2 * padding.v[d] - reach;
    return room < 0 ? 0 : room / stride.v[d] + 1;
  }
  // Blocks of a padded image, [n, c, kernel, kernel, rows, columns], and where they lie in it.
  Sizes shape(const Tensor& x, int64_t rows, int64_t columns) const {
    return {x.size(0), x.size(1), kernel.v[0], kernel.v[1], rows, columns};
  }
  Tensor windows(const Tensor& x, const Sizes& shape) const {
    const int64_t row = x.stride(2), column = x.stride(3);
    return alias(x, shape,
                 {x.stride(0), x.stride(1), dilation.v[0] * row, dilation.v[1] * column,
                  stride.v[0] * row, stride.v[1] * column},
                 x->offset);
  }
  bool apart() const {
    for (int d = 0; d < 2; ++d)
      if (dilation.v[d] * (kernel.v[d] - 1) >= stride.v[d]) return false;
    return true;
  }
};

// The places of one kernel position in a padded image, as a strided view [n, c, rows, columns].
Tensor place(const Tensor& padded, const Blocks& b, int64_t i, int64_t k, int64_t rows,
             int64_t columns) {
  const int64_t at[2] = {i * b.dilation.v[0], k * b.dilation.v[1]};
  const int64_t n[2] = {rows, columns};
  Tensor out = padded;
  for (int d = 0; d < 2; ++d)
    out = op<"slice">(out, d + 2, at[d], at[d] + (n[d] - 1) * b.stride.v[d] + 1, b.stride.v[d]);
  return out;
}

Blocks blocks_of(const char* name, const Sizes& kernel, const Sizes& dilation, const Sizes& padding,
                 const Sizes& stride) {
  return {pair_of(name, "kernel_size", kernel, 1), pair_of(name, "dilation", dilation, 1),
          pair_of(name, "padding", padding, 0), pair_of(name, "stride", stride, 1)};
}

const Op& unfold = add_op(
    {.name = "functional_unfold",
     .args = "input, kernel_size: ints, dilation: ints = 1, padding: ints = 0, stride: ints = 1",
     .doc = "The sliding blocks of an image as columns (im2col).",
     .where = kFunctional,
     .see = "nn.functional.fold",
     .rule = "[n, c, h, w] -> [n, c * kernel, blocks]",
     .example = "F.unfold(torch.arange(4.):view(1, 1, 2, 2), {1, 2}) --> f32 [1, 2, 2]\n"
                "[1, :, :]   0  2\n"
                "            1  3",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           TYCHO_CHECK(Kind::Shape, x.rank() == 4 || x.rank() == 3,
                       "unfold: takes an image [n, c, h, w] or [c, h, w], not shape %s",
                       to_string(x.shape()).c_str());
           const Blocks b = blocks_of("unfold", c.ints(1), c.ints(2), c.ints(3), c.ints(4));
           const int64_t rows = b.count(0, x.size(-2)), columns = b.count(1, x.size(-1));
           TYCHO_CHECK(Kind::Shape, rows > 0 && columns > 0,
                       "unfold: no block of the kernel fits into an image of %lld by %lld",
                       static_cast<long long>(x.size(-2)), static_cast<long long>(x.size(-1)));
           Sizes out{product("unfold", x.size(-3), b.kernel.v[0] * b.kernel.v[1]),
                     product("unfold", rows, columns)};
           if (x.rank() == 4) out.insert(0, x.size(0));
           c.out.push_back(empty(out, x.dtype(), x.device()));
         },
     .run =
         [](Call& c) {
           const Blocks b = blocks_of("unfold", c.ints(1), c.ints(2), c.ints(3), c.ints(4));
           Tensor x = c.tensor(0);
           if (x.rank() == 3) x = op<"unsqueeze">(x, 0);
           const int64_t rows = b.count(0, x.size(2)), columns = b.count(1, x.size(3));
           const int64_t ph = b.padding.v[0], pw = b.padding.v[1];
           if (ph || pw) x = op<"pad">(x, Sizes{pw, pw, ph, ph});
           const Sizes shape = b.shape(x, rows, columns);
           copy_raw(alias(c.out[0], shape, row_major(shape), c.out[0]->offset),
                    b.windows(x, shape));
         },
     .grad =
         [](Backward& b) {
           const Sizes shape = b.shape(0);
           b.set(0, op<"fold">(b.g(), Sizes{shape[shape.n - 2], shape[shape.n - 1]}, b.ints(1),
                               b.ints(2), b.ints(3), b.ints(4)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({1, 2, 3, 4}), s.ints({2})});
           s.add({s.normal({2, 1, 5, 5}), s.ints({2, 3}), s.ints({2, 1}), s.ints({1, 2}),
                  s.ints({2})});
         }});

const Op& fold = add_op(
    {.name = "fold",
     .args = "input, output_size: ints, kernel_size: ints, dilation: ints = 1, padding: ints = 0, "
             "stride: ints = 1",
     .doc = "Columns of sliding blocks added up into an image (col2im).",
     .where = kFunctional,
     .see = "nn.functional.unfold",
     .rule = "[n, c * kernel, blocks] -> [n, c, h, w]",
     .example = "F.fold(torch.ones(1, 2, 2), {2, 2}, {1, 2}) --> f32 [1, 1, 2, 2]\n"
                "[1, 1, :, :]   1  1\n"
                "               1  1",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           TYCHO_CHECK(Kind::Shape, x.rank() == 3 || x.rank() == 2,
                       "fold: takes columns [n, c * kernel, blocks], not shape %s",
                       to_string(x.shape()).c_str());
           const Pair size = pair_of("fold", "output_size", c.ints(1), 1);
           const Blocks b = blocks_of("fold", c.ints(2), c.ints(3), c.ints(4), c.ints(5));
           const int64_t kernel = b.kernel.v[0] * b.kernel.v[1];
           TYCHO_CHECK(Kind::Shape, x.size(-2) % kernel == 0,
                       "fold: %lld rows are not divisible by the kernel's %lld elements",
                       static_cast<long long>(x.size(-2)), static_cast<long long>(kernel));
           const int64_t blocks = product("fold", b.count(0, size.v[0]), b.count(1, size.v[1]));
           TYCHO_CHECK(Kind::Shape, x.size(-1) == blocks,
                       "fold: an image of %lld by %lld has %lld blocks, the input has %lld columns",
                       static_cast<long long>(size.v[0]), static_cast<long long>(size.v[1]),
                       static_cast<long long>(blocks), static_cast<long long>(x.size(-1)));
           Sizes out{x.size(-2) / kernel, size.v[0], size.v[1]};
           if (x.rank() == 3) out.insert(0, x.size(0));
           c.out.push_back(empty(out, x.dtype(), x.device()));
         },
     .run =
         [](Call& c) {
           const Blocks b = blocks_of("fold", c.ints(2), c.ints(3), c.ints(4), c.ints(5));
           const Tensor& out = c.out[0];
           const int64_t h = out.size(-2), w = out.size(-1), channels = out.size(-3);
           const int64_t batch = out.rank() == 4 ? out.size(0) : 1;
           const int64_t rows = b.count(0, h), columns = b.count(1, w);
           const int64_t ph = b.padding.v[0], pw = b.padding.v[1];
           const Tensor sum = op<"zeros">(Sizes{batch, channels, h + 2 * ph, w + 2 * pw},
                                          out.dtype(), out.device());
           const Sizes shape = b.shape(sum, rows, columns);
           const Tensor x = op<"view">(packed(c.tensor(0)), shape);
           if (b.apart()) copy_raw(b.windows(sum, shape), x);
           for (int64_t i = 0; i < b.kernel.v[0] && !b.apart(); ++i)
             for (int64_t k = 0; k < b.kernel.v[1]; ++k)
               op_<"add">(place(sum, b, i, k, rows, columns),
                          op<"select">(op<"select">(x, 2, i), 2, k));
           Tensor inner = op<"narrow">(op<"narrow">(sum, 2, ph, h), 3, pw, w);
           if (out.rank() == 3) inner = op<"select">(inner, 0, 0);
           copy_raw(out, inner);
         },
     .grad =
         [](Backward& b) {
           b.set(0, op<"functional_unfold">(b.g(), b.ints(2), b.ints(3), b.ints(4), b.ints(5)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({1, 8, 4}), s.ints({3, 3}), s.ints({2})});
           s.add({s.normal({1, 6, 20}), s.ints({4, 4}), s.ints({2, 3}), s.ints({1}), s.ints({1, 1}),
                  s.ints({1})});
         }});

template <int spatial>
void max_unpool(Call& c) {
  const std::string name = "max_unpool" + std::to_string(spatial) + "d";
  const Tensor &x = c.tensor(0), &index = c.tensor(1);
  TYCHO_CHECK(Kind::Shape, x.rank() == spatial + 1 || x.rank() == spatial + 2,
              "%s: takes %d or %d dimensions, not shape %s", name.c_str(), spatial + 1, spatial + 2,
              to_string(x.shape()).c_str());
  TYCHO_CHECK(Kind::DType, index.dtype() == DType::Int64, "%s: indices must be int64, not %s",
              name.c_str(), dtype_name(index.dtype()));
  TYCHO_CHECK(Kind::Shape, index.shape() == x.shape(), "%s: indices have shape %s, the input %s",
              name.c_str(), to_string(index.shape()).c_str(), to_string(x.shape()).c_str());
  const auto spread = [&](int arg, const char* what) {
    const Sizes s = c.ints(arg);
    TYCHO_CHECK(Kind::Shape, s.n == 1 || s.n == spatial, "%s: %s takes one number or %d, not %d",
                name.c_str(), what, spatial, s.n);
    Sizes out;
    for (int d = 0; d < spatial; ++d) out.push_back(s[s.n == 1 ? 0 : d]);
    return out;
  };
  const Sizes kernel = spread(2, "kernel_size");
  const Sizes stride = c.has(3) && c.count(3) ? spread(3, "stride") : kernel;
  const Sizes padding = spread(4, "padding");
  const int leading = x.rank() - spatial;
  Sizes out(x.shape().v, leading);
  int64_t flat = 1;
  for (int d = 0; d < spatial; ++d) {
    int64_t n = (x.size(leading + d) - 1) * stride[d] - 2 * padding[d] + kernel[d];
    if (c.has(5)) {  // the last numbers of output_size, which may name all dimensions
      const Sizes size = c.ints(5);
      TYCHO_CHECK(Kind::Shape, size.n >= spatial, "%s: output_size takes %d numbers, not %d",
                  name.c_str(), spatial, size.n);
      n = size[size.n - spatial + d];
    }
    TYCHO_CHECK(Kind::Shape, n > 0, "%s: the output would have size %lld", name.c_str(),
                static_cast<long long>(n));
    out.push_back(n);
    flat *= n;
  }
  Sizes flat_shape(x.shape().v, leading), in_shape(x.shape().v, leading);
  flat_shape.push_back(flat);
  in_shape.push_back(-1);
  int64_t count = 1;
  for (int d = 0; d < spatial; ++d) count *= x.size(leading + d);
  in_shape[leading] = count;
  // A zero that is stretched: the copy that scatter makes is then the only one.
  Sizes ones = flat_shape;
  for (int64_t& n : ones) n = 1;
  const Tensor zeros = op<"expand">(op<"zeros">(ones, x.dtype(), x.device()), flat_shape);
  c.out.push_back(op<"view">(
      op<"scatter">(zeros, -1, op<"reshape">(index, in_shape), op<"reshape">(x, in_shape)), out));
}

#define MAX_UNPOOL_ARGS \
  "input, indices, kernel_size: ints, stride: ints?, padding: ints = 0, output_size: ints?"

const Op& max_unpool1d = add_op(
    {.name = "max_unpool1d",
     .args = MAX_UNPOOL_ARGS,
     .doc = "Values put back at the positions that max_pool1d gave, zeros elsewhere.",
     .where = kFunctional,
     .see = "nn.functional.max_pool1d",
     .rule = "[n, c, l] -> [n, c, l2]",
     .example =
         "F.max_unpool1d(torch.tensor{{{5.}}}, torch.tensor{{{2}}}, 2) --> f32 [1, 1, 2]  view\n"
         "[1, :, :]   0  5",
     .compose = max_unpool<1>,
     .samples = [](Samples& s) {
       s.add({s.normal({1, 1, 2}), s.of({1, 1, 2}, {2, 3}, DType::Int64), s.ints({2})});
     }});
const Op& max_unpool2d = add_op(
    {.name = "max_unpool2d",
     .args = MAX_UNPOOL_ARGS,
     .doc = "Values put back at the positions that max_pool2d gave, zeros elsewhere.",
     .where = kFunctional,
     .see = "nn.functional.max_pool2d",
     .rule = "[n, c, h, w] -> [n, c, h2, w2]",
     .example = "F.max_unpool2d(torch.tensor{{{{5.}}}}, torch.tensor{{{{4}}}}, 2) --> f32 [1, 1, "
                "2, 2]  view\n"
                "[1, 1, :, :]   0  0\n"
                "               0  5",
     .compose = max_unpool<2>,
     .samples = [](Samples& s) {
       s.add({s.normal({1, 1, 1, 2}), s.of({1, 1, 1, 2}, {2, 7}, DType::Int64), s.ints({2})});
     }});
const Op& max_unpool3d = add_op(
    {.name = "max_unpool3d",
     .args = MAX_UNPOOL_ARGS,
     .doc = "Values put back at the positions that max_pool3d gave, zeros elsewhere.",
     .where = kFunctional,
     .see = "nn.functional.max_pool3d",
     .rule = "[n, c, d, h, w] -> [n, c, d2, h2, w2]",
     .example = "F.max_unpool3d(torch.ones(1, 1, 1, 1, 1), torch.ones{1, 1, 1, 1, 1, dtype = "
                "\"int64\"}, 2).shape --> [1, 1, 2, 2, 2]",
     .compose = max_unpool<3>,
     .samples = [](Samples& s) {
       s.add({s.normal({1, 1, 1, 1, 1}), s.of({1, 1, 1, 1, 1}, {8}, DType::Int64), s.ints({2})});
     }});

}  // namespace
}  // namespace tycho
