// What masks name, on a device: positions, selected elements, and elements that are written there.
#include "engine/cuda/kernels/find.cuh"

#include "engine/cuda/ops/index_walk.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

// A row-major mask, and how many are true up to each of its elements.
struct Counted {
  Tensor mask, upto;
  int64_t total = 0;
  explicit Counted(const Tensor& given) : mask(packed(as(given, DType::Bool))) {
    if (mask.numel() == 0) return;
    const Tensor line = alias(mask, {mask.numel()}, {1}, mask->offset);
    upto = op<"cumsum">(as(line, DType::Int64), 0);
    total = item<int64_t>(op<"select">(upto, 0, mask.numel() - 1));
  }
  void run(const char* kernel, Found f) const {
    f.mask = mask.data<uint8_t>();
    f.numel = mask.numel();
    if (total == 0) return;
    f.upto = upto.data<int64_t>();
    launch(mask.device(), {"find", kernel}, grid_for(mask.device(), f.numel), {256}, 0, f);
  }
};

Found places_in(const Sizes& shape, int64_t step) {
  Found f{};
  f.rank = shape.n;
  f.step = step;
  for (int d = 0; d < shape.n; ++d) f.size[d] = shape[d];
  return f;
}

// A row for each element that is not zero.
void rows(Call& c) {
  const Tensor& x = c.tensor(0);
  const Counted counted(x);
  const Tensor out = empty({counted.total, x.rank()}, DType::Int64, x.device());
  c.out.push_back(out);
  if (x.rank() == 0) return;
  Found f = places_in(x.shape(), x.rank());
  for (int d = 0; d < x.rank(); ++d) f.places[d] = out.data<int64_t>() + d;
  counted.run("found_places", f);
}

// A tensor for each dimension; a 0-d tensor has one.
void columns(Call& c) {
  const Tensor& x = c.tensor(0);
  const Counted counted(x);
  Found f = places_in(x.rank() ? x.shape() : Sizes{1}, 1);
  for (int d = 0; d < f.rank; ++d) {
    c.out.push_back(empty({counted.total}, DType::Int64, x.device()));
    f.places[d] = c.out[d].data<int64_t>();
  }
  counted.run("found_places", f);
}

void masked_select(Call& c) {
  const Tensor x = packed(c.tensor(0));
  const Counted counted(c.tensor(1));
  c.out.push_back(empty({counted.total}, x.dtype(), x.device()));
  Found f{};
  f.from = x.data<void>();
  f.to = c.out[0].data<void>();
  constexpr const char* kNames[] = {"gathered_1", "gathered_2", "gathered_4", "gathered_8"};
  counted.run(by_size(kNames, x.dtype()), f);
}

void masked_scatter(Call& c) {
  const Tensor& out = c.out[0];
  const Tensor source = packed(apart(c.tensor(2), out));
  const Counted counted(c.tensor(1));
  TYCHO_CHECK(Kind::Shape, counted.total <= source.numel(),
              "masked_scatter: the mask has %lld true elements, the source %lld",
              static_cast<long long>(counted.total), static_cast<long long>(source.numel()));
  const Tensor work = out.contiguous() ? out : empty(out.shape(), out.dtype(), out.device());
  if (work.get() != out.get() || !c.inplace) copy_raw(work, c.tensor(0));
  Found f{};
  f.from = source.data<void>();
  f.to = work.data<void>();
  constexpr const char* kNames[] = {"strewn_1", "strewn_2", "strewn_4", "strewn_8"};
  counted.run(by_size(kNames, out.dtype()), f);
  if (work.get() != out.get()) copy_raw(out, work);
}

void cumprod_backward(Call& c) {
  const Tensor g = packed(as(c.tensor(0), DType::Float64)),
               x = packed(as(c.tensor(1), DType::Float64));
  const Cut cut(x.shape(), c.integer(2));
  if (x.numel() == 0) return;
  const Tensor out = empty(x.shape(), DType::Float64, x.device());
  ProductsBack p{};
  p.grad = g.data<double>();
  p.in = x.data<double>();
  p.out = out.data<double>();
  p.rows = cut.rows();
  p.n = cut.n;
  p.inner = cut.inner;
  launch(x.device(), {"find", "products_back"}, grid_for(x.device(), p.rows), {256}, 0, p);
  copy_raw(c.out[0], out);
}

// The product of what stands before each element times that of what stands behind.
void prod_of_others(Call& c) {
  const Tensor& given = c.tensor(0);
  if (given.numel() == 0) return;
  const Tensor wide = as(given, DType::Float64);
  const Tensor x = wide.rank() ? wide : alias(wide, {1}, {1}, wide->offset);
  const int64_t d = given.rank() ? wrap_dim(c.integer(1), x.rank()) : 0,
                n = x.size(static_cast<int>(d));
  const Tensor one = op<"ones_like">(op<"narrow">(x, d, 0, 1));
  const auto running = [&](const Tensor& t) {
    const std::vector<Tensor> parts{one, op<"narrow">(t, d, 0, n - 1)};
    return op<"cumprod">(op<"cat">(parts, d), d);
  };
  const auto turned = [&](const Tensor& t) { return op<"flip">(t, Sizes{d}); };
  const Tensor y = op<"mul">(running(x), turned(running(turned(x))));
  copy_raw(c.out[0], alias(y, given.shape(), given.rank() ? y.strides() : Sizes(), y->offset));
}

BIND_KERNEL(Cuda, "nonzero", [](Call& c) { c.flag(1) ? columns(c) : rows(c); });
BIND_KERNEL(Cuda, "argwhere", rows);
BIND_KERNEL(Cuda, "where.found", columns);
BIND_KERNEL(Cuda, "index.mask", columns);
BIND_KERNEL(Cuda, "masked_select", masked_select);
BIND_KERNEL(Cuda, "masked_scatter", masked_scatter);
BIND_KERNEL(Cuda, "cumprod_backward", cumprod_backward);
BIND_KERNEL(Cuda, "prod_of_others", prod_of_others);

}  // namespace
}  // namespace tycho::cuda
