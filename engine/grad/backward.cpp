// The sweep (see backward.h). A heap by node id gives the order: a node's id is larger than those
// of its inputs, so when it comes up, everything that depends on it has delivered its gradients.
#include "engine/grad/backward.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "engine/base/interrupt.h"
#include "engine/grad/passes.h"
#include "engine/grad/record.h"
#include "engine/grad/sink.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/tensor/layout.h"
#include "engine/tensor/read.h"

namespace tycho {

// Gradients that have reached a node in one sweep. Nested sweeps over the same node stack up.
struct Pending {
  const void* sweep;
  Pending* below;
  SmallVec<Tensor, 1> grads;
};

namespace grad {

constinit thread_local bool detect_anomaly = false;

namespace {

thread_local uint64_t next_mark = 0;
thread_local int64_t next_hook_id = 1;

// A gradient brought to the shape, type and device of what it is the gradient of: broadcasting and
// casts are undone here, in one place, for every op.
Tensor fit(Tensor g, const Sizes& shape, DType dtype, Device device) {
  if (!(Sizes(g->shape, g->rank) == shape)) g = op<"sum_to_size">(g, shape);
  if (g.dtype() != dtype) g = op<"to.dtype">(g, dtype);
  if (!(g.device() == device)) g = op<"to.device">(g, device);
  return g;
}

template <class List>
std::span<const Tensor> span_of(const List& list) {
  return {list.begin(), static_cast<size_t>(list.size())};
}

class Sweep {
 public:
  explicit Sweep(SweepOptions o) : options_(o), inner_(sweeps_running++ > 0) {
    options_.retain_graph |= o.create_graph;
  }
  ~Sweep() {
    while (!touched_.empty()) leave(touched_.back());  // after an error or an interrupt
    for (auto it = outer_marks_.rbegin(); it != outer_marks_.rend(); ++it)
      static_cast<Node*>(it->first.get())->mark = it->second;
    --sweeps_running;
  }

  void want(const std::vector<Tensor>& inputs) {
    capture_ = true;
    for (const Tensor& t : inputs) {
      const Edge e = edge_of(t.get());
      if (!e) continue;
      if (e.leaf)
        wanted_leaves_.emplace(e.leaf.get(), Tensor());
      else
        wanted_outputs_.push_back({static_cast<Node*>(e.node.get()), e.output, Tensor()});
    }
    mark_needed_ = true;
  }
  Tensor captured(const Tensor& t) {
    const Edge e = edge_of(t.get());
    if (e.leaf) return wanted_leaves_[e.leaf.get()];
    for (auto& w : wanted_outputs_)
      if (w.node == e.node.get() && w.output == e.output) return w.grad;
    return {};
  }

  void start(const Tensor& root, Tensor g) {
    const Edge e = edge_of(root.get());
    if (mark_needed_ && e.node) find_needed(static_cast<Node*>(e.node.get()));
    deliver(e, std::move(g));
  }

  void run() {
    while (!heap_.empty()) {
      if (interrupt_pending()) [[unlikely]]
        check_interrupt();
      std::pop_heap(heap_.begin(), heap_.end(), younger);
      const Ref<GraphNode> hold = std::move(heap_.back());
      heap_.pop_back();
      process(static_cast<Node*>(hold.get()));
      if (sinks) [[unlikely]]
        finish_early();
    }
    if (sinks) finish_early();
    for (auto& [leaf, g] : leaf_grads_)
      if (g) finish_leaf(leaf, std::move(g));
    if (sinks) sinks->finish();
  }

 private:
  struct WantedOutput {
    Node* node;
    uint32_t output;
    Tensor grad;
  };
  struct LeafGrad {
    Ref<Impl> leaf;
    Tensor grad;
  };

  static bool younger(const Ref<GraphNode>& a, const Ref<GraphNode>& b) {
    return static_cast<Node*>(a.get())->id < static_cast<Node*>(b.get())->id;
  }

