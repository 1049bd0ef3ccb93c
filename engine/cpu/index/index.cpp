// Kernels that read or write whole parts of a tensor at positions along some of its dimensions:
// index, index_put, index_select, index_add, index_copy, index_fill. The tensor is seen as B x I x
// A: the dimensions before the indexed ones, those, and the ones after; each position gives the
// place of one part of A in the tensor.
#include "engine/cpu/index/index.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/index/combine.h"
#include "engine/cpu/index/positions.h"
#include "engine/cpu/walk.h"
#include "engine/ops/index/index.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// The positions of I: number j stands (p[j] - 1) * step elements into the tensor.
struct Places {
  Tensor hold;
  const int64_t* p;
  int64_t step, count;
};

// The tensor with only some of its dimensions, from its first element on.
Tensor only(const Tensor& t, uint32_t dims) {
  Sizes shape, stride;
  for (int d = 0; d < t.rank(); ++d)
    if (dims >> d & 1) {
      shape.push_back(t.size(d));
      stride.push_back(t.stride(d));
    }
  return alias(t, shape, stride, t->offset);
}
Tensor dims_between(const Tensor& t, int from, int to) {
  return only(t, ((1u << to) - 1) & ~((1u << from) - 1));
}

// Element offsets (per walker) of number i in a walk.
void offsets_of(const Walk& w, int64_t i, int64_t* offset) {
  for (int k = 0; k < w.count; ++k) offset[k] = 0;
  for (int d = w.rank - 1; d >= 0 && i; --d) {
    const int64_t x = i % w.size[d];
    i /= w.size[d];
    for (int k = 0; k < w.count; ++k) offset[k] += x * w.stride[k][d];
  }
}

Walk walk_of(const Tensor& a, const Tensor& b) {
  const Impl* both[] = {a.get(), b.get()};
  return make_walk(both, 2);
}

// A part of n elements, where both sides are contiguous.
inline void copy_part(char* to, const char* from, int64_t bytes) {
  switch (bytes) {
    case 8:
      std::memcpy(to, from, 8);
      break;
    case 16:
      std::memcpy(to, from, 16);
      break;
    case 32:
      std::memcpy(to, from, 32);
      break;
    case 64:
      std::memcpy(to, from, 64);
      break;
    default:
      std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

// Parts of a few elements, the same for every b of many: where they lie is found once, for one b or
// for as many short ones as a table holds. False where this does not fit.
bool take_short_parts(const Tensor& x, const Walk& wb, const Walk& wa, const Places& at, int64_t a,
                      const Tensor& out) {
  constexpr int64_t kTable = 1024, kMostTable = 65536, kShortPart = 16;
  const int64_t unit = at.count * a, nb = wb.numel;
  int64_t extent = 0;
  for (int d = 0; d < x.rank(); ++d) extent += (x.size(d) - 1) * std::abs(x.stride(d));
  if (a >= kShortPart || nb < 4 || wb.rank > 1 || unit > kMostTable || extent >= INT32_MAX)
    return false;
  const int64_t sb = wb.stride[0][0], rows = std::clamp<int64_t>(kTable / unit, 1, nb);
  std::vector<int32_t> table(static_cast<size_t>(rows * unit));
  int32_t* t = table.data();
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t j = 0; j < at.count; ++j) {
      const int64_t from = b * sb + (at.p[j] - 1) * at.step;
      each_run(wa, 0, a, [&](const int64_t* offset, int64_t run) {
        for (int64_t i = 0; i < run; ++i)
          t[offset[0] + i * wa.stride[0][wa.rank - 1]] =
              static_cast<int32_t>(from + offset[1] + i * wa.stride[1][wa.rank - 1]);
      });
      t += a;
    }
  const int size = dtype_size(x.dtype());
  parallel_for((nb + rows - 1) / rows, std::max<int64_t>(1, 16384 / (rows * unit)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t k = begin; k < end; ++k)
                   level_of::gather(size, out.data() + k * rows * unit * size,
                                    static_cast<const char*>(x.data() + k * rows * sb * size),
                                    static_cast<const int32_t*>(table.data()),
                                    std::min(rows, nb - k * rows) * unit);
               });
  return true;
}

