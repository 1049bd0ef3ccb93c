// Nodes: making, freeing without recursion, and what gradients read from them.
#include "engine/grad/node.h"

#include <cstring>

#include "engine/base/pool.h"
#include "engine/grad/passes.h"
#include "engine/grad/record.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"

namespace tycho {

constinit thread_local SaveHooks* save_hooks = nullptr;
constinit thread_local bool any_unpacked = false;

namespace {

thread_local uint64_t next_id = 1;

// Nodes whose last reference is gone; drained by the outermost free_node, so that a chain of a
// million nodes needs no deep stack.
thread_local SmallVec<Node*, 16> doomed;
thread_local bool draining = false;

}  // namespace

Node* new_node(const Op* op) {
  Node* n = new (FreeList<Node>::take()) Node;
  n->op = op;
  n->id = next_id++;
  if (current_where) n->where = current_where();
  return n;
}

SavedArgs* SavedArgs::make() { return new (FreeList<SavedArgs>::take()) SavedArgs; }

void SavedArgs::drop(SavedArgs* args) {
  args->~SavedArgs();
  FreeList<SavedArgs>::give(args);
}

void* SavedArgs::room(size_t bytes) {
  return long_ones_.emplace_back(std::make_unique<char[]>(bytes)).get();
}

void SavedArgs::keep(Value& v) {
  if (v.tag == Tag::Ints) {
    const int n = static_cast<int>(v.n);
    int64_t* to = ints_ + ints_used_;
    if (ints_used_ + n > 16)
      to = static_cast<int64_t*>(room(sizeof(int64_t) * v.n));
    else
      ints_used_ += n;
    for (int i = 0; i < n; ++i) to[i] = v.ints[i];
    v.ints = to;
  } else if (v.tag == Tag::String) {
    const int n = static_cast<int>(std::strlen(v.s)) + 1;
    char* to = text_ + text_used_;
    if (text_used_ + n > 32)
      to = static_cast<char*>(room(static_cast<size_t>(n)));
    else
      text_used_ += n;
    std::memcpy(to, v.s, static_cast<size_t>(n));
    v.s = to;
  }
}

void Node::free_node() {
  doomed.push_back(this);
  if (draining) return;
  draining = true;
  while (!doomed.empty()) {
    Node* n = doomed.back();
    doomed.resize(doomed.size() - 1);
    if (n->args) SavedArgs::drop(n->args);
    delete n->extra;
    n->~Node();
    FreeList<Node>::give(n);
  }
  draining = false;
}

void Node::forget(Impl* output) {
  if (!extra) return;
  auto& r = extra->retains;
  for (size_t i = 0; i < r.size(); ++i)
    if (r[i].second == output) r.erase(r.begin() + i--);
}

void Node::free_saved() {
  again = nullptr;
  if (saved.empty() && !custom) return;
  for (Saved& s : saved)
    if (s.tensor || s.packed) freed = true;
  saved.clear();
}

std::string bare_name(std::string_view name) { return std::string(name.substr(0, name.find('.'))); }

const char* Node::name() const { return op ? op->name : custom ? custom->name.c_str() : "?"; }

Edge edge_of(Impl* t) {
  Edge e;
  if (!t || !grad::requires_grad(t)) return e;
  if (t->node) {
    e.node = t->node;
    e.output = t->output;
  } else {
    e.leaf = Ref<Impl>(t);
  }
  return e;
}

Tensor Backward::g(int i) const {
  if (has_g(i)) return grads[i];
  const OutputInfo& o = node.outputs[i];
  return filled(o.shape, 0, o.dtype, o.device);
}

namespace {

// The values that a hook gives back, in the graph as the saved tensor was.
Tensor unpack_packed(Node& node, const Saved& s, int output) {
  Packed& p = *s.packed;
  if (!p.value) {
    p.value = p.unpack();
    any_unpacked = true;
  }
  Tensor t = alias(p.value);
  if (!is_floating(t.dtype())) return t;
  if (s.output || p.edge.node) {
    t->node = s.output ? Ref<GraphNode>(&node) : p.edge.node;
    t->output = s.output ? static_cast<uint32_t>(output) : p.edge.output;
    t->requires_grad = true;
  } else if (const Ref<Impl>& leaf = p.edge.leaf) {
    if (leaf->storage == t->storage) return Tensor(leaf);
    if (!mode.grad) return t;
    const Tensor view = op<"view_as">(Tensor(leaf), Tensor(leaf));  // its node leads to the leaf
    t->node = view->node;
    t->output = view->output;
    t->requires_grad = true;
  }
  return t;
}

}  // namespace

void forget_unpacked(Node& node) {
  for (Saved& s : node.saved)
    if (s.packed) s.packed->value = Tensor();
  any_unpacked = false;
}

Tensor unpack_saved(Node& node, const Saved& s, int output) {
  const Impl* const kept = node.freed ? nullptr : s.packed ? s.packed->kept() : s.tensor.get();
  if (s.packed && !node.freed && (!kept || kept->storage->version == s.version)) [[unlikely]]
    return unpack_packed(node, s, output);
  const std::string op_name = bare_name(node.name());
  if (!kept)
    fail(Kind::Autograd,
         format("backward: this graph was already used%s and is freed (%s%s kept values for one "
                "pass)",
                at(node.freed_at).c_str(), op_name.c_str(), at(node.where).c_str()),
         "put the forward pass inside the loop, and detach() what is carried from one pass to the "
         "next; loss:backward{retain_graph=true} only if two passes over one graph are meant");
  if (kept->storage->version != s.version) {
    const Storage& changed = *kept->storage;
    std::string by = "it was changed in place since";
    if (changed.changed_by == grad::kPass) {
      by = "another backward pass added to it";
    } else if (changed.changed_by) {
      by = bare_name(changed.changed_by.get()) + "_" + at(changed.changed_at) +
           " changed it in place";
      standing_observer->needed_before_change(node, changed);
    }
    fail(Kind::Autograd,
         format("backward: %s%s needs %s, a %s, but %s", op_name.c_str(), at(node.where).c_str(),
                s.output ? "its own result" : "its input",
                describe(Tensor(const_cast<Impl*>(kept))).c_str(), by.c_str()),
         "y = y + 1  -- makes a new tensor; y:add_(1) changes the one that the gradient needs (or "
         "clone it first)");
  }
  Tensor t(s.tensor);
  if (!s.output || !is_floating(t.dtype())) return t;  // positions have no history
  Tensor again = alias(t);
  again->node = Ref<GraphNode>(&node);
  again->output = static_cast<uint32_t>(output);
  again->requires_grad = true;
  return again;
}

Tensor Backward::in(int arg) const {
  const auto& inputs = node.op->saved_inputs;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (inputs[k] == arg) {
      if (node.args->arg[arg].tag != Tag::Tensor) return {};
      if (static_cast<int>(k) >= node.saved.size()) return unpack(Saved(), 0);
      return unpack(node.saved[static_cast<int>(k)], 0);
    }
  fail(Kind::Autograd,
       format("%s: its gradient reads an argument that it does not save", node.name()));
}

Tensor Backward::out(int i) const {
  if (node.op->row >= 0) return unpack_row(kOperands);
  const auto& outputs = node.op->saved_outputs;
  const int inputs = static_cast<int>(node.op->saved_inputs.size());
  for (size_t k = 0; k < outputs.size(); ++k)
    if (outputs[k] == i) {
      if (inputs + static_cast<int>(k) >= node.saved.size()) return unpack(Saved(), 0);
      return unpack(node.saved[inputs + static_cast<int>(k)], i);
    }
  fail(Kind::Autograd,
       format("%s: its gradient reads a result that it does not save", node.name()));
}

Tensor Backward::operand(int i) const {
  if (node.args && node.args->arg[i].is_number()) {
    const Value& v = node.args->arg[i];
    return v.tag == Tag::Int    ? number_tensor(v.i)
           : v.tag == Tag::Bool ? number_tensor(v.b)
                                : number_tensor(v.d);
  }
  return unpack_row(i);
}

Tensor Backward::unpack_row(int bit) const {
  const int at = __builtin_popcount(node.kept & ((1u << bit) - 1));
  return at < node.saved.size() ? unpack(node.saved[at], 0) : unpack(Saved(), 0);
}

Sizes Backward::shape(int arg, int element) const {
  const Edge& e = node.edges[edge(arg) + element];
  if (e.leaf) return Sizes(e.leaf->shape, e.leaf->rank);
  return static_cast<Node*>(e.node.get())->outputs[static_cast<int>(e.output)].shape;
}

DType Backward::dtype(int arg, int element) const {
  const Edge& e = node.edges[edge(arg) + element];
  if (e.leaf) return e.leaf->dtype;
  return static_cast<Node*>(e.node.get())->outputs[static_cast<int>(e.output)].dtype;
}

}  // namespace tycho
