// Kernels of positions along dimensions (parts.h): index, index_put, index_select, index_add,
// index_copy, index_fill.
#include "engine/cpu/index/index.h"

#include "engine/base/parallel.h"
#include "engine/cpu/index/parts.h"
#include "engine/cpu/index/positions.h"
#include "engine/ops/index/index.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {

Tensor apart(const Tensor& t, const Tensor& changed) {
  if (!t || t->storage.get() != changed->storage.get()) return t;
  Tensor copy = empty(t.shape(), t.dtype(), t.device());
  copy_raw(copy, t);
  return copy;
}

namespace {

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

// The tensor to take `count` elements from: where its rows do not lie together, in their order if the
// copy is worth it.
bool lies_in_rows(const Tensor& x) {
  int d = x.rank() - 1;
  while (d > 0 && x.size(d) == 1) --d;
  return x.contiguous() || d <= 0 || x.stride(d) == 1;
}
Tensor in_rows(const Tensor& x, int64_t count) {
  return lies_in_rows(x) || x.numel() > 2 * count ? x : packed(x);
}

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
  const Tensor x = in_rows(c.tensor(0), c.out[0].numel());
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

// One place along a dimension.
Tensor slice_at(const Tensor& x, int d, int64_t at) {
  Sizes shape = x.shape();
  shape[d] = 1;
  return alias(x, shape, x.strides(), x->offset + at * x.stride(d));
}

void index_select(Call& c) {
  constexpr int64_t kLarge = 1 << 13, kFew = 4;
  const int d = static_cast<int>(c.integer(1));
  const Tensor &lies = c.tensor(0), &out = c.out[0], &index = c.tensor(2);
  // Slices as they lie: copies know every layout. Of single elements there are few for each slice.
  const bool single = d == lies.rank() - 1 && index.numel() <= kFew;
  if ((!lies_in_rows(lies) || single) &&
      out.numel() >= kLarge * std::max<int64_t>(1, index.numel())) {
    const Positions p = positions(c.op->name, apart(index, out), lies.size(d), d, false);
    for (int64_t i = 0; i < p.n; ++i) copy_raw(slice_at(out, d, i), slice_at(lies, d, p.p[i] - 1));
    return;
  }
  const Tensor x = in_rows(lies, out.numel());
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