// out (contiguous, B x I x A) = x at the places.
void take_parts(const Tensor& x, uint32_t before, uint32_t after, const Places& at,
                const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor xb = only(x, before), xa = only(x, after);
  const Tensor oa = empty(xa.shape(), DType::Bool);  // gives the contiguous side's strides only
  const Walk wb = walk_of(xb, xb), wa = walk_of(oa, xa);
  const int64_t nb = xb.numel(), m = at.count, a = xa.numel();
  const int size = dtype_size(x.dtype());
  const bool dense = wa.rank == 1 && wa.stride[1][0] == 1;
  if (take_short_parts(x, wb, wa, at, a, out)) return;
  const int64_t grain = std::max<int64_t>(1, 16384 / a);
  parallel_for(nb * m, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t b = begin / m, first = begin % m, n = std::min(m - first, end - begin);
      int64_t base[kWalkers];
      offsets_of(wb, b, base);
      const char* from = x.data() + base[0] * size;
      char* to = out.data() + begin * a * size;
      const int64_t* p = at.p + first;
      if (a == 1) {
        with_size(x.dtype(), [&](auto kind) {
          using T = decltype(kind);
          const T* f = reinterpret_cast<const T*>(from);
          T* t = reinterpret_cast<T*>(to);
          for (int64_t j = 0; j < n; ++j) t[j] = f[(p[j] - 1) * at.step];
        });
      } else if (dense) {
        const int64_t bytes = a * size;
        const bool stream = bytes >= 1024 && out.numel() * size >= kStreamBytes;
        for (int64_t j = 0; j < n; ++j) {
          const char* row = from + (p[j] - 1) * at.step * size;
          if (stream)
            level_of::copy_stream(to + j * bytes, row, bytes);
          else
            copy_part(to + j * bytes, row, bytes);
        }
      } else {
        with_size(x.dtype(), [&](auto kind) {
          using T = decltype(kind);
          const int64_t s0 = wa.stride[0][wa.rank - 1], s1 = wa.stride[1][wa.rank - 1];
          for (int64_t j = 0; j < n; ++j) {
            const T* f = reinterpret_cast<const T*>(from) + (p[j] - 1) * at.step;
            T* t = reinterpret_cast<T*>(to) + j * a;
            each_run(wa, 0, a, [&](const int64_t* offset, int64_t run) {
              for (int64_t i = 0; i < run; ++i) t[offset[0] + i * s0] = f[offset[1] + i * s1];
            });
          }
        });
      }
      begin += n;
    }
  });
}

template <Combine C, class T>
void put_run(T* to, int64_t s0, const T* from, int64_t s1, int64_t n) {
  if (s0 == 1 && s1 == 1) {
    if constexpr (C == Combine::Set) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
      return;
    } else if constexpr (C == Combine::Add && sizeof(T) >= 4 && !std::is_same_v<T, Truth>) {
      constexpr DType t = std::is_same_v<T, float>    ? DType::Float32
                          : std::is_same_v<T, double> ? DType::Float64
                          : sizeof(T) == 4            ? DType::Int32
                                                      : DType::Int64;
      return level_of::add_row(static_cast<int>(t), to, from, n, 1.0);
    }
  }
  for (int64_t i = 0; i < n; ++i) to[i * s0] = combined<C>(to[i * s0], from[i * s1]);
}

// x at the places combined with src, whose shape is B x I x A (its I dimensions begin at `place`).
// Positions may repeat, so only B and A are divided among threads.
void put_parts(const Tensor& x, uint32_t before, uint32_t after, const Places& at, int place,
               int index_dims, const Tensor& source, Combine how) {
  if (source.numel() == 0) return;
  Tensor src = source;
  const Tensor xb = only(x, before), xa = only(x, after);
  Tensor si = dims_between(src, place, place + index_dims);
  Walk wi = walk_of(si, si);
  if (wi.rank > 1) {
    src = packed(src);
    si = dims_between(src, place, place + index_dims);
    wi = walk_of(si, si);
  }
  const int64_t sj = si.numel() == 1 ? 0 : wi.stride[0][0];
  const Walk wb = walk_of(xb, dims_between(src, 0, place)),
             wa = walk_of(xa, dims_between(src, place + index_dims, src.rank()));
  const int64_t nb = xb.numel(), m = at.count, a = xa.numel();
  with_combine(how, x.dtype(), [&]<Combine C, class T>() {
    T* to = x.data<T>();
    const T* from = src.data<T>();
    const int64_t s0 = wa.stride[0][wa.rank - 1], s1 = wa.stride[1][wa.rank - 1];
    // Rows b of B, elements [a0, a1) of A.
    const auto part = [&](int64_t b, int64_t a0, int64_t a1) {
      int64_t base[kWalkers];
      offsets_of(wb, b, base);
      T* t = to + base[0];
      const T* f = from + base[1];
      if (a == 1) {
        for (int64_t j = 0; j < m; ++j) {
          T& place_of = t[(at.p[j] - 1) * at.step];
          place_of = combined<C>(place_of, f[j * sj]);
        }
      } else if (wa.rank == 1) {
        for (int64_t j = 0; j < m; ++j)
          put_run<C>(t + (at.p[j] - 1) * at.step + a0 * s0, s0, f + j * sj + a0 * s1, s1, a1 - a0);
      } else {
        for (int64_t j = 0; j < m; ++j)
          each_run(wa, a0, a1, [&](const int64_t* offset, int64_t run) {
            put_run<C>(t + (at.p[j] - 1) * at.step + offset[0], s0, f + j * sj + offset[1], s1,
                       run);
          });
      }
    };
    const int64_t work = m * a;
    if (nb > 1 && (work >= 16384 || nb * work >= 65536)) {
      parallel_for(
          nb, std::max<int64_t>(1, 16384 / work),
          [&](int64_t begin, int64_t end) {
            for (int64_t b = begin; b < end; ++b) part(b, 0, a);
          },
          Interrupts::Hold);
    } else if (a >= 128 && work >= 65536) {
      const int64_t pieces = std::min<int64_t>(a / 64, 2 * get_num_threads()),
                    size = (a + pieces - 1) / pieces;
      for (int64_t b = 0; b < nb; ++b)
        parallel_for(
            a, size, [&](int64_t begin, int64_t end) { part(b, begin, end); }, Interrupts::Hold);
    } else {
      for (int64_t b = 0; b < nb; ++b) part(b, 0, a);
    }
  });
}

