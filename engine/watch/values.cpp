// The values of a graph (see values.h).
#include "engine/watch/values.h"

#include <algorithm>
#include <unordered_set>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"

namespace tycho::watch {
namespace {

Node* node_behind(const Edge& e) { return static_cast<Node*>(e.node.get()); }
bool unchanged(const Saved& s) { return s.tensor && s.tensor->storage->version == s.version; }

struct Quiet {  // what is computed here is not the user's
  NoGrad no_grad;
  bool before = mode.sweeping;
  Observer* observer = mode.observer;
  Quiet() {
    mode.sweeping = true;
    mode.observer = nullptr;
  }
  ~Quiet() {
    mode.sweeping = before;
    mode.observer = observer;
  }
};

// Where in `saved` a row's operand stands, or -1.
int saved_operand(const Node* n, int i) {
  if (!(n->kept >> i & 1)) return -1;
  const int at = __builtin_popcount(n->kept & ((1u << i) - 1));
  return at < n->saved.size() ? at : -1;
}

}  // namespace

GraphValues::GraphValues(const Tensor& root, size_t most) : root_(root->node) {
  if (!root_) return;
  std::vector<Node*> stack{static_cast<Node*>(root_.get())};
  std::unordered_set<Node*> seen{stack[0]};
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    nodes_.push_back(n);
    for (const Edge& e : n->edges) {
      if (!e.node || seen.count(node_behind(e))) continue;
      if (seen.size() >= most) {
        complete_ = false;
        continue;
      }
      seen.insert(node_behind(e));
      stack.push_back(node_behind(e));
    }
  }
  std::sort(nodes_.begin(), nodes_.end(),
            [](const Node* a, const Node* b) { return a->id < b->id; });
  for (const Node* n : nodes_) take_saved(n);
  std::vector<Tensor>& results = known_[static_cast<Node*>(root_.get())];
  if (results.size() <= root->output) results.resize(root->output + 1);
  results[root->output] = root;
}

void GraphValues::keep(const Node* n, int output, const Saved& s) {
  if (!unchanged(s)) return;
  std::vector<Tensor>& results = known_[n];
  if (static_cast<int>(results.size()) <= output) results.resize(static_cast<size_t>(output) + 1);
  if (!results[static_cast<size_t>(output)])
    results[static_cast<size_t>(output)] = Tensor(s.tensor);
}

void GraphValues::take_saved(const Node* n) {
  if (!n->op) return;
  const auto input = [&](int edge, const Saved& s) {
    const Edge& e = n->edges[edge];
    if (e.node) keep(node_behind(e), static_cast<int>(e.output), s);
  };
  if (n->op->row >= 0) {
    for (int i = 0; i < n->edges.size(); ++i)
      if (const int at = saved_operand(n, i); at >= 0) input(i, n->saved[at]);
    if (n->kept & kReadsResult && n->saved.size() > 0) keep(n, 0, n->saved[n->saved.size() - 1]);
    return;
  }
  const auto &inputs = n->op->saved_inputs, &outputs = n->op->saved_outputs;
  for (size_t k = 0; k < inputs.size() && static_cast<int>(k) < n->saved.size(); ++k)
    if (n->args && n->args->arg[inputs[k]].tag == Tag::Tensor)
      input(n->args->first[inputs[k]], n->saved[static_cast<int>(k)]);
  for (size_t k = 0; k < outputs.size(); ++k)
    if (const int at = static_cast<int>(inputs.size() + k); at < n->saved.size())
      keep(n, outputs[k], n->saved[at]);
}

Tensor GraphValues::output(const Node* n, int i) const {
  const auto it = known_.find(n);
  if (it == known_.end() || i >= static_cast<int>(it->second.size())) return {};
  return it->second[static_cast<size_t>(i)];
}

Tensor GraphValues::of(const Edge& e) const {
  if (e.leaf) return Tensor(e.leaf);
  return e.node ? output(node_behind(e), static_cast<int>(e.output)) : Tensor();
}

Tensor GraphValues::operand(const Node* n, int edge, const Saved* saved) const {
  if (Tensor t = of(n->edges[edge])) return t;
  return saved && unchanged(*saved) ? Tensor(saved->tensor) : Tensor();
}

