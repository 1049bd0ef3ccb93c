// Slices and elements at positions on a device: index_select, embedding, index_put and their kin.
#include "engine/ops/index/index.h"

#include "engine/cuda/faults.h"
#include "engine/cuda/ops/index_walk.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

// --- one slice for each position of a list ---

Walk slice_walk(const Call& c, const Tensor& x, const Tensor& index, int dim, const Tensor& other) {
  Walk w(c, false);
  w.add_index(index, size_along(x, dim), stride_along(x, dim));
  const bool same = other.rank() == x.rank() && x.rank() > 0;  // 0-d ones count as one element
  for (int d = 0; d < std::max(1, x.rank()); ++d) {
    const int64_t step = same ? other.stride(d) : d == 0 && other.rank() ? other.stride(0) : 0;
    Walk::Dim& k =
        w.add(d == dim ? index.numel() : x.size(d), d == dim ? 0 : x.stride(d), step, d == dim);
    k.index[0] = d == dim;
  }
  return w;
}

void index_select(Call& c) {
  const Tensor &x = c.tensor(0), &out = c.out[0];
  slice_walk(c, x, c.tensor(2), static_cast<int>(c.integer(1)), out).take(x, out);
}

void put_slices(Call& c, const Tensor& given, Meeting how) {
  const Tensor index = apart(c.tensor(2), c.out[0]);
  const Changed changed(c, how != Meeting::Set);
  const Tensor source = changed.source(given);
  slice_walk(c, changed.work, index, static_cast<int>(c.integer(1)), source)
      .put(changed.work, source, how);
  changed.finish();
}

void index_add(Call& c) {
  const Value alpha = c.arg[4];
  put_slices(c, c.number(4) == 1 ? c.tensor(3) : op<"mul">(c.tensor(3), alpha), Meeting::Add);
}

void index_fill(Call& c) {
  const Tensor& x = c.out[0];
  const Tensor value = empty(Sizes(), x.dtype(), x.device());
  if (c.arg[3].tag == Tag::Tensor)
    copy_raw(value, c.tensor(3));
  else
    fill_raw(value, c.arg[3]);
  Sizes shape = x.shape(), stride;
  if (shape.n) shape[static_cast<int>(c.integer(1))] = c.tensor(2).numel();
  for (int d = 0; d < shape.n; ++d) stride.push_back(0);
  put_slices(c, alias(value, shape, stride, value->offset), Meeting::Set);
}

// The rows that are named, scaled to a norm of at most `most`, in place.
void shorten_rows(const Call& c, const Tensor& weight, const Tensor& ids, double most, double p) {
  const int64_t n = weight.size(0);
  const Tensor named = filled({n, 1}, 0, DType::Bool, weight.device());
  Walk w(c, false);
  w.add_index(ids, n, 1);
  w.add(ids.numel(), 0, 0, true).index[0] = 1;
  w.put(named, scalar(named, Value(true), DType::Bool), Meeting::Set);
  const DType type = meeting_type(weight.dtype());
  const Tensor norm = op<"vector_norm">(as(weight, type), p, Sizes{1}, true);
  const Tensor longer = op<"logical_and">(named, fn::gt(norm, most));
  op_<"mul">(weight, op<"where">(longer, most / (norm + 1e-7), 1.0));
}

void embedding(Call& c) {
  const Tensor &ids = c.tensor(0), &weight = c.tensor(1), &out = c.out[0];
  if (c.has(3)) shorten_rows(c, weight, ids, c.number(3), c.number(4));
  Walk w(c, false);
  w.add_index(ids, weight.size(0), weight.stride(0));
  w.add(ids.numel(), 0, weight.size(1), true).index[0] = 1;
  w.add(weight.size(1), weight.stride(1), 1, false);
  w.take(weight, out);
}

void one_hot(Call& c) {
  const Tensor x = packed(c.tensor(0));
  if (c.out.empty()) {
    Sizes shape = x.shape();
    shape.push_back(std::max<int64_t>(0, item<int64_t>(op<"max">(x))));
    c.out.push_back(empty(shape, DType::Int64, x.device()));
  }
  const Tensor& out = c.out[0];
  const int64_t n = out.size(-1);
  fill_raw(out, Value(int64_t{0}));
  Walk w(c, false);
  w.add_index(x, n, 1);
  w.add(x.numel(), n, 0, true).index[0] = 1;
  w.put(out, scalar(out, Value(int64_t{1}), DType::Int64), Meeting::Set);
}