// In place, arguments that share the changed tensor's memory are copied first.
Tensor apart(const Tensor& t, const Tensor& changed) {
  if (!t || t->storage.get() != changed->storage.get()) return t;
  Tensor copy = empty(t.shape(), t.dtype(), t.device());
  copy_raw(copy, t);
  return copy;
}

// The tensor that a kernel changes (after checking all positions): the result, with self's values
// in it; for halves that combine, in float32 until finish() stores them.
struct Changed {
  Tensor out, work;
  Changed(Call& c, Combine how) : out(c.out[0]), work(out) {
    const bool wide = how != Combine::Set && is_half(out.dtype());
    if (wide) work = empty(out.shape(), DType::Float32, out.device());
    if (wide || !c.inplace) copy_raw(work, c.tensor(0));
  }
  Tensor source(const Tensor& t) const {
    Tensor s = apart(t, out);
    if (s.dtype() == work.dtype()) return s;
    Tensor cast = empty(s.shape(), work.dtype(), s.device());
    copy_raw(cast, s);
    return cast;
  }
  void finish() {
    if (work.get() != out.get()) copy_raw(out, work);
  }
};

// The places that the index tensors of a call (one per dimension, from argument `first`) name.
Places places_of(const char* op, const Call& c, const Tensor& x, const IndexPlan& plan, int first) {
  Places at;
  at.count = product(plan.index);
  at.step = 1;
  if ((plan.dims & (plan.dims - 1)) == 0) {  // one index tensor
    for (int d = 0; d < x.rank(); ++d)
      if (plan.dims >> d & 1) {
        const Positions p = positions(op, apart(c.tensor(first + d), c.out[0]), x.size(d), d, true);
        at.hold = p.hold;
        at.p = p.p;
        at.step = x.stride(d);
      }
    return at;
  }
  Tensor sum = filled(plan.index, 1, DType::Int64);
  for (int d = 0; d < x.rank(); ++d) {
    if (!(plan.dims >> d & 1)) continue;
    const Tensor& index = c.tensor(first + d);
    const Positions p = positions(op, index, x.size(d), d, true);
    const Tensor values = alias(p.hold, index.shape(), row_major(index.shape()), p.hold->offset);
    const Walk w = walk_of(sum, values);
    const int64_t step = x.stride(d), s0 = w.stride[0][w.rank - 1], s1 = w.stride[1][w.rank - 1];
    int64_t* to = sum.data<int64_t>();
    parallel_for(at.count, 16384, [&](int64_t begin, int64_t end) {
      each_run(w, begin, end, [&](const int64_t* offset, int64_t n) {
        for (int64_t i = 0; i < n; ++i)
          to[offset[0] + i * s0] += (p.p[offset[1] + i * s1] - 1) * step;
      });
    });
  }
  at.hold = sum;
  at.p = sum.data<int64_t>();
  return at;
}

uint32_t below(int d) { return (1u << d) - 1; }

