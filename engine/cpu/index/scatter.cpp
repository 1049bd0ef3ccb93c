// Kernels that read or write single elements at positions along one dimension: gather, scatter,
// scatter_add, scatter_reduce.
#include <cmath>
#include <limits>

#include "engine/base/parallel.h"
#include "engine/cpu/index/combine.h"
#include "engine/cpu/index/positions.h"
#include "engine/cpu/walk.h"
#include "engine/ops/index/index.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// A tensor seen with the index's shape; along `dim` it stands still, for positions move there.
Tensor under(const Tensor& t, const Sizes& shape, int dim) {
  Sizes stride;
  for (int d = 0; d < shape.n; ++d) stride.push_back(d == dim || t.rank() == 0 ? 0 : t.stride(d));
  return alias(t, shape, stride, t->offset);
}
Tensor in_shape(const Tensor& t, const Sizes& shape) { return under(t, shape, -1); }

int64_t size_along(const Tensor& x, int d) { return x.rank() ? x.size(d) : 1; }
int64_t stride_along(const Tensor& x, int d) { return x.rank() ? x.stride(d) : 0; }

// The positions as a row-major int64 tensor of the index's shape; checked.
Tensor checked(const Call& c, const Tensor& index) {
  const int d = static_cast<int>(c.integer(1));
  const Positions p = positions(c.op->name, index, size_along(c.tensor(0), d), d, false);
  return alias(p.hold, index.shape(), row_major(index.shape()), p.hold->offset);
}

// each_run over three tensors, quick where the runs are short and many.
template <class F>
void each_short_run(const Walk& w, int64_t begin, int64_t end, F&& f) {
  const int64_t n = w.size[w.rank - 1];
  if (w.rank != 2 || begin % n || end % n) return each_run(w, begin, end, f);
  for (int64_t i = begin / n; i < end / n; ++i) {
    const int64_t offset[] = {i * w.stride[0][0], i * w.stride[1][0], i * w.stride[2][0]};
    f(offset, n);
  }
}

template <Combine C, class T>
void put_elements(const Walk& w, T* to, const T* from, const int64_t* p, int64_t step) {
  const int last = w.rank - 1;
  const int64_t sp = w.stride[0][last], st = w.stride[1][last], sf = w.stride[2][last];
  each_short_run(w, 0, w.numel, [&](const int64_t* offset, int64_t n) {
    const int64_t* q = p + offset[0];
    T* t = to + offset[1];
    const T* f = from + offset[2];
    if (sp == 1 && st == 0 && step == 1 && sf == 1) {  // along the last dimension
      for (int64_t i = 0; i < n; ++i) t[q[i] - 1] = combined<C>(t[q[i] - 1], f[i]);
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      T& at = t[i * st + (q[i * sp] - 1) * step];
      at = combined<C>(at, f[i * sf]);
    }
  });
}

Tensor part_of(const Tensor& t, int d, int64_t begin, int64_t end) {
  Sizes shape = t.shape();
  shape[d] = end - begin;
  return alias(t, shape, t.strides(), t->offset + begin * t.stride(d));
}

// x at the positions combined with src. Positions may repeat along `dim`, so threads divide
// another dimension.
void put_all(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Combine how) {
  if (index.numel() == 0) return;
  const Sizes shape = index.shape();
  const Tensor xi = under(x, shape, dim), si = in_shape(source, shape);
  const int64_t step = stride_along(x, dim);
  const auto run = [&](const Tensor& p, const Tensor& t, const Tensor& f) {
    const Impl* three[] = {p.get(), t.get(), f.get()};
    const Walk w = make_walk(three, 3);
    with_combine(how, x.dtype(), [&]<Combine C, class T>() {
      put_elements<C>(w, t.data<T>(), f.data<T>(), p.data<int64_t>(), step);
    });
  };
  int split = -1;
  for (int d = 0; d < shape.n; ++d)
    if (d != dim && shape[d] > 1 && (split < 0 || shape[d] > shape[split])) split = d;
  if (split < 0 || index.numel() < 32768) return run(index, xi, si);
  const int64_t grain = std::max<int64_t>(1, 16384 * shape[split] / index.numel());
  parallel_for(
      shape[split], grain,
      [&](int64_t begin, int64_t end) {
        run(part_of(index, split, begin, end), part_of(xi, split, begin, end),
            part_of(si, split, begin, end));
      },
      Interrupts::Hold);
}

Tensor apart(const Tensor& t, const Tensor& changed) {
  if (t->storage.get() != changed->storage.get()) return t;
  Tensor copy = empty(t.shape(), t.dtype(), t.device());
  copy_raw(copy, t);
  return copy;
}

