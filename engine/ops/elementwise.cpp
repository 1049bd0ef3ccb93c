// The rows of elementwise.def as ops: their gradients, the types and shapes of their results.
#include "engine/ops/elementwise.h"

#include <cstring>

#include "engine/amp/autocast.h"
#include "engine/grad/node.h"
#include "engine/grad/record.h"
#include "engine/ops/apply.h"

namespace tycho {

namespace {

// Does `name` stand alone as a word in the text of a gradient?
consteval bool mentions(const char* text, char name) {
  const auto word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (const char* p = text; *p; ++p)
    if (*p == name && (p == text || !word(p[-1])) && !word(p[1]) && p[1] != '(') return true;
  return false;
}
consteval uint8_t reads(const char* text) {
  return mentions(text, 'a') | mentions(text, 'b') << 1 | mentions(text, 'c') << 2 |
         mentions(text, 'y') << 3;
}
consteval bool is(const char* text, const char* word) {
  while (*text && *text == *word) ++text, ++word;
  return *text == *word;
}

using namespace fn;  // in this file the gradients speak of exp, log, ... of tensors

struct None {
  operator Tensor() const { return {}; }
};
[[maybe_unused]] constexpr None none;

#define GRAD(name, k, text, expression)                                            \
  [[maybe_unused]] Tensor grad_##name##_##k(const Backward& row) {                 \
    [[maybe_unused]] const Tensor g = row.g(0);                                    \
    [[maybe_unused]] const Tensor a = reads(text) & 1 ? row.operand(0) : Tensor(); \
    [[maybe_unused]] const Tensor b = reads(text) & 2 ? row.operand(1) : Tensor(); \
    [[maybe_unused]] const Tensor c = reads(text) & 4 ? row.operand(2) : Tensor(); \
    [[maybe_unused]] const Tensor y = reads(text) & 8 ? row.out(0) : Tensor();     \
    [[maybe_unused]] const auto zero = [&] { return op<"zeros_like">(g); };        \
    return expression;                                                             \
  }
#define ROW(name, operands, args, type, amp, doc, value, ga, gb, gc) \
  GRAD(name, a, #ga, ga) GRAD(name, b, #gb, gb) GRAD(name, c, #gc, gc)
#include "engine/ops/elementwise.def"

// Which operands of a row are numbers only (parameters such as a slope): by its signature.
struct RowOps {
  const Op* op[kRows];
  RowOps() {
    int k = 0;
#define ROW(name_, operands, args_, type, amp_, doc_, value, ga, gb, gc)                         \
  op[k] = &add(                                                                                  \
      {#name_, args_, doc_, RowType::type, Amp::amp_, k, !is(#ga, "none") || !is(#gb, "none")}); \
  ++k;
#include "engine/ops/elementwise.def"
  }
  struct Def {
    const char *name, *args, *doc;
    RowType type;
    Amp amp;
    int row;
    bool differentiable;
  };
  static const Op& add(const Def& d) {
    Op o{.name = d.name, .args = d.args, .doc = d.doc};
    o.amp = d.amp;
    o.row = d.row;
    o.differentiable = d.differentiable;
    o.inplace = Inplace::Direct;
    o.kernel = apply_row;
    return add_op(std::move(o));
  }
} row_ops;

}  // namespace

const RowInfo row_info[kRows] = {
#define ROW(name, operands, args, type, amp, doc, value, ga, gb, gc)                          \
  {RowType::type,                                                                             \
   operands,                                                                                  \
   {is(#ga, "none") ? nullptr : grad_##name##_a, is(#gb, "none") ? nullptr : grad_##name##_b, \
    is(#gc, "none") ? nullptr : grad_##name##_c},                                             \
   {reads(#ga), reads(#gb), reads(#gc)}},
#include "engine/ops/elementwise.def"
};

const Op& row_op(Row row) { return *row_ops.op[static_cast<int>(row)]; }

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

DType promoted(const Call& c, int n) {
  // The common case: one tensor type, and numbers that do not raise it.
  const Impl* first = nullptr;
  bool simple = true;
  for (int i = 0; i < n; ++i) {
    const Value& v = c.arg[i];
    if (v.tag == Tag::Tensor) {
      if (v.t->is_number || v.t->rank == 0 || (first && v.t->dtype != first->dtype)) simple = false;
      first = v.t;
    } else if (v.is_number()) {
      simple = simple && first && category(v.number_dtype()) <= category(first->dtype);
    }
  }
  if (simple && first) return first->dtype;
  Promotion p;
  for (int i = 0; i < n; ++i) {
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

[[noreturn]] void refuse(const Op& op, DType t, const char* what) {
  fail(Kind::DType, format("%s: takes %s, not %s", op.name, what, dtype_name(t)),
       is_floating(t) ? "" : "x:float()");
}

// A tensor operand that shares memory with the one written to, but not place for place.
bool clashes(const Impl* in, const Impl* out) {
  if (in == out || in->storage.get() != out->storage.get()) return false;
  if (in->offset != out->offset || in->rank != out->rank) return true;
  for (int i = 0; i < in->rank; ++i)
    if (in->shape[i] != out->shape[i] || (in->stride[i] != out->stride[i] && in->shape[i] != 1))
      return true;
  return false;
}

}  // namespace

void apply_row(Call& c) {
  const Op& op = *c.op;
  const RowInfo& info = row_info[op.row];
  const int n = info.operands;
  DType compute = promoted(c, n), result = compute;
  switch (info.type) {
    case RowType::Same:
      break;
    case RowType::Num:
      if (compute == DType::Bool) refuse(op, compute, "numbers");
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

  // The result's shape; when all operands with dimensions agree, also their layout.
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
  TYCHO_CHECK(Kind::Argument, first, "%s: at least one argument must be a tensor", op.name);
  Sizes shape;
  const Impl* like = first;
  if (!same) {
    shape = Sizes(first->shape, first->rank);
    for (int i = 0; i < n; ++i)
      if (c.arg[i].tag == Tag::Tensor)
        shape = broadcast(shape, Sizes(c.arg[i].t->shape, c.arg[i].t->rank));
    like = nullptr;
    for (int i = 0; i < n && !like; ++i)
      if (c.arg[i].tag == Tag::Tensor && c.arg[i].t->rank == shape.n &&
          shape == Sizes(c.arg[i].t->shape, c.arg[i].t->rank))
        like = c.arg[i].t;
  }

  if (c.inplace) [[unlikely]] {
    const Tensor& self = c.tensor(0);
    if (!same && !(shape == self.shape()))
      fail(Kind::Broadcast,
           format("%s_: the result has shape %s and does not fit into the tensor's shape %s",
                  op.name, to_string(shape).c_str(), to_string(self.shape()).c_str()));
    if (!can_cast(result, self.dtype()) && info.type != RowType::Test)
      fail(Kind::DType, format("%s_: the result is %s and cannot be stored in a tensor of %s",
                               op.name, dtype_name(result), dtype_name(self.dtype())));
    for (int i = 1; i < n; ++i)
      if (c.arg[i].tag == Tag::Tensor && clashes(c.arg[i].t, self.get())) {
        const Tensor& t = c.tensor(i);
        Tensor copy = empty(t.shape(), t.dtype(), t.device());
        copy_raw(copy, t);
        copy->requires_grad = t->requires_grad;
        copy->node = t->node;
        copy->output = t->output;
        c.set(i, std::move(copy));
      }
    c.out.push_back(self);
  } else if (like) {
    Device device = like->device;
    if (like->device.is_cpu() && n > 1)  // a 0-d CPU tensor may meet a device tensor
      for (int i = 0; i < n; ++i)
        if (c.arg[i].tag == Tag::Tensor && !c.arg[i].t->device.is_cpu())
          device = c.arg[i].t->device;
    if (device == like->device)
      c.out.push_back(empty_like(reinterpret_cast<const Tensor&>(like), result));
    else
      c.out.push_back(empty(Sizes(like->shape, like->rank), result, device));
  } else {
    Device device;
    for (int i = 0; i < n; ++i)
      if (c.arg[i].tag == Tag::Tensor && !c.arg[i].t->device.is_cpu()) device = c.arg[i].t->device;
    c.out.push_back(empty(shape, result, device));
  }
  run_row(op.row, compute, c.arg, n, c.out[0].get());
}

}  // namespace tycho
