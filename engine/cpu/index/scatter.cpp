// Kernels that read or write single elements at positions along one dimension: gather, scatter,
// scatter_add, scatter_reduce.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/cpu/index/combine.h"
#include "engine/cpu/index/positions.h"
#include "engine/cpu/part_of.h"
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
void each_short_run(const Walk& w, F&& f) {
  if (w.rank != 2) return each_run(w, 0, w.numel, f);
  const int64_t n = w.size[1], step[] = {w.stride[0][0], w.stride[1][0], w.stride[2][0]};
  int64_t offset[] = {0, 0, 0};
  for (int64_t i = 0; i < w.size[0]; ++i) {
    f(offset, n);
    for (int k = 0; k < 3; ++k) offset[k] += step[k];
  }
}

// Where the last dimension is short, a longer one goes innermost. Elements that meet differ along one
// dimension only, so they keep their order. Along a last dimension of the positions nothing but rows is walked,
// and the shortest will do.
Walk long_runs_of(const Impl* const* tensors) {
  constexpr int64_t kShort = 16, kBeside = 6, kMostInside = 8192;
  Walk w = make_walk(tensors, 3);
  const int last = w.rank - 1;
  const bool beside = w.stride[0][last] == 1 && w.stride[1][last] == 1 && w.stride[2][last] == 1;
  const int64_t least = beside ? kBeside : w.stride[1][last] != 0 ? kShort : 2;
  for (int d = last - 1; d >= 0 && w.size[last] < least; --d)
    if (w.size[d] >= kShort && w.size[d] <= kMostInside) {
      std::swap(w.size[d], w.size[last]);
      for (int k = 0; k < w.count; ++k) std::swap(w.stride[k][d], w.stride[k][last]);
    }
  return w;
}

template <Combine C, class T>
void put_elements(const Walk& w, T* to, const T* from, const int64_t* p, int64_t step) {
  const int last = w.rank - 1;
  const int64_t sp = w.stride[0][last], st = w.stride[1][last], sf = w.stride[2][last];
  const auto each = [&](auto&& f) {
    each_short_run(w, [&](const int64_t* offset, int64_t n) {
      f(p + offset[0], to + offset[1], from + offset[2], n);
    });
  };
  if (sp == 1 && st == 0 && step == 1 && sf == 1)  // along the last dimension
    return each([](const int64_t* q, T* t, const T* f, int64_t n) {
      for (int64_t i = 0; i < n; ++i) t[q[i] - 1] = combined<C>(t[q[i] - 1], f[i]);
    });
  if (sp == 1 && st == 1 && sf == 1)  // rows beside each other
    return each([step](const int64_t* q, T* t, const T* f, int64_t n) {
      T* const before = t - step;
      for (int64_t i = 0; i < n; ++i) {
        T& at = before[i + q[i] * step];
        at = combined<C>(at, f[i]);
      }
    });
  each([=](const int64_t* q, T* t, const T* f, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      T& at = t[i * st + (q[i * sp] - 1) * step];
      at = combined<C>(at, f[i * sf]);
    }
  });
}

// f(begin, end) for parts of dimension d, each of about as many elements as the caches hold.
template <class F>
void each_part(const Sizes& shape, int d, Interrupts stop, F&& f) {
  // Of rows that lie in memory one after the other, parts are not narrow; threads that write into the same lines wait
  // for each other, so they get as few borders as there can be.
  const int64_t threads = get_num_threads(), most = threads > 1 ? 512 : 64;
  const int64_t wide = d + 1 == shape.n ? std::min(most, shape[d] / threads) : 1;
  const int64_t grain = std::max({int64_t{1}, wide, 16384 * shape[d] / product(shape)});
  parallel_for(
      shape[d], grain,
      [&](int64_t begin, int64_t end) {
        for (; begin < end; begin += grain) f(begin, std::min(begin + grain, end));
      },
      stop);
}
// The outermost dimension but `not_this` that has parts for all threads, so that memory is gone through
// in order; or the longest; or -1 where the elements are worth no parts.
int dim_of_parts(const Sizes& shape, int not_this) {
  const int64_t enough = 4 * get_num_threads();
  int d = -1;
  for (int k = 0; k < shape.n && product(shape) >= 32768; ++k) {
    if (k == not_this || shape[k] == 1) continue;
    if (shape[k] >= enough) return k;
    if (d < 0 || shape[k] > shape[d]) d = k;
  }
  return d;
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
    const Walk w = long_runs_of(three);
    with_combine(how, x.dtype(), [&]<Combine C, class T>() {
      put_elements<C>(w, t.data<T>(), f.data<T>(), p.data<int64_t>(), step);
    });
  };
  const int d = dim_of_parts(shape, dim);
  if (d < 0) return run(index, xi, si);
  each_part(shape, d, Interrupts::Hold, [&](int64_t begin, int64_t end) {
    run(part_of(index, d, begin, end), part_of(xi, d, begin, end), part_of(si, d, begin, end));
  });
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
  const auto run = [&](const Tensor& at, const Tensor& source, const Tensor& result) {
    const Impl* three[] = {at.get(), source.get(), result.get()};
    const Walk w = long_runs_of(three);
    const int last = w.rank - 1;
    const int64_t sp = w.stride[0][last], sx = w.stride[1][last], so = w.stride[2][last];
    with_size(x.dtype(), [&](auto kind) {
      using T = decltype(kind);
      const int64_t* p = at.data<int64_t>();
      const T* from = source.data<T>();
      T* to = result.data<T>();
      const auto each = [&](auto&& f) {
        each_short_run(w, [&](const int64_t* offset, int64_t n) {
          f(p + offset[0], from + offset[1], to + offset[2], n);
        });
      };
      if (sp == 1 && sx == 0 && step == 1 && so == 1)  // along the last dimension
        return each([](const int64_t* q, const T* f, T* t, int64_t n) {
          for (int64_t i = 0; i < n; ++i) t[i] = f[q[i] - 1];
        });
      if (sp == 1 && sx == 1 && so == 1)  // rows beside each other
        return each([step](const int64_t* q, const T* f, T* t, int64_t n) {
          const T* const before = f - step;
          for (int64_t i = 0; i < n; ++i) t[i] = before[i + q[i] * step];
        });
      each([=](const int64_t* q, const T* f, T* t, int64_t n) {
        for (int64_t i = 0; i < n; ++i) t[i * so] = f[i * sx + (q[i * sp] - 1) * step];
      });
    });
  };
  const int d = dim_of_parts(index.shape(), -1);
  if (d < 0) return run(index, xi, out);
  each_part(index.shape(), d, Interrupts::Poll, [&](int64_t begin, int64_t end) {
    run(part_of(index, d, begin, end), part_of(xi, d, begin, end), part_of(out, d, begin, end));
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
    const DType type = index.numel() < INT32_MAX ? DType::Int32 : DType::Int64;
    Tensor count = filled(x.shape(), include, type, x.device()), one = filled(Sizes(), 1, type);
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