// Runs `change` on the result with self's values in it (halves that combine: in float32).
template <class F>
void changed(Call& c, bool combines, F&& change) {
  const Tensor& out = c.out[0];
  const bool wide = combines && is_half(out.dtype());
  const Tensor index = checked(c, apart(c.tensor(2), out));
  Tensor work = wide ? empty(out.shape(), DType::Float32, out.device()) : out;
  Tensor source;
  if (c.arg[3].tag == Tag::Tensor) {
    source = apart(c.tensor(3), out);
  } else {
    source = empty(Sizes(), out.dtype(), out.device());
    fill_raw(source, c.arg[3]);
  }
  if (wide) {
    Tensor cast = empty(source.shape(), DType::Float32, out.device());
    copy_raw(cast, source);
    source = cast;
  }
  if (wide || !c.inplace) copy_raw(work, c.tensor(0));
  change(work, index, source);
  if (wide) copy_raw(out, work);
}

}  // namespace

void gather(Call& c) {
  const Tensor &x = c.tensor(0), &out = c.out[0];
  if (out.numel() == 0) return;
  const int dim = static_cast<int>(c.integer(1));
  const Tensor index = checked(c, c.tensor(2)), xi = under(x, index.shape(), dim);
  const int64_t step = stride_along(x, dim);
  const Impl* three[] = {index.get(), xi.get(), out.get()};
  const Walk w = make_walk(three, 3);
  const int last = w.rank - 1;
  const int64_t sp = w.stride[0][last], sx = w.stride[1][last], so = w.stride[2][last];
  with_size(x.dtype(), [&](auto kind) {
    using T = decltype(kind);
    const int64_t* p = index.data<int64_t>();
    const T* from = x.data<T>();
    T* to = out.data<T>();
    parallel_for(w.numel, 16384, [&](int64_t begin, int64_t end) {
      each_short_run(w, begin, end, [&](const int64_t* offset, int64_t n) {
        const int64_t* q = p + offset[0];
        const T* f = from + offset[1];
        T* t = to + offset[2];
        if (sp == 1 && sx == 0 && step == 1 && so == 1) {  // along the last dimension
          for (int64_t i = 0; i < n; ++i) t[i] = f[q[i] - 1];
          return;
        }
        for (int64_t i = 0; i < n; ++i) t[i * so] = f[i * sx + (q[i * sp] - 1) * step];
      });
    });
  });
}

void scatter(Call& c) {
  const int dim = static_cast<int>(c.integer(1));
  changed(c, false, [&](const Tensor& x, const Tensor& index, const Tensor& source) {
    put_all(x, dim, index, source, Combine::Set);
  });
}

void scatter_add(Call& c) {
  const int dim = static_cast<int>(c.integer(1));
  changed(c, true, [&](const Tensor& x, const Tensor& index, const Tensor& source) {
    put_all(x, dim, index, source, Combine::Add);
  });
}

void scatter_reduce(Call& c) {
  const int dim = static_cast<int>(c.integer(1));
  const std::string_view name = c.string(4);
  const bool include = c.flag(5), mean = name == "mean";
  const Combine how = name == "prod"   ? Combine::Mul
                      : name == "amax" ? Combine::Max
                      : name == "amin" ? Combine::Min
                                       : Combine::Add;
  changed(c, true, [&](const Tensor& x, const Tensor& index, const Tensor& source) {
    if (!include) {  // touched elements start from the value that changes nothing
      Tensor start = empty(Sizes(), x.dtype(), x.device());
      const bool top = how == Combine::Min;
      if (how == Combine::Max || how == Combine::Min) {
        if (is_floating(x.dtype())) {
          fill_raw(start, Value(top ? HUGE_VAL : -HUGE_VAL));
        } else if (x.dtype() == DType::Bool) {
          fill_raw(start, Value(top));
        } else {
          const int bits = 8 * dtype_size(x.dtype());
          const int64_t low = x.dtype() == DType::UInt8
                                  ? 0
                                  : std::numeric_limits<int64_t>::min() >> (64 - bits),
                        high = x.dtype() == DType::UInt8 ? 255 : ~low;
          fill_raw(start, Value(top ? high : low));
        }
      } else {
        fill_raw(start, Value(int64_t{how == Combine::Mul}));
      }
      put_all(x, dim, index, start, Combine::Set);
    }
    put_all(x, dim, index, source, how);
    if (!mean) return;
    Tensor count = filled(x.shape(), include, DType::Int64, x.device()),
           one = filled(Sizes(), 1, DType::Int64);
    put_all(count, dim, index, one, Combine::Add);
    count = op<"maximum">(count, 1);
    copy_raw(x, is_floating(x.dtype()) ? op<"div">(x, count) : op<"floor_divide">(x, count));
  });
}

BIND_KERNEL(Cpu, "gather", gather);
BIND_KERNEL(Cpu, "scatter_source", scatter);
BIND_KERNEL(Cpu, "scatter_number", scatter);
BIND_KERNEL(Cpu, "scatter_add", scatter_add);
BIND_KERNEL(Cpu, "scatter_reduce", scatter_reduce);

}  // namespace tycho::cpu