Tensor GraphValues::constant(const Node* n, int edge) const {
  if (!n->op || n->edges[edge]) return {};
  if (n->op->row >= 0) {
    const int at = saved_operand(n, edge);
    return at >= 0 && unchanged(n->saved[at]) ? Tensor(n->saved[at].tensor) : Tensor();
  }
  const auto& inputs = n->op->saved_inputs;
  for (size_t k = 0; k < inputs.size() && static_cast<int>(k) < n->saved.size(); ++k)
    if (n->args && n->args->arg[inputs[k]].tag == Tag::Tensor &&
        n->args->first[inputs[k]] == edge && unchanged(n->saved[static_cast<int>(k)]))
      return Tensor(n->saved[static_cast<int>(k)].tensor);
  return {};
}

// The operation once more, where all its arguments are known.
std::vector<Tensor> GraphValues::again(const Node* n) const {
  if (!n->op || n->op->random) return {};
  Call c(*n->op);
  std::vector<Tensor> tensors;
  std::vector<std::vector<Tensor>> lists;
  tensors.reserve(kMaxArgs);
  lists.reserve(kMaxArgs);
  const auto give = [&](int i, Tensor t) {
    if (!t) return false;
    tensors.push_back(std::move(t));
    c.arg[i] = Value(tensors.back());
    return true;
  };
  if (n->op->row >= 0) {
    c.n = row_info[n->op->row].operands;
    for (int i = 0; i < c.n; ++i) {
      if (n->args && n->args->arg[i].tag != Tag::Tensor) {
        c.arg[i] = n->args->arg[i];
        continue;
      }
      const int at = saved_operand(n, i);
      if (!give(i, operand(n, i, at >= 0 ? &n->saved[at] : nullptr))) return {};
    }
  } else {
    c.n = n->args->n;
    for (int i = 0; i < c.n; ++i) {
      const Value& v = n->args->arg[i];
      if (v.tag == Tag::Tensor) {
        const Saved* saved = nullptr;
        const auto& inputs = n->op->saved_inputs;
        for (size_t k = 0; k < inputs.size() && static_cast<int>(k) < n->saved.size(); ++k)
          if (inputs[k] == i) saved = &n->saved[static_cast<int>(k)];
        if (!give(i, operand(n, n->args->first[i], saved))) return {};
      } else if (v.tag == Tag::Tensors) {
        lists.emplace_back();
        for (uint32_t k = 0; k < v.n; ++k) {
          lists.back().push_back(of(n->edges[n->args->first[i] + static_cast<int>(k)]));
          if (!lists.back().back()) return {};
        }
        c.arg[i] = Value(lists.back());
      } else if (v.tag == Tag::Generator) {
        return {};
      } else {
        c.arg[i] = v;
      }
    }
  }
  const Quiet quiet;
  apply(c);
  return {c.out.begin(), c.out.end()};
}

void GraphValues::evaluate(const Node* n) {
  bool all = true;
  for (int i = 0; i < n->outputs.size(); ++i) all = all && output(n, i);
  if (all) return;
  std::vector<Tensor> results;
  try {
    results = again(n);
  } catch (const Error& e) {
    if (e.kind == Kind::Interrupt) throw;
    return;
  }
  std::vector<Tensor>& known = known_[n];
  if (known.size() < results.size()) known.resize(results.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (!known[i]) known[i] = results[i];
}

void Freed::freeing(Node& n) {
  if (too_much) return;
  for (const Saved& s : n.saved)
    if (s.tensor) bytes += static_cast<size_t>(s.tensor->numel) * dtype_size(s.tensor->dtype);
  if (bytes > most || nodes.size() > 100000) {
    too_much = true;
    nodes.clear();
    return;
  }
  nodes.push_back({Ref<GraphNode>(&n), n.saved});
}

Unfreed::Unfreed(const Freed& freed) : freed_(freed) {
  for (const Freed::Kept& k : freed_.nodes) {
    Node* n = static_cast<Node*>(k.node.get());
    n->saved = k.saved;
    n->freed = false;
  }
}
Unfreed::~Unfreed() {
  for (const Freed::Kept& k : freed_.nodes) static_cast<Node*>(k.node.get())->free_saved();
}

}  // namespace tycho::watch