  void deliver(const Edge& e, Tensor g) {
    if (e.leaf) {
      const size_t few = std::min<size_t>(leaf_grads_.size(), 32);
      for (size_t i = 0; i < few; ++i)
        if (leaf_grads_[i].leaf == e.leaf) return accumulate(leaf_grads_[i].grad, std::move(g));
      if (leaf_grads_.size() >= 32) {  // many leaves: look the rest up by address
        const auto [it, fresh] = leaf_index_.emplace(e.leaf.get(), leaf_grads_.size());
        if (!fresh) return accumulate(leaf_grads_[it->second].grad, std::move(g));
      }
      leaf_grads_.push_back({e.leaf, std::move(g)});
      return;
    }
    if (!e.node) return;
    Node* n = static_cast<Node*>(e.node.get());
    if (mark_needed_ && n->mark != mark_) return;
    if (!n->pending || n->pending->sweep != this) {
      n->pending = new Pending{this, n->pending, {}};
      n->pending->grads.resize(n->outputs.size());
      touched_.push_back(n);
      heap_.push_back(e.node);
      std::push_heap(heap_.begin(), heap_.end(), younger);
    }
    accumulate(n->pending->grads[static_cast<int>(e.output)], std::move(g));
  }

  void accumulate(Tensor& sum, Tensor g) {
    if (!sum) {
      sum = std::move(g);
    } else if (!options_.create_graph && sum->count == 1 && sum->storage->count.load() == 1 &&
               sum->contiguous && owned(sum) && !any_batched(sum, g)) {
      const NoGrad quiet;
      op_<"add">(sum, g);
    } else {
      sum = sum + g;
    }
  }
  // Sums that this sweep made itself may be changed; anything else may be seen by others.
  static bool owned(const Tensor& t) { return !t->base && !t->extra; }
  // Those of one example (ops/table/batch.h) share their memory in ways that they do not show.
  static bool any_batched(const Tensor& a, const Tensor& b) {
    return storages_in_flight.load(std::memory_order_relaxed) != 0 &&
           (is_batched(a) || is_batched(b));
  }

  void process(Node* n) {
    const SmallVec<Tensor, 1> grads = [&] {
      SmallVec<Tensor, 1> g = std::move(n->pending->grads);
      return g;
    }();
    leave(n);
    SmallVec<Tensor, 1> seen = grads;
    if (n->extra && !options_.discard) {
      // Hooks and retained gradients may call scripts, which may add hooks: work on copies.
      const auto hooks = n->extra->hooks;
      for (const auto& h : hooks) {
        Tensor& g = seen[static_cast<int>(h.output)];
        if (!g) continue;
        if (Tensor other = h.entry.hook->call(g)) g = std::move(other);
      }
      for (auto& [output, t] : n->extra->retains)
        if (const Tensor& g = seen[static_cast<int>(output)]; g && !capture_) keep_grad(t, g);
    }
    for (auto& w : wanted_outputs_)
      if (w.node == n) w.grad = seen[static_cast<int>(w.output)];
    if (n->custom) {
      std::vector<Tensor> in(seen.begin(), seen.end());
      const std::vector<Tensor> out = n->custom->backward(*n, in);
      finish(n, seen, out);
      if (any_unpacked) [[unlikely]]
        forget_unpacked(*n);
      return;
    }
    Backward back{*n, seen, {}};
    back.results.resize(n->edges.size());
    if (n->op->row >= 0) {
      const RowInfo& info = row_info[n->op->row];
      for (int i = 0; i < n->edges.size(); ++i)
        if (wanted(n->edges[i])) back.results[i] = info.grad[i](back);
    } else {
      n->op->grad(back);
    }
    finish(n, seen, back.results);
    if (any_unpacked) [[unlikely]]
      forget_unpacked(*n);
  }

  bool wanted(const Edge& e) const {
    if (!e) return false;
    return !mark_needed_ || e.leaf || static_cast<Node*>(e.node.get())->mark == mark_;
  }

  template <class List>
  void check_nan(Node* n, const List& results) {
    for (int i = 0; i < static_cast<int>(results.size()); ++i) {
      const Tensor& g = results[i];
      if (!g || !is_floating(g.dtype())) continue;
      NoGrad quiet;
      if (item<bool>(op<"any">(op<"isnan">(g))))
        fail(Kind::Autograd, format("backward: the gradient of %s%s is nan for its argument %d",
                                    n->name(), at(n->where).c_str(), i + 1));
    }
  }