// --- one index tensor per dimension ---

Walk plan_walk(const Call& c, const Tensor& x, const IndexPlan& plan, int first,
               const Sizes& other_stride, const Tensor& changed) {
  Walk w(c, true);
  std::vector<Sizes> strides;
  for (int d = 0; d < x.rank(); ++d) {
    if (!(plan.dims >> d & 1)) continue;
    const Tensor& given = c.tensor(first + d);
    const Tensor index = changed ? apart(given, changed) : given;
    w.add_index(index, x.size(d), x.stride(d));
    const Sizes own = row_major(index.shape());
    Sizes stride;
    for (int k = 0; k < plan.index.n; ++k) {
      const int at = k - (plan.index.n - index.rank());
      stride.push_back(at < 0 || index.size(at) == 1 ? 0 : own[at]);
    }
    strides.push_back(stride);
  }
  int rest = 0;
  for (int k = 0; k < plan.result.n; ++k) {
    const int at = k - plan.place;
    if (at >= 0 && at < plan.index.n) {
      Walk::Dim& d = w.add(plan.result[k], 0, other_stride[k], true);
      for (size_t t = 0; t < strides.size(); ++t) d.index[t] = strides[t][at];
      continue;
    }
    while (plan.dims >> rest & 1) ++rest;
    w.add(plan.result[k], x.stride(rest++), other_stride[k], false);
  }
  return w;
}

void index_at(Call& c) {
  const Tensor& x = c.tensor(0);
  const IndexPlan plan = plan_index("index", c, 1);
  if (plan.dims == 0) return copy_raw(c.out[0], x);
  plan_walk(c, x, plan, 1, c.out[0].strides(), Tensor()).take(x, c.out[0]);
}

void index_put_at(Call& c) {
  const IndexPlan plan = plan_index("index_put", c, 3);
  const Meeting how = c.flag(2) ? Meeting::Add : Meeting::Set;
  const Changed changed(c, how == Meeting::Add);
  const Tensor& x = changed.work;
  const Tensor v = changed.source(c.tensor(1));
  Sizes stride;
  for (int d = 0; d < plan.result.n; ++d) {
    const int at = d - (plan.result.n - v.rank());
    stride.push_back(at < 0 || v.size(at) == 1 ? 0 : v.stride(at));
  }
  if (plan.dims) {
    plan_walk(c, x, plan, 3, stride, c.out[0]).put(x, v, how);
  } else {
    const Tensor source = alias(v, plan.result, stride, v->offset);
    if (how == Meeting::Set)
      copy_raw(x, source);
    else
      op_<"add">(x, source);
  }
  changed.finish();
}

void wrapped_positions(Call& c) {
  const Tensor index = positions_of(c.tensor(0));
  CheckedPositions p{};
  p.data = index.data<int64_t>();
  p.out = c.out[0].data<int64_t>();
  p.numel = index.numel();
  p.limit = c.integer(1);
  p.negative = true;
  p.op = fault_number("take_along_dim");
  p.fault = fault_of(index.device());
  launch(index.device(), {"index", "check_positions"}, grid_for(index.device(), p.numel), {256}, 0,
         p);
}

BIND_KERNEL(Cuda, "index_select", index_select);
BIND_KERNEL(Cuda, "index_add", index_add);
BIND_KERNEL(Cuda, "index_copy", [](Call& c) { put_slices(c, c.tensor(3), Meeting::Set); });
BIND_KERNEL(Cuda, "index_fill", index_fill);
BIND_KERNEL(Cuda, "embedding", embedding);
BIND_KERNEL(Cuda, "one_hot", one_hot);
BIND_KERNEL(Cuda, "index_at", index_at);
BIND_KERNEL(Cuda, "index_put_at", index_put_at);
BIND_KERNEL(Cuda, "wrapped_positions", wrapped_positions);

}  // namespace
}  // namespace tycho::cuda
