// Saved tensors that are computed again (see again.h).
#include "engine/grad/again.h"

#include <algorithm>
#include <utility>

#include "engine/grad/record.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/before_change.h"

namespace tycho::grad {
namespace {

constexpr int kMostInARow = 4;     // calls that one value may need
constexpr int64_t kSmallPart = 8;  // of a result: so much smaller inputs may be kept for it

constinit thread_local Again* all = nullptr;

Node* maker(const Impl* t) { return static_cast<Node*>(t->node.get()); }

// The call that gives t's values as they are now.
Again* call_of(const Impl* t) {
  if (!t->node || t->output != 0 || t->base || t->inner) return nullptr;
  Again* a = maker(t)->again.get();
  const bool same = a && a->made == t->storage.get() && a->version == t->storage->version;
  return same && a->fresh() ? a : nullptr;
}

bool makers_own_result(const Impl* t) {
  const Node* n = maker(t);
  return n && n->op && n->op->row >= 0 && (n->kept & kReadsResult) && !t->base;
}

bool saved_by(const Node& node, const Call& c, int arg) {
  if (c.op->row >= 0) return node.kept >> arg & 1;
  for (const int i : c.op->saved_inputs)
    if (i == arg) return true;
  return false;
}

struct Recomputed final : Packed {
  Ref<Again> again;
  Tensor unpack() override {
    constexpr uint32_t kOwners = 2;  // this one, and the node that made it
    Tensor t = again->get();
    if (again->count > kOwners) again->value = t;  // others want it soon
    return t;
  }
  const Impl* kept() const override { return again->value.get(); }
  void free_packed() override { delete this; }
};

}  // namespace

Again::~Again() {
  if (listed) {
    (before ? before->next : all) = next;
    if (next) next->before = before;
  }
  SavedArgs::drop(args);
}

void Again::list() {
  if (std::exchange(listed, true)) return;
  next = all;
  if (next) next->before = this;
  all = this;
}

bool Again::fresh() const {
  for (int i = 0; i < args->n; ++i)
    if (from[i] ? !from[i]->fresh() : inputs[i] && inputs[i]->storage->version != versions[i])
      return false;
  return true;
}

bool Again::reads(const Storage& s) const {
  for (int i = 0; i < args->n; ++i)
    if (from[i] ? from[i]->reads(s) : inputs[i] && inputs[i]->storage.get() == &s) return true;
  return false;
}

Tensor Again::get() {
  if (value) return value;
  TYCHO_CHECK(Kind::Autograd, fresh(), "backward: what %s has read was changed by another thread",
              op->name);
  struct Quiet {  // not the user's call
    NoGrad no_grad;
    bool sweeping = mode.sweeping, autocast = mode.autocast;
    Quiet() { mode.sweeping = true, mode.autocast = false; }
    ~Quiet() { mode.sweeping = sweeping, mode.autocast = autocast; }
  } quiet;
  Call c(*op);
  c.n = args->n;
  for (int i = 0; i < c.n; ++i) {
    c.arg[i] = args->arg[i];
    if (from[i])
      c.set(i, from[i]->get());
    else if (inputs[i])
      c.arg[i] = Value(inputs[i]);
  }
  apply(c);
  c.out[0]->storage->version = version;
  return c.out[0];
}

void remember_call(Node& node, const Call& c) {
  const Tensor& out = c.out[0];
  if (!may_be_deferred(out.numel(), out.device()) || !out.device().is_cpu() || c.inplace ||
      save_hooks || shapes_only || out->inner || out->base || (node.kept & kReadsResult) ||
      (c.op->row < 0 && !c.op->again) || has_batches(c))
    return;
  const auto again_from = [&](int i) -> Again* {
    return c.op->row >= 0 && saved_by(node, c, i) ? nullptr : call_of(c.arg[i].t);
  };
  int depth = 1;
  for (int i = 0; i < c.n; ++i) {
    if (c.arg[i].tag == Tag::Tensors || c.arg[i].tag == Tag::Generator) return;
    if (c.arg[i].tag != Tag::Tensor) continue;
    const Impl* t = c.arg[i].t;
    if (t->storage->free_data || t->inner || t->storage == out->storage) return;
    if (const Again* a = again_from(i))
      depth = std::max(depth, a->depth + 1);
    else if (!saved_by(node, c, i) && t->numel > out.numel() / kSmallPart && !makers_own_result(t))
      return;
  }
  if (depth > kMostInARow) return;
  Ref<Again> again(new Again);
  again->op = c.op;
  again->depth = depth;
  again->args = SavedArgs::make();
  again->args->n = c.n;
  again->inputs.resize(c.n);
  again->from.resize(c.n);
  again->versions.resize(c.n);
  for (int i = 0; i < c.n; ++i) {
    Value& kept = again->args->arg[i];
    kept = c.arg[i];
    if (kept.tag == Tag::Ints || kept.tag == Tag::String) again->args->keep(kept);
    if (kept.tag != Tag::Tensor) continue;
    kept = Value();
    Impl* t = c.arg[i].t;
    t->storage->read_again = true;
    if (Again* a = again_from(i)) {
      again->from[i] = Ref<Again>(a);
      continue;
    }
    again->inputs[i] = alias(Tensor(t));
    again->versions[i] = t->storage->version;
  }
  again->made = out->storage.get();
  again->version = out->storage->version;
  node.again = std::move(again);
}

bool save_again(Saved& s, Impl* t) {
  Again* const a = call_of(t);
  if (!a) return false;
  if (!a->value) a->value = alias(Tensor(t));
  a->list();
  Recomputed* r = new Recomputed;
  s.packed = Ref<Packed>(r);
  r->again = Ref<Again>(a);
  r->edge = edge_of(t);
  s.tensor = Ref<Impl>();
  return true;
}

void keep_before_change(const Storage& s) {
  // Who runs out of memory meanwhile collects, and graphs go.
  for (Ref<Again> a(all); a; a = Ref<Again>(a->next))
    if (!a->value && a->reads(s)) a->value = a->get();
}

void let_go_unseen() {
  for (Again* a = all; a; a = a->next) {
    if (!a->value) continue;
    const Storage& s = *a->value->storage;
    if (s.count.load() == 1 && s.version == a->version && !s.in_flight && a->fresh())
      a->value = Tensor();
  }
}

}  // namespace tycho::grad
