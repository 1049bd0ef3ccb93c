// apply: every operation's way through cast, check, ready, shape, run, link and record, each a
// function below. In-place calls are checked before and their version counted after.
#include "engine/ops/table/apply.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "engine/amp/autocast.h"
#include "engine/base/guard.h"
#include "engine/base/interrupt.h"
#include "engine/grad/inplace.h"
#include "engine/grad/record.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply_devices.h"
#include "engine/ops/table/apply_into.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/before_change.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/graph.h"
#include "engine/tensor/read.h"

namespace tycho {

constinit thread_local Mode mode;
constinit thread_local const Op* composing = nullptr;
constinit thread_local BeforeChange before_change = nullptr;
constinit detail::Nobody detail::nobody;
constinit Observer* standing_observer = &detail::nobody;
constinit thread_local Observer* program_observer = nullptr;
constinit thread_local Wants standing_wants;
namespace {

// Does the gradient of a row's in-place call read the values that the call overwrites?
bool reads_overwritten(const Call& c) {
  const RowInfo& info = row_info[c.op->row];
  for (int i = 0; i < info.operands; ++i)
    if (c.arg[i].tag == Tag::Tensor && info.grad[i] && (info.reads[i] & 1) &&
        grad::requires_grad(c.arg[i].t))
      return true;
  return false;
}

// The general in-place form: compute a new result, store it, take over its graph. Where a graph is
// recorded, the op sees a copy: it may keep its input for the gradient, and the tensor itself is
// about to change (and would hold itself through its own node).
void apply_and_store(Call& c) {
  const Tensor self = c.tensor(0);
  bool recorded = false;
  if (mode.grad && c.op->differentiable)
    each_tensor(c, [&](Impl* t, int) { recorded = recorded || grad::requires_grad(t); });
  if (recorded) c.set(0, op<"clone">(self));
  c.inplace = false;
  apply(c);
  c.inplace = true;
  const Tensor result = c.out[0];
  const std::string name = public_name(*c.op);
  if (!(result.shape() == self.shape()))
    fail(Kind::Broadcast,
         format("%s_: the result has shape %s and does not fit into the tensor's shape %s",
                name.c_str(), to_string(result.shape()).c_str(), to_string(self.shape()).c_str()));
  if (!can_cast(result.dtype(), self.dtype()))
    fail(Kind::DType, format("%s_: the result is %s and cannot be stored in a tensor of %s",
                             name.c_str(), dtype_name(result.dtype()), dtype_name(self.dtype())));
  copy_raw(self, result);
  grad::count_change(self, c.op->name);
  if (mode.grad && result->requires_grad) grad::take_over(self, result);
  c.out[0] = self;
}

// Whom the observer of a call left in `mode` to see the operations inside, when the call turns out
// to be a composition.
constinit thread_local Observer* inside = nullptr;

// The outermost operation, under the eyes of the observer.
void apply_observed(Call& c) {
  struct Pause {
    Observer* observer = std::exchange(mode.observer, nullptr);
    ~Pause() {
      mode.observer = observer;
      inside = nullptr;
    }
  } pause;
  std::optional<Eager> eager;
  if (!pause.observer->lets_hold()) {
    eager.emplace();
    run_held_rows();
  }
  pause.observer->before(c);
  inside = std::exchange(mode.observer, nullptr);
  const auto began = std::chrono::steady_clock::now();
  apply(c);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  pause.observer->after(c, took.count());
}

// In no_grad: do the results lose a graph here? Kernels and sweeps, which also run without
// recording, lose none of the user's.
void trace_without_graph(Call& c) {
  if (mode.sweeping) return;
  bool any = false;
  each_tensor(c, [&](const Impl* t, int) { any = any || t->requires_grad || t->trace; });
  if (any) standing_observer->unrecorded(c);
}

// x:transpose_(1, 2): the tensor itself becomes the view of itself.
void apply_view_to_itself(Call& c) {
  const Tensor self = c.tensor(0);
  if (mode.grad && self->requires_grad && !self->node)
    fail(Kind::Autograd,
         format("%s_: would change a leaf that requires grad", public_name(*c.op).c_str()),
         format("x = x:%s(...)", public_name(*c.op).c_str()));
  c.inplace = false;
  apply(c);
  c.inplace = true;
  const Tensor view = c.out[0];
  grad::count_change(self, c.op->name);  // a saved tensor must keep its shape
  Impl* s = self.get();
  s->rank = view->rank;
  s->contiguous = view->contiguous;
  s->offset = view->offset;
  for (int d = 0; d < view.rank(); ++d) {
    s->shape[d] = view->shape[d];
    s->stride[d] = view->stride[d];
  }
  if (view->node) grad::follow(self, view);
  c.out[0] = self;
}

// Autocast has had its say: what a kernel, or a composition of class F32, calls inside keeps its
// type.
struct Decided {
  bool before = mode.autocast;
  explicit Decided(bool decided) {
    if (decided) mode.autocast = false;
  }
  ~Decided() { mode.autocast = before; }
  Decided(const Decided&) = delete;
};

[[noreturn]] void fail_without_values(const char* op) {
  fail(Kind::Value, format("%s: the shape of its result depends on the values", op));
}

void check_shapes_only(const Call& c) {
  if (c.inplace && c.tensor(0) && !has_no_values(*c.tensor(0)->storage))
    fail(Kind::Argument, format("%s_: would change a tensor while only shapes are computed",
                                public_name(*c.op).c_str()));
}

// --- The steps of a call ---

inline bool is_cast(const Call& c) {
  static const Op& cast = get_op("to.dtype");
  return c.op == &cast;
}

// May the call, a row in place, be held back behind what its tensor waits for? Nothing is read then that
// it would change.
bool may_follow_held(const Call& c) {
  if (!rows_held || c.op->row < 0 || c.arg[0].tag != Tag::Tensor) return false;
  const Storage& s = *c.arg[0].t->storage;
  return deferral->holds(s) && !s.read_again && !before_change &&
         !(mode.grad && reads_overwritten(c));
}

// Waits for inputs whose values are still on their way (Storage::in_flight), but that rows which are
// held back may be joined by another one, a cast, or what is composed of them. A call that changes an
// input changes nothing that is yet to be read.
// True when they stand for one example of many, whose values nobody waits for (batch.h).
[[gnu::noinline]] bool wait_for_inputs(const Call& c) {
  if (has_batches(c)) return true;
  if ((c.inplace && !may_follow_held(c)) || !c.op->written_inputs.empty()) run_held_rows();
  // Of a composition the operations inside wait.
  const bool composed = c.op->compose && !c.op->kernel_on(backend_of(c));
  const bool joins = c.op->row >= 0 || is_cast(c) || composed,
             ends = rows_held && deferral->ends(*c.op);
  each_tensor(c, [&](Impl* t, int) {
    const bool takes = joins || (ends && t->device.is_cpu());
    if (!takes || !rows_held || !deferral->holds(*t->storage)) tycho::ready(*t->storage);
  });
  return false;
}
inline bool ready(const Call& c) {
  if (storages_in_flight.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return !wait_for_inputs(c);
  return true;
}

// In-place calls that become another one: true when everything is done.
[[gnu::noinline]] bool apply_otherwise_in_place(Call& c) {
  const Op& op = *c.op;
  if (op.view) {
    about_to_change(c.tensor(0), op.name, true);
    apply_view_to_itself(c);
    return true;
  }
  grad::check_inplace(c);
  if (may_follow_held(c)) return false;
  about_to_change(c.tensor(0), op.name);
  if (op.inplace != Inplace::Copy && (op.row < 0 || !mode.grad || !reads_overwritten(c)))
    return false;
  apply_and_store(c);
  return true;
}

void compose(Call& c) {
  if (inside) [[unlikely]]
    mode.observer = std::exchange(inside, nullptr);
  const Decided decided(c.op->amp == Amp::F32);
  const struct Outermost {
    const Op* before = composing;
    explicit Outermost(const Op* op) { composing = before ? before : op; }
    ~Outermost() { composing = before; }
  } outermost(c.op);
  c.op->compose(c);
}

// Makes the results and fills them, by the kernel or, when there is none, as views of inputs.
void shape_and_run(Call& c, Kernel kernel) {
  const Op& op = *c.op;
  op.shape(c);
  std::optional<HoldInterrupts> whole;  // what somebody else has is not left half-written
  if (c.into && kernel && take_place(c)) [[unlikely]]
    whole.emplace();
  if (kernel && !shapes_only) {
    NoGrad quiet;
    const Eager eager;
    const Decided decided(true);
    if (guard::watching) [[unlikely]]
      guard::note(op.name);
    const bool taken = taken_by_graph(c, kernel);
    // Copies open the devices themselves: those that come later do not.
    const KernelScope scope(op.any_device || taken ? 0 : devices_of(c));
    for (int i : op.written_inputs)
      for (int k = 0; k < c.count(i); ++k) about_to_change(c.tensor(i, k), op.name);
    if (rows_held || devices_in_use()) [[unlikely]]
      rows_may_end = !eager.before;
    const bool streams = devices_in_use() && !op.any_device;
    if (streams) [[unlikely]]
      use_on_streams(c);
    const int made = c.out.size();
    if (!taken) kernel(c);
    if (streams && c.out.size() > made) [[unlikely]]  // results that the kernel has made itself
      use_on_streams(c);
    for (int i : op.written_inputs)
      for (int k = 0; k < c.count(i); ++k) ++c.tensor(i, k)->storage->version;
  } else if (const Kernel cpu = op.kernel[static_cast<int>(BackendKind::Cpu)];
             !kernel && cpu && !shapes_only) {
    NoGrad quiet;
    const Eager eager;
    const Decided decided(true);
    run_on_cpu(c, cpu);
    for (int i : op.written_inputs)
      for (int k = 0; k < c.count(i); ++k) ++c.tensor(i, k)->storage->version;
  }
  if (whole) grad::count_change(c.out[0], op.name);
  if (shapes_only && op.size_from_values && c.out.empty())
    fail_without_values(public_name(op).c_str());
}

// A cast of a large tensor between floating types is a row that changes nothing but the type, and may
// be held back like one.
[[gnu::noinline]] bool defer_cast(Call& c) {
  const Tensor& x = c.tensor(0);
  const DType from = x.dtype(), to = c.arg[1].dtype;
  if (!may_be_deferred(x.numel(), x.device()) || c.has(3) || from == to ||
      !(is_floating(from) || from == DType::Bool) || !is_floating(to))
    return false;
  const bool wide = from == DType::Float64 || to == DType::Float64;
  Tensor out = deferral->take(static_cast<int>(Row::identity),
                              wide ? DType::Float64 : DType::Float32, to, c.arg, 1, x.get());
  if (!out) return false;
  c.out.push_back(std::move(out));
  return true;
}

// What follows a result that shares memory with an argument, or is one number.
inline void link(Call& c) {
  if (c.inplace) [[unlikely]]
    grad::count_change(c.out[0], c.op->name);
  if (c.op->view) grad::link_views(c);
  if (standing_wants.numbers && c.out.size() == 1 && c.out[0]->numel == 1) [[unlikely]]
    standing_observer->made_number(c);
}

// The graph of the results, or a trace of where it ends.
inline void record(Call& c) {
  if (!mode.grad) {
    if (mode.inference)
      for (Tensor& t : c.out) t->is_inference = true;
    return trace_without_graph(c);
  }
  bool any = false;
  uint32_t traces = 0;
  each_tensor(c, [&](Impl* t, int) {
    any |= grad::requires_grad(t);
    traces |= t->trace;
  });
  if (any && c.op->differentiable)
    grad::record(c);
  else if (any || traces) [[unlikely]]
    standing_observer->unrecorded(c);
}

// A call of one example: computed for all of them, and recorded as it was called.
[[gnu::noinline]] void apply_to_batch(Call& c) {
  const Op& op = *c.op;
  if (c.inplace && op.inplace != Inplace::Only) {
    grad::check_inplace(c);
    const Tensor self = c.tensor(0);
    c.inplace = false;
    apply(c);
    c.inplace = true;
    const Tensor result = c.out[0];
    store_in_batch(c, result);
    grad::count_change(self, op.name);
    if (mode.grad && result->requires_grad) grad::take_over(self, result);
    c.out[0] = self;
    return;
  }
  if (op.row < 0 && !op.kernel_on(backend_of(c)) && op.compose) return compose(c);
  if (c.inplace) grad::check_inplace(c);
  {
    const Decided decided(true);
    run_batched(c);
  }
  if (c.inplace) grad::count_change(c.out[0], op.name);
  record(c);
}

}  // namespace

void apply(Call& c) {
  if (interrupt_pending()) [[unlikely]]
    check_interrupt();
  if (mode.observer) [[unlikely]]
    return apply_observed(c);
  if (shapes_only) [[unlikely]]
    check_shapes_only(c);
  if (mode.autocast) [[unlikely]]
    amp::cast(c);
  if (devices_in_use()) [[unlikely]] {
    check_devices(c);
    if (capturing) keep_for_graph(c);
  }
  if (!ready(c)) [[unlikely]]
    return apply_to_batch(c);
  if (c.inplace && apply_otherwise_in_place(c)) return;
  if (c.op->row >= 0) {
    apply_row(c);
    if (c.inplace) link(c);
    return record(c);
  }
  if (is_cast(c) && defer_cast(c)) return record(c);
  if (c.op->view) straighten(c.tensor(0));
  const Kernel kernel = c.op->kernel_on(backend_of(c));
  if (!kernel && c.op->compose) return compose(c);
  shape_and_run(c, kernel);
  link(c);
  record(c);
}

void need_values(const char* op, const Tensor& t) {
  if (!has_values(t)) fail_without_values(op);
}

Tensor stand_in(const Tensor& t) {
  const ShapesOnly scope;
  if (t->inner) return empty_like(t);
  int64_t last = 0;
  for (int d = 0; d < t.rank(); ++d) last += (t.size(d) - 1) * t.stride(d);
  const Tensor flat = empty({t.numel() ? last + 1 : 0}, t.dtype(), t.device());
  const Tensor out = alias(flat, t.shape(), t.strides(), 0);
  out->is_number = t->is_number;
  return out;
}

void straighten_inner(const Tensor& t) {
  ready(*t->storage);
  // A tensor without values gets none; values are copied even while only shapes are computed.
  struct Scope {
    bool before;
    ~Scope() { shapes_only = before; }
  } scope{std::exchange(shapes_only, has_no_values(*t->storage))};
  const Tensor straight = empty(t.shape(), t.dtype(), t.device());
  copy_raw(straight, t);
  move_inner(t, straight);
}

}  // namespace tycho
