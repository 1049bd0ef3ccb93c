// Recording calls: edges, saved tensors, saved arguments.
#include "engine/grad/record.h"

#include "engine/grad/inplace.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/defer.h"

namespace tycho::grad {
namespace {

void set_edge(Edge& e, Impl* t) {
  if (!requires_grad(t)) return;
  if (t->node) {
    e.node = t->node;
    e.output = t->output;
  } else {
    e.leaf = Ref<Impl>(t);
  }
}

void save_input(Node* node, const Call& c, Impl* t) {
  if (t->is_inference) [[unlikely]]
    fail(Kind::Autograd,
         format("%s: a tensor made in inference_mode cannot be saved for the gradient", c.op->name),
         "x = x:clone()  -- outside inference_mode, before using it");
  Saved& s = node->saved.back();
  // In place, the tensor's own node is about to become this one: keep it without, as an alias.
  if (c.inplace && t == c.out[0].get()) {
    Tensor a = alias(Tensor(t));
    a->node = t->node;
    a->output = t->output;
    a->requires_grad = t->requires_grad;
    s.tensor = a.ref();
    s.version = t->storage->version - 1;  // before this change: reading it must raise
    return;
  }
  s.tensor = Ref<Impl>(t);
  s.version = t->storage->version;
  if (node->op->row < 0 && t->node && !save_hooks && save_again(s, t)) return;
  if (save_hooks && !t->is_number) [[unlikely]]
    pack_saved(s, t);
}

void save_output(Node* node, const Tensor& t) {
  Saved& s = node->saved.back();
  s.tensor = alias(t).ref();
  s.version = t->storage->version;
  s.output = true;
  if (save_hooks && !t->is_number) [[unlikely]]
    pack_saved(s, nullptr);
}

void record_row(Node* node, Call& c) {
  const RowInfo& info = row_info[c.op->row];
  uint8_t reads = 0;
  bool numbers = false;
  for (int i = 0; i < info.operands; ++i) {
    Edge& e = node->edges.emplace_back();
    if (c.arg[i].tag == Tag::Tensor && info.grad[i]) set_edge(e, c.arg[i].t);
    if (e) reads |= info.reads[i];
    numbers = numbers || c.arg[i].tag != Tag::Tensor;
  }
  if (numbers) {
    node->args = SavedArgs::make();
    node->args->n = info.operands;
    for (int i = 0; i < info.operands; ++i) {
      node->args->first[i] = static_cast<int16_t>(i);
      if (c.arg[i].tag != Tag::Tensor)
        node->args->arg[i] = c.arg[i];
      else
        node->args->arg[i].tag = Tag::Tensor;
    }
  }
  for (int i = 0; i < info.operands; ++i) {
    if (!(reads >> i & 1) || c.arg[i].tag != Tag::Tensor) continue;
    node->kept |= static_cast<uint8_t>(1u << i);
    node->saved.emplace_back();
    save_input(node, c, c.arg[i].t);
  }
  if (reads & kReadsResult) {
    node->kept |= kReadsResult;
    node->saved.emplace_back();
    save_output(node, c.out[0]);
  }
}

void record_op(Node* node, Call& c) {
  auto* args = node->args = SavedArgs::make();
  args->n = c.n;
  for (int i = 0; i < c.n; ++i) {
    const Value& v = c.arg[i];
    Value& kept = args->arg[i];
    kept = v;
    args->first[i] = static_cast<int16_t>(node->edges.size());
    switch (v.tag) {
      case Tag::Tensor:
        node->edges.push_back(edge_of(v.t));
        kept.i = 0;
        break;
      case Tag::Tensors:
        for (uint32_t k = 0; k < v.n; ++k) node->edges.push_back(edge_of(v.tensors[k]));
        kept.i = 0;
        break;
      case Tag::Ints:
      case Tag::String:
        args->keep(kept);
        break;
      default:
        break;
    }
    // An argument that may be a tensor but is not still has an (empty) edge, so that set() and
    // needs() can name it.
    if (v.tag != Tag::Tensor && v.tag != Tag::Tensors) {
      const Take take = c.op->params[i].take;
      if (take == Take::Tensor || take == Take::Operand) node->edges.push_back(Edge());
    }
  }
  for (int i : c.op->saved_inputs) {
    node->saved.resize(node->saved.size() + 1);
    if (c.arg[i].tag == Tag::Tensor) save_input(node, c, c.arg[i].t);
  }
  for (int i : c.op->saved_outputs) {
    node->saved.resize(node->saved.size() + 1);
    if (i < c.out.size()) save_output(node, c.out[i]);
  }
}

}  // namespace

void pack_saved(Saved& s, Impl* input) {
  const NoGrad quiet;
  Ref<Packed> packed = save_hooks->pack(alias(Tensor(s.tensor)));
  packed->edge = edge_of(input);
  s.packed = std::move(packed);
  s.tensor = Ref<Impl>();
}

void set_history(const Tensor& t, Node* node, uint32_t index) {
  t->node = Ref<GraphNode>(node);
  t->output = index;
  t->requires_grad = true;
}

void record(Call& c) {
  bool floating = false;
  for (const Tensor& t : c.out) floating = floating || (t && is_floating(t.dtype()));
  if (!floating) return standing_observer->unrecorded(c);
  Ref<GraphNode> hold(new_node(c.op));
  Node* node = static_cast<Node*>(hold.get());
  if (c.op->row >= 0)
    record_row(node, c);
  else
    record_op(node, c);
  if (may_be_deferred(c.out[0].numel(), c.out[0].device())) remember_call(*node, c);
  if (standing_wants.records || (c.out[0].dtype() == DType::Float64 && c.op->row >= 0)) [[unlikely]]
    standing_observer->recording(c, *node);
  for (int i = 0; i < c.out.size(); ++i) {
    OutputInfo& o = node->outputs.emplace_back();
    o.shape = c.out[i].shape();
    o.dtype = c.out[i].dtype();
    o.device = c.out[i].device();
    if (is_floating(c.out[i].dtype())) set_history(c.out[i], node, static_cast<uint32_t>(i));
  }
  if (c.inplace) [[unlikely]]
    changed_in_place(c.out[0]);
}

}  // namespace tycho::grad