  template <class List>
  void finish(Node* n, const SmallVec<Tensor, 1>& seen, const List& results) {
    if (standing_wants.steps) [[unlikely]]
      standing_observer->step(*n, span_of(seen), span_of(results));
    if (detect_anomaly) [[unlikely]]
      check_nan(n, results);
    if (options_.observer) [[unlikely]]
      options_.observer->step(*n, span_of(seen), span_of(results));
    const int count = std::min<int>(n->edges.size(), static_cast<int>(results.size()));
    for (int i = 0; i < count; ++i) {
      const Edge& e = n->edges[i];
      const Tensor& g = results[i];
      if (!e || !g) continue;
      if (e.leaf) {
        deliver(e, fit(g, Sizes(e.leaf->shape, e.leaf->rank), e.leaf->dtype, e.leaf->device));
      } else {
        const OutputInfo& o = static_cast<Node*>(e.node.get())->outputs[static_cast<int>(e.output)];
        deliver(e, fit(g, o.shape, o.dtype, o.device));
      }
    }
    if (!options_.retain_graph) {
      if (options_.observer) [[unlikely]]
        options_.observer->freeing(*n);
      n->free_saved();
      if (n->freed && current_where) n->freed_at = current_where();
    }
  }

  // The leaves of sinks that no node which is left leads to.
  void finish_early() {
    const uint64_t youngest = heap_.empty() ? 0 : static_cast<Node*>(heap_.front().get())->id;
    while (Impl* leaf = sinks->next_final(youngest)) {
      if (Tensor* g = find_leaf(leaf); g && *g) finish_leaf(Ref<Impl>(leaf), std::move(*g));
      sinks->sink_of(leaf)->final(leaf);
    }
  }
  Tensor* find_leaf(Impl* leaf) {
    const size_t few = std::min<size_t>(leaf_grads_.size(), 32);
    for (size_t i = 0; i < few; ++i)
      if (leaf_grads_[i].leaf.get() == leaf) return &leaf_grads_[i].grad;
    const auto it = leaf_index_.find(leaf);
    return it == leaf_index_.end() ? nullptr : &leaf_grads_[it->second].grad;
  }

  void finish_leaf(const Ref<Impl>& leaf, Tensor g) {
    if (options_.discard) return;
    if (options_.observer) [[unlikely]]
      options_.observer->reached(leaf);
    if (leaf->extra && !leaf->extra->hooks.empty()) {
      const auto hooks = leaf->extra->hooks;
      for (const HookEntry& h : hooks)
        if (h.id > 0)
          if (Tensor other = h.hook->call(g)) g = std::move(other);
    }
    if (capture_) {
      const auto it = wanted_leaves_.find(leaf.get());
      if (it != wanted_leaves_.end()) it->second = g;
      if (!accumulate_wanted) return;
      if (it == wanted_leaves_.end()) return;
    }
    if (LeafSink* sink = sinks ? sinks->sink_of(leaf.get()) : nullptr)
      keep_grad_for(sink, leaf.get(), g);
    else
      keep_grad(leaf.get(), g);
    if (!sinks && SinkPass::open()) [[unlikely]]
      SinkPass::added_inside(leaf.get());
    if (!leaf->extra->hooks.empty()) {
      const auto hooks = leaf->extra->hooks;
      for (const HookEntry& h : hooks)
        if (h.id < 0) h.hook->call(g);
    }
  }

  void keep_grad(Impl* t, const Tensor& g) {
    Tensor& grad = extra_of(t).grad;
    if (grad && !options_.create_graph) {
      const NoGrad quiet;
      const Passes before = passes_of(*grad->storage);
      op_<"add">(grad, g);
      pass_added(*grad->storage, before);
    } else if (grad) {
      grad = grad + g;
    } else if (options_.create_graph) {
      grad = g->count == 1 ? g : op<"clone">(g);
    } else {
      // Take the tensor itself only when nobody else can see it: a + b gives one to both its
      // leaves. A row that is held back runs first: whoever holds it back can see it, too.
      ready(*g->storage);
      const bool ours = g->count == 1 && g->storage->count.load() == 1 && g->contiguous &&
                        !g->base && !g->extra && !g->node && !g->is_number;
      if (ours) {
        grad = g;
      } else {
        // As PyTorch: as the leaf lies.
        grad = empty_like_in(Format::Preserve, Tensor(t), g.dtype(), g.device());
        copy_raw(grad, g);
      }
    }
  }

  // Many gradients of a sink lie in one storage, so the sink counts the passes.
  void keep_grad_for(LeafSink* sink, Impl* leaf, const Tensor& g) {
    Tensor& grad = extra_of(leaf).grad;
    const NoGrad quiet;
    if (grad) {
      Storage& s = *grad->storage;
      const uint32_t passes = s.passes;
      const Storage::Stepped stepped = s.stepped;
      op_<"add">(grad, g);
      s.passes = passes;
      s.stepped = stepped;
    } else {
      const Tensor to = sink->place(leaf);
      copy_raw(to, g);
      grad = to;
    }
  }