// One index along one dimension.
Places places_along(const char* op, const Call& c, const Tensor& x, int d) {
  const Positions p =
      positions(op, apart(c.tensor(2), c.out[0]), x.rank() ? x.size(d) : 1, d, false);
  return {p.hold, p.p, x.rank() ? x.stride(d) : 1, p.n};
}
// The source with an index dimension of n, also where 0-d tensors count as one element.
Tensor with_index_dim(const Tensor& src, const Tensor& x, int64_t n) {
  if (src.rank() == x.rank() && x.rank() > 0) return src;
  return alias(src, {n}, {src.rank() ? src.stride(0) : 0}, src->offset);
}
void put_along(Call& c, const Tensor& source, Combine how) {
  const int d = static_cast<int>(c.integer(1));
  const Tensor index = apart(c.tensor(2), c.out[0]);
  Changed changed(c, how);
  const Tensor& x = changed.work;
  const Positions p = positions(c.op->name, index, x.rank() ? x.size(d) : 1, d, false);
  const Places at{p.hold, p.p, x.rank() ? x.stride(d) : 1, p.n};
  const uint32_t all = below(x.rank());
  put_parts(x, all & below(d), x.rank() ? all & ~below(d + 1) : 0, at, d, 1,
            with_index_dim(changed.source(source), x, p.n), how);
  changed.finish();
}

}  // namespace

void index_at(Call& c) {
  const Tensor& x = c.tensor(0);
  const IndexPlan plan = plan_index("index", c, 1);
  if (plan.dims == 0) return copy_raw(c.out[0], x);
  const Places at = places_of("index", c, x, plan, 1);
  const uint32_t rest = below(x.rank()) & ~plan.dims, before = rest & below(plan.place);
  take_parts(x, before, rest & ~before, at, c.out[0]);
}

void index_put_at(Call& c) {
  const IndexPlan plan = plan_index("index_put", c, 3);
  const Combine how = c.flag(2) ? Combine::Add : Combine::Set;
  Changed changed(c, how);
  const Tensor& x = changed.work;
  const Tensor v = changed.source(c.tensor(1));
  Sizes stride;
  for (int d = 0; d < plan.result.n; ++d) {
    const int at = d - (plan.result.n - v.rank());
    stride.push_back(at < 0 || v.size(at) == 1 ? 0 : v.stride(at));
  }
  const Tensor source = alias(v, plan.result, stride, v->offset);
  if (plan.dims == 0) {
    if (how == Combine::Set) copy_raw(x, source);
    if (how == Combine::Add) op_<"add">(x, source);
  } else {
    const Places at = places_of("index_put", c, x, plan, 3);
    const uint32_t rest = below(x.rank()) & ~plan.dims, before = rest & below(plan.place);
    put_parts(x, before, rest & ~before, at, plan.place, plan.index.n, source, how);
  }
  changed.finish();
}

void index_select(Call& c) {
  const Tensor& x = c.tensor(0);
  const int d = static_cast<int>(c.integer(1));
  const uint32_t all = below(x.rank());
  take_parts(x, all & below(d), x.rank() ? all & ~below(d + 1) : 0,
             places_along(c.op->name, c, x, d), c.out[0]);
}

void take_rows(const Tensor& x, const Positions& at, const Tensor& out) {
  take_parts(x, 0, below(x.rank()) & ~1u, {at.hold, at.p, x.stride(0), at.n}, out);
}

void index_add(Call& c) {
  Tensor source = c.tensor(3);
  if (c.number(4) != 1) {
    Value alpha = c.arg[4];
    source = op<"mul">(source, alpha);
  }
  put_along(c, source, Combine::Add);
}

void index_copy(Call& c) { put_along(c, c.tensor(3), Combine::Set); }

void index_fill(Call& c) {
  const Tensor& x = c.out[0];
  Tensor value = empty(Sizes(), x.dtype(), x.device());
  if (c.arg[3].tag == Tag::Tensor)
    copy_raw(value, c.tensor(3));
  else
    fill_raw(value, c.arg[3]);
  Sizes shape = x.shape(), stride;
  if (shape.n) shape[static_cast<int>(c.integer(1))] = c.tensor(2).numel();
  for (int d = 0; d < shape.n; ++d) stride.push_back(0);
  put_along(c, alias(value, shape, stride, value->offset), Combine::Set);
}

BIND_KERNEL(Cpu, "index_at", index_at);
BIND_KERNEL(Cpu, "index_put_at", index_put_at);
BIND_KERNEL(Cpu, "index_select", index_select);
BIND_KERNEL(Cpu, "index_add", index_add);
BIND_KERNEL(Cpu, "index_copy", index_copy);
BIND_KERNEL(Cpu, "index_fill", index_fill);

}  // namespace tycho::cpu
