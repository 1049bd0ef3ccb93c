// Applying a row: the types and shapes of its result, in place or fresh, then the executor.
#include "engine/ops/elementwise/elementwise.h"

#include "engine/grad/inplace.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/before_change.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/defer.h"

namespace tycho {

Tensor call_row(Row row, const Operand* operands, int n) {
  const Op& op = row_op(row);
  Call c(op);
  for (int i = 0; i < n; ++i) c.arg[i] = operands[i].v;
  c.n = n;
  fill_defaults(c);
  apply(c);
  return std::move(c.out[0]);
}

namespace {

DType promote_all(const Call& c, int n, unsigned apart) {
  Promotion p;
  for (int i = 0; i < n; ++i) {
    if (apart >> i & 1) continue;
    const Value& v = c.arg[i];
    if (v.tag == Tag::Tensor && v.t->is_number)
      p.add_number(is_floating(v.t->dtype) ? default_dtype() : v.t->dtype);
    else if (v.tag == Tag::Tensor)
      p.add(v.t->dtype, v.t->rank > 0);
    else if (v.is_number())
      p.add_number(v.number_dtype());
  }
  return p.result();
}

// The type that the operands promote to; those in `apart` do not count.
inline DType promoted(const Call& c, int n, unsigned apart) {
  // The common case: one tensor type, and numbers that do not raise it.
  const Impl* first = nullptr;
  for (int i = 0; i < n; ++i) {
    if (apart >> i & 1) continue;
    const Value& v = c.arg[i];
    if (v.tag == Tag::Tensor) {
      if (v.t->rank == 0 || (first && v.t->dtype != first->dtype)) return promote_all(c, n, apart);
      first = v.t;
    }
  }
  if (!first) return promote_all(c, n, apart);
  for (int i = 0; i < n; ++i)
    if (c.arg[i].is_number() && !(apart >> i & 1) &&
        category(c.arg[i].number_dtype()) > category(first->dtype))
      return promote_all(c, n, apart);
  return first->dtype;
}

[[noreturn, gnu::noinline]] void refuse(const Op& op, DType t, const char* what) {
  const std::string_view name = op.name;
  fail(Kind::DType,
       format("%s: takes %s, not %s", std::string(name.substr(0, name.find('.'))).c_str(), what,
              dtype_name(t)),
       is_floating(t) ? "" : "x:float()");
}

// A tensor operand that shares memory with the one written to, but not place for place.
bool clashes(const Impl* in, const Impl* out) {
  if (in == out || in->storage.get() != out->storage.get()) return false;
  if (in->offset != out->offset || in->rank != out->rank ||
      dtype_size(in->dtype) != dtype_size(out->dtype))
    return true;
  for (int i = 0; i < in->rank; ++i)
    if (in->shape[i] != out->shape[i] || (in->stride[i] != out->stride[i] && in->shape[i] != 1))
      return true;
  return false;
}

// The row's result is the call's first argument: does it fit there?
[[gnu::noinline]] void check_place(Call& c, const RowInfo& info, DType result, const Sizes& shape) {
  const Tensor& self = c.tensor(0);
  const std::string_view full = c.op->name;
  const std::string name(full.substr(0, full.find('.')));
  TYCHO_CHECK(Kind::Argument, info.inplace && self, "%s has no in-place form", name.c_str());
  if (!(shape == self.shape()))
    fail(Kind::Broadcast,
         format("%s_: the result has shape %s and does not fit into the tensor's shape %s",
                name.c_str(), to_string(shape).c_str(), to_string(self.shape()).c_str()));
  if (!can_cast(result, self.dtype()))
    fail(Kind::DType, format("%s_: the result is %s and cannot be stored in a tensor of %s",
                             name.c_str(), dtype_name(result), dtype_name(self.dtype())));
  for (int i = 1; i < info.operands; ++i)
    if (c.arg[i].tag == Tag::Tensor && clashes(c.arg[i].t, self.get())) {
      const Tensor& t = c.tensor(i);
      Tensor copy = empty(t.shape(), t.dtype(), t.device());
      copy_raw(copy, t);
      copy->requires_grad = t->requires_grad;
      copy->node = t->node;
      copy->output = t->output;
      c.set(i, std::move(copy));
    }
}

// A 0-d CPU tensor may meet tensors of a device: the result is there.
inline Device result_device(const Call& c, int n, const Impl* like) {
  Device device = like->device;
  if (device.is_cpu() && n > 1) {
    for (int i = 0; i < n; ++i)
      if (c.arg[i].tag == Tag::Tensor && !c.arg[i].t->device.is_cpu()) device = c.arg[i].t->device;
  }
  return device;
}

// The result's type where the operands have the lane type `t`; false when it is none.
inline bool lane_result(RowType row, DType t, DType* result) {
  *result = row == RowType::Test ? DType::Bool : t;
  if (t == DType::Float32 || t == DType::Float64) return row < RowType::Bits;
  return t == DType::Int64 && row != RowType::Float && row != RowType::Real;
}

// `compute` is the promoted type; values are converted on load and store.
void run_row(int row, DType compute, const Value* args, int n, Impl* out) {
  if (out->numel == 0 || shapes_only) return;
  backend_of(out->device).run_row(row, compute, args, n, out);
}

// The commonest call, with nothing around it: a few elements of one lane type, laid out alike, and
// numbers that do not change the type. False when the call is another one.
[[gnu::noinline]] bool apply_small(Call& c, const RowInfo& info) {
  constexpr int64_t kFew = 64;
  const Impl* first = c.arg[0].tag == Tag::Tensor ? c.arg[0].t : c.arg[1].t;
  if (c.arg[0].tag != Tag::Tensor && (info.operands < 2 || c.arg[1].tag != Tag::Tensor))
    return false;
  const int64_t numel = first->numel;
  DType result;
  if (numel > kFew || numel >= deferred_from.load(std::memory_order_relaxed) || first->rank == 0 ||
      !first->contiguous || c.inplace || c.into || !first->device.is_cpu() ||
      !lane_result(info.type, first->dtype, &result))
    return false;
  double numbers[kOperands][kFew];
  void* p[kOperands + 1];
  for (int i = 0; i < info.operands; ++i) {
    const Value& v = c.arg[i];
    if (v.tag == Tag::Tensor) {
      const Impl* t = v.t;
      if (t->dtype != first->dtype || t->rank != first->rank || !t->contiguous ||
          t->device != first->device)
        return false;
      for (int d = 0; d < t->rank; ++d)
        if (t->shape[d] != first->shape[d]) return false;
      p[i + 1] = t->host();
      continue;
    }
    p[i + 1] = numbers[i];
    if (!v.is_number() || category(v.number_dtype()) > category(first->dtype)) return false;
    if (first->dtype == DType::Float32) {
      auto* to = static_cast<float*>(p[i + 1]);
      for (int64_t k = 0; k < numel; ++k) to[k] = static_cast<float>(v.number());
    } else if (first->dtype == DType::Float64) {
      auto* to = static_cast<double*>(p[i + 1]);
      for (int64_t k = 0; k < numel; ++k) to[k] = v.number();
    } else {
      auto* to = static_cast<int64_t*>(p[i + 1]);
      for (int64_t k = 0; k < numel; ++k) to[k] = v.tag == Tag::Bool ? v.b : v.i;
    }
  }
  if (info.check) info.check(c, first->dtype);
  c.out.push_back(empty_like(reinterpret_cast<const Tensor&>(first), result));
  p[0] = c.out[0].host();
  int row = c.op->row;
  if (info.stand_in) {
    const Row other = info.stand_in(c, first->dtype);
    if (other != Row::Count) row = static_cast<int>(other);
  }
  backend_of(Device{}).run_few(row, first->dtype, p, numel);
  return true;
}

inline bool repeats(const Impl* t) {
  if (t->contiguous) return false;
  for (int d = 0; d < t->rank; ++d)
    if (t->stride[d] == 0 && t->shape[d] > 1) return true;
  return false;
}

// Is the row held back, to be run together with others?
inline bool defer(Call& c, int row, int operands, DType compute, DType result, const Impl* like) {
  if (!may_be_deferred(like->numel, like->device)) return false;
  Tensor out = deferral->take(row, compute, result, c.arg, operands, like);
  if (!out) return false;
  c.out.push_back(std::move(out));
  return true;
}

// Is the row held back that changes what is held (apply let it come here so)? Otherwise nothing is held
// any more.
[[gnu::noinline]] bool follow_held(Call& c, int row, int operands, DType compute, DType result) {
  const Tensor& self = c.tensor(0);
  if (result == self.dtype() && deferral->take_in_place(row, compute, c.arg, operands, self))
    return true;
  about_to_change(self, c.op->name);
  return false;
}

// The same where no operand has the result's shape, as a column and a row.
[[gnu::noinline]] bool defer_stretched(Call& c, int row, int operands, DType compute, DType result,
                                       const Sizes& shape, Device device) {
  if (!may_be_deferred(product(shape), device)) return false;
  for (int i = 0; i < operands; ++i)
    if (c.arg[i].tag == Tag::Tensor && c.arg[i].t->device == device)  // only its shape is read
      return defer(c, row, operands, compute, result,
                   alias(c.tensor(i), shape, row_major(shape), 0).get());
  return false;
}

// A call whose result is wanted in a tensor that is there (apply_into.h). False when it does not fit:
// the result is then made as always, and who wants it there says what is wrong.
[[gnu::noinline]] bool run_into(Call& c, int row, int operands, DType compute, DType result) {
  const Tensor to(c.into);
  const Impl* first = nullptr;
  Sizes shape;
  for (int i = 0; i < operands; ++i) {
    if (c.arg[i].tag != Tag::Tensor) continue;
    const Impl* t = c.arg[i].t;
    if (!first) first = t;
    shape = broadcast(shape, Sizes(t->shape, t->rank));
    if (clashes(t, to.get())) return false;
  }
  if (!first || !(shape == to.shape()) || to.dtype() != result ||
      to.device() != result_device(c, operands, first))
    return false;
  about_to_change(to, c.op->name);
  run_row(row, compute, c.arg, operands, to.get());
  grad::count_change(to, c.op->name);
  c.out.push_back(to);
  return true;
}

}  // namespace

void apply_row(Call& c) {
  const Op& op = *c.op;
  const RowInfo& info = row_info[op.row];
  if (apply_small(c, info)) return;
  const int n = info.operands;
  DType compute = promoted(c, n, info.apart), result = compute;
  switch (info.type) {
    case RowType::Same:
      break;
    case RowType::Num:
      if (compute == DType::Bool) refuse(op, compute, "numbers");
      break;
    case RowType::Counts:
      if (compute == DType::Bool) compute = result = DType::Int64;
      break;
    case RowType::Float:
      if (!is_floating(compute)) compute = result = default_dtype();
      break;
    case RowType::Real:
      if (!is_floating(compute)) refuse(op, compute, "floating point numbers");
      break;
    case RowType::Test:
      result = DType::Bool;
      break;
    case RowType::Bits:
      if (is_floating(compute)) refuse(op, compute, "integers and bool");
      break;
    case RowType::Ints:
      if (!is_integral(compute)) refuse(op, compute, "integers");
      break;
  }

  // When all tensors have one shape and lie row by row, the result is laid out as the first.
  const Impl* first = nullptr;
  bool same = true;
  for (int i = 0; i < n; ++i) {
    if (c.arg[i].tag != Tag::Tensor) continue;
    const Impl* t = c.arg[i].t;
    if (!first) {
      first = t;
      continue;
    }
    same = same && t->rank == first->rank && t->contiguous && first->contiguous;
    for (int d = 0; same && d < t->rank; ++d) same = t->shape[d] == first->shape[d];
  }
  if (info.check) info.check(c, compute);
  int row = op.row, operands = n;
  if (info.stand_in) {
    const Row other = info.stand_in(c, compute);
    if (other != Row::Count) {
      row = static_cast<int>(other);
      operands = row_info[row].operands;
    }
  }

  if (c.into && run_into(c, row, operands, compute, result)) [[unlikely]]
    return;
  if (!first) [[unlikely]] {  // numbers only: torch.add(2, 3)
    TYCHO_CHECK(Kind::Argument, !c.inplace, "%s_ changes a tensor, not a number", op.name);
    c.out.push_back(empty(Sizes(), result));
  } else if (same && !c.inplace) [[likely]] {
    const Device device = result_device(c, n, first);
    if (defer(c, row, operands, compute, result, first)) return;
    if (device == first->device)
      c.out.push_back(empty_like(reinterpret_cast<const Tensor&>(first), result));
    else
      c.out.push_back(empty(Sizes(first->shape, first->rank), result, device));
  } else {
    Sizes shape(first->shape, first->rank);
    for (int i = 0; i < n && !same; ++i)
      if (c.arg[i].tag == Tag::Tensor)
        shape = broadcast(shape, Sizes(c.arg[i].t->shape, c.arg[i].t->rank));
    if (c.inplace) {
      check_place(c, info, info.type == RowType::Test ? DType::Bool : result, shape);
      c.out.push_back(c.tensor(0));
      if (rows_held && follow_held(c, row, operands, compute, result)) return;
    } else {
      // Laid out as the first tensor that has the whole shape, and if one does each element once.
      const Impl* like = nullptr;
      for (int i = 0; i < n; ++i)
        if (c.arg[i].tag == Tag::Tensor && Sizes(c.arg[i].t->shape, c.arg[i].t->rank) == shape &&
            (!like || (repeats(like) && !repeats(c.arg[i].t))))
          like = c.arg[i].t;
      const Device device = result_device(c, n, like ? like : first);
      if (like && defer(c, row, operands, compute, result, like)) return;
      if (!like && shape.n > 1 && defer_stretched(c, row, operands, compute, result, shape, device))
        return standing_observer->stretched(c);
      if (like && device == like->device) {
        c.out.push_back(empty_like(reinterpret_cast<const Tensor&>(like), result));
        // One element of a matrix: a range of its rows may have been meant.
        if (n == 2 && c.arg[0].tag == Tag::Tensor && c.arg[1].tag == Tag::Tensor) {
          const Impl* other = like == c.arg[0].t ? c.arg[1].t : c.arg[0].t;
          if (other->rank == 0 && other->base && like->rank == 2)
            standing_observer->compared(op.name, c.tensor(0), c.tensor(1));
        }
      } else {
        c.out.push_back(empty(shape, result, device));
        if (!like && shape.n > 1) standing_observer->stretched(c);
      }
    }
  }

  Impl* out = c.out[0].get();
  if (info.type == RowType::Test && out->dtype != DType::Bool) [[unlikely]] {  // gt_ of floats
    const Tensor truth = empty(c.out[0].shape(), DType::Bool, c.out[0].device());
    run_row(row, compute, c.arg, operands, truth.get());
    copy_raw(c.out[0], truth);
    return;
  }
  run_row(row, compute, c.arg, operands, out);
}

}  // namespace tycho