  // Marks every node from which a wanted input can be reached: depth first, with its own stack.
  void find_needed(Node* root) {
    if (!mark_) mark_ = ++next_mark * 2;
    const uint64_t seen = mark_ - 1;  // visited, and nothing wanted found (yet)
    struct Frame {
      Node* node;
      int edge;
      bool needed;
    };
    std::vector<Frame> stack;
    if (root->mark == mark_ || root->mark == seen) return;
    visit(root, seen);
    stack.push_back({root, 0, is_wanted(root)});
    while (!stack.empty()) {
      Frame& f = stack.back();
      if (f.edge == f.node->edges.size()) {
        if (f.needed) f.node->mark = mark_;
        const bool needed = f.needed;
        stack.pop_back();
        if (needed && !stack.empty()) stack.back().needed = true;
        continue;
      }
      const Edge& e = f.node->edges[f.edge++];
      if (e.leaf) {
        if (wanted_leaves_.count(e.leaf.get())) f.needed = true;
      } else if (e.node) {
        Node* next = static_cast<Node*>(e.node.get());
        if (next->mark == mark_) {
          f.needed = true;
        } else if (next->mark != seen) {
          visit(next, seen);
          stack.push_back({next, 0, is_wanted(next)});
        }
      }
    }
  }
  // A sweep inside a gradient of another gives back the marks that the other still reads.
  void visit(Node* n, uint64_t mark) {
    if (inner_) outer_marks_.emplace_back(Ref<GraphNode>(n), n->mark);
    n->mark = mark;
  }
  bool is_wanted(const Node* n) const {
    for (const auto& w : wanted_outputs_)
      if (w.node == n) return true;
    return false;
  }

  void leave(Node* n) {
    if (n->pending && n->pending->sweep == this) {
      Pending* p = n->pending;
      n->pending = p->below;
      delete p;
    }
    // A processed node is no longer ours to touch.
    if (!touched_.empty() && touched_.back() == n)
      touched_.pop_back();
    else if (const auto it = std::find(touched_.rbegin(), touched_.rend(), n);
             it != touched_.rend())
      touched_.erase(std::next(it).base());
  }

 public:
  bool accumulate_wanted = false;  // backward{inputs=...}
  SinkPass* sinks = nullptr;       // of this sweep; null where no leaf that it leads to has a sink

 private:
  SweepOptions options_;
  std::vector<Ref<GraphNode>> heap_;
  std::vector<Node*> touched_;  // nodes that hold a Pending of this sweep (all are in the heap)
  std::vector<LeafGrad> leaf_grads_;
  std::unordered_map<Impl*, size_t> leaf_index_;
  bool capture_ = false, mark_needed_ = false;
  uint64_t mark_ = 0;
  inline static constinit thread_local int sweeps_running = 0;
  bool inner_ = false;
  std::vector<std::pair<Ref<GraphNode>, uint64_t>> outer_marks_;
  std::unordered_map<Impl*, Tensor> wanted_leaves_;
  std::vector<WantedOutput> wanted_outputs_;
};

struct GradMode {
  bool before = mode.grad, outer = mode.sweeping;
  explicit GradMode(bool on) {
    mode.grad = on;
    mode.sweeping = true;
  }
  ~GradMode() {
    mode.grad = before;
    mode.sweeping = outer;
  }
};

[[noreturn]] void no_graph(const Tensor& root, const char* what) {
  std::string why = "none of its inputs requires grad";
  std::string hint = "the leaves need requires_grad_() before the forward pass";
  standing_observer->explain_cut(root.get(), why, hint);
  fail(Kind::Autograd,
       format("%s: the result (%s) has no graph: %s", what, describe(root).c_str(), why.c_str()),
       hint);
}

Tensor seed(const Tensor& root, const Tensor& given, const char* what) {
  if (!is_floating(root.dtype()) || !requires_grad(root.get())) no_graph(root, what);
  if (given) {
    if (!(given.shape() == root.shape()))
      fail(Kind::Shape, format("%s: the gradient has shape %s, the tensor %s", what,
                               to_string(given.shape()).c_str(), to_string(root.shape()).c_str()));
    return given.dtype() == root.dtype() ? given : op<"to.dtype">(given, root.dtype());
  }
  if (root.numel() != 1)
    fail(Kind::Autograd,
         format("%s: the tensor has shape %s; a gradient needs one number", what,
                to_string(root.shape()).c_str()),
         "y:sum():backward()  -- or y:mean():backward(), or pass weights: "
         "y:backward(torch.ones_like(y))");
  return filled(root.shape(), 1, root.dtype(), root.device());
}

}  // namespace

void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& grads,
              SweepOptions options, const std::vector<Tensor>& inputs) {
  std::optional<SinkPass> sinks;
  if (!leaf_sinks().empty() && !SinkPass::open()) [[unlikely]]
    sinks.emplace(roots, inputs, options.create_graph);
  Sweep sweep(options);
  const GradMode scope(options.create_graph);
  if (sinks) sweep.sinks = &*sinks;
  if (!inputs.empty()) {
    sweep.want(inputs);
    sweep.accumulate_wanted = true;
  }
  for (size_t i = 0; i < roots.size(); ++i)
    sweep.start(roots[i], seed(roots[i], i < grads.size() ? grads[i] : Tensor(), "backward"));
  sweep.run();
  standing_observer->swept();
}

void observe_gradients(const Tensor& root, Observer& observer) {
  SweepOptions o;
  o.retain_graph = o.discard = true;
  o.observer = &observer;
  Sweep sweep(o);
  const GradMode scope(false);
  const Tensor ones =
      root.numel() == 1 ? Tensor() : filled(root.shape(), 1, root.dtype(), root.device());
  sweep.start(root, seed(root, ones, "backward"));
  sweep.run();
}

std::vector<Tensor> gradients(const std::vector<Tensor>& roots, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& grads, SweepOptions options) {
  for (const Tensor& t : inputs)
    if (!requires_grad(t.get()))
      fail(Kind::Autograd, format("grad: an input (%s) does not require grad", describe(t).c_str()),
           "x:requires_grad_()  -- before the forward pass");
  Sweep sweep(options);
  const GradMode scope(options.create_graph);
  sweep.want(inputs);
  for (size_t i = 0; i < roots.size(); ++i)
    sweep.start(roots[i], seed(roots[i], i < grads.size() ? grads[i] : Tensor(), "grad"));
  sweep.run();
  std::vector<Tensor> out;
  for (const Tensor& t : inputs) {
    out.push_back(sweep.captured(t));
    if (!out.back() && !options.allow_unused)
      fail(Kind::Autograd,
           format("grad: input %zu (%s) was not used to compute the result", out.size(),
                  describe(t).c_str()),
           "torch.autograd.grad(y, {x}, {allow_unused=true})  -- gives nil for it");
  }
  return out;
}

int64_t add_hook_after(const Tensor& t, Ref<Hook> hook) {
  TYCHO_CHECK(Kind::Autograd, requires_grad(t.get()) && !t->node,
              "register_post_accumulate_grad_hook: wants a leaf that requires grad, such as a "
              "parameter");
  const int64_t id = -next_hook_id++;
  extra_of(t.get()).hooks.push_back({id, std::move(hook)});
  return id;
}

int64_t add_hook(const Tensor& t, Ref<Hook> hook) {
  TYCHO_CHECK(Kind::Autograd, requires_grad(t.get()),
              "register_hook: the tensor does not require grad");
  HookEntry entry{next_hook_id++, std::move(hook)};
  const int64_t id = entry.id;
  if (t->node)
    static_cast<Node*>(t->node.get())->more().hooks.push_back({t->output, std::move(entry)});
  else
    extra_of(t.get()).hooks.push_back(std::move(entry));
  return id;
}

void remove_hook(const Tensor& t, int64_t id) {
  if (t->node) {
    auto& hooks = static_cast<Node*>(t->node.get())->more().hooks;
    std::erase_if(hooks, [&](const auto& h) { return h.entry.id == id; });
  }
  if (!t->extra) return;
  SmallVec<HookEntry, 1> left;
  for (const HookEntry& h : t->extra->hooks)
    if (h.id != id) left.push_back(h);
  t->extra->hooks = std::move(left);
}

void retain_grad(const Tensor& t) {
  TYCHO_CHECK(Kind::Autograd, requires_grad(t.get()),
              "retain_grad: the tensor does not require grad");
  if (!t->node || extra_of(t.get()).retains_grad) return;
  extra_of(t.get()).retains_grad = true;
  static_cast<Node*>(t->node.get())->more().retains.push_back({t->output, t.get()});
}

}  // namespace grad
}  // namespace tycho
