// torch._unfold(y, {values=, gradients=}): the graph of y as tables, for %graph and %nan. Values
// come from what nodes have saved, else operations are done again; gradients come from a sweep over
// the graph, or, when backward has freed it, over a copy made by doing it again.
#include <algorithm>
#include <unordered_map>

#include "bindings/tools/tools.h"
#include "engine/amp/autocast.h"
#include "engine/grad/backward.h"
#include "engine/grad/record.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"

namespace tycho::lua {
namespace {

using Values = std::vector<std::vector<Tensor>>;  // by node, then by output

class Graph {
 public:
  explicit Graph(const Tensor& y) : y_(y) {
    if (!grad::requires_grad(y.get())) return;
    add(y->node);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const SmallVec<Edge, 3>& edges = at(i)->edges;
      for (int k = 0; k < edges.size(); ++k) {
        add(edges[k].node);
        if (edges[k].leaf) add_leaf(edges[k].leaf);
      }
    }
    if (!y->node) add_leaf(y.ref());
    std::sort(nodes_.begin(), nodes_.end(), [](const Ref<GraphNode>& a, const Ref<GraphNode>& b) {
      return static_cast<Node*>(a.get())->id < static_cast<Node*>(b.get())->id;
    });
    for (size_t i = 0; i < nodes_.size(); ++i) index_[at(i)] = i;
  }

  size_t size() const { return nodes_.size(); }
  Node* at(size_t i) const { return static_cast<Node*>(nodes_[i].get()); }
  const std::vector<Tensor>& leaves() const { return leaves_; }
  size_t leaf_index(const Impl* t) const { return leaf_index_.at(t); }
  size_t index(const GraphNode* n) const { return index_.at(static_cast<const Node*>(n)); }
  bool complete() const { return complete_; }
  Node* freed() const {
    for (size_t i = size(); i-- > 0;)
      if (at(i)->freed) return at(i);
    return nullptr;
  }

  // What the nodes computed; undefined where it cannot be known any more.
  Values values() const {
    Values v = known();
    const NoGrad quiet;
    compute(leaves_, &v);
    return v;
  }

  // d y / d each output and leaf; false when the graph was freed and cannot be made again.
  bool gradients(Values* grads, std::vector<Tensor>* leaf_grads) const {
    Tensor root = y_;
    std::vector<Tensor> wanted, leaves = leaves_;
    Values again(size());
    for (size_t i = 0; i < size(); ++i) again[i].resize(at(i)->outputs.size());
    if (freed()) {
      for (Tensor& t : leaves) {
        t = alias(t);
        t->requires_grad = true;
      }
      const bool before = std::exchange(mode.grad, true);
      try {
        compute(leaves, &again);
      } catch (...) {
        mode.grad = before;
        throw;
      }
      mode.grad = before;
      for (const auto& outputs : again)
        for (const Tensor& t : outputs)
          if (!t) return false;
      root = again[index(y_->node.get())][y_->output];
    } else {
      for (size_t i = 0; i < size(); ++i)
        for (size_t k = 0; k < again[i].size(); ++k) {
          again[i][k] = empty({0}, DType::Float32);
          grad::set_history(again[i][k], at(i), static_cast<uint32_t>(k));
        }
    }
    for (const auto& outputs : again)
      for (const Tensor& t : outputs)
        if (grad::requires_grad(t.get())) wanted.push_back(t);
    const size_t inner = wanted.size();
    wanted.insert(wanted.end(), leaves.begin(), leaves.end());
    const std::vector<Tensor> out =
        grad::gradients({root}, wanted, {filled(root.shape(), 1, root.dtype(), root.device())},
                        {.retain_graph = true, .allow_unused = true});
    grads->assign(size(), {});
    size_t next = 0;
    for (size_t i = 0; i < size(); ++i)
      for (const Tensor& t : again[i])
        (*grads)[i].push_back(grad::requires_grad(t.get()) ? out[next++] : Tensor());
    leaf_grads->assign(out.begin() + static_cast<std::ptrdiff_t>(inner), out.end());
    return true;
  }

 private:
  static constexpr size_t kMostNodes = 20000;

  void add(const Ref<GraphNode>& n) {
    if (!n) return;
    if (nodes_.size() >= kMostNodes) {
      complete_ = complete_ && index_.count(static_cast<Node*>(n.get()));
    } else if (index_.emplace(static_cast<Node*>(n.get()), nodes_.size()).second) {
      nodes_.push_back(n);
    }
  }
  void add_leaf(const Ref<Impl>& t) {
    if (leaf_index_.emplace(t.get(), leaves_.size()).second) leaves_.emplace_back(t);
  }

  static Tensor current(const Saved& s) {
    if (!s.tensor || s.tensor->storage->version != s.version) return {};
    return alias(Tensor(s.tensor));
  }
  // The saved tensor of argument `arg`; undefined when it is not saved.
  static Tensor saved_input(const Node* n, int arg) {
    int at = -1;
    if (n->op->row >= 0) {
      if (n->kept >> arg & 1) at = __builtin_popcount(n->kept & ((1u << arg) - 1));
    } else {
      const auto& inputs = n->op->saved_inputs;
      const auto it = std::find(inputs.begin(), inputs.end(), arg);
      if (it != inputs.end()) at = static_cast<int>(it - inputs.begin());
    }
    return at >= 0 && at < n->saved.size() ? current(n->saved[at]) : Tensor();
  }

  // Results that are saved somewhere.
  Values known() const {
    Values v(size());
    for (size_t i = 0; i < size(); ++i) v[i].resize(at(i)->outputs.size());
    for (size_t i = 0; i < size(); ++i) {
      const Node* n = at(i);
      if (!n->op) continue;
      if (n->op->row >= 0) {
        if (n->kept & kReadsResult && !n->saved.empty())
          v[i][0] = current(n->saved[n->saved.size() - 1]);
      } else {
        const size_t inputs = n->op->saved_inputs.size();
        for (size_t k = 0; k < n->op->saved_outputs.size(); ++k) {
          const auto output = static_cast<size_t>(n->op->saved_outputs[k]);
          const int place = static_cast<int>(inputs + k);
          if (output < v[i].size() && place < n->saved.size())
            v[i][output] = current(n->saved[place]);
        }
      }
      const int arguments = n->args ? n->args->n : n->edges.size();
      for (int arg = 0; arg < arguments; ++arg) {
        if (n->args && n->args->arg[arg].tag != Tag::Tensor) continue;
        const Edge& e = n->edges[n->args ? n->args->first[arg] : arg];
        if (!e.node || !index_.count(static_cast<Node*>(e.node.get()))) continue;
        Tensor& value = v[index(e.node.get())][e.output];
        if (!value) value = saved_input(n, arg);
      }
    }
    v[index(y_->node.get())][y_->output] = alias(y_);
    return v;
  }

  // Does again what is not in `v`, as far as that is possible.
  void compute(const std::vector<Tensor>& leaves, Values* v) const {
    const amp::Region region = amp::current();
    amp::set({});
    Observer* const observer = std::exchange(mode.observer, nullptr);
    struct Restore {
      amp::Region region;
      Observer* observer;
      ~Restore() {
        amp::set(region);
        mode.observer = observer;
      }
    } const restore{region, observer};
    for (size_t i = 0; i < size(); ++i) {
      bool missing = false;
      for (const Tensor& t : (*v)[i]) missing = missing || !t;
      if (missing) again(at(i), leaves, *v, &(*v)[i]);
    }
  }

  void again(const Node* n, const std::vector<Tensor>& leaves, const Values& v,
             std::vector<Tensor>* out) const {
    if (!n->op || n->op->random) return;
    const auto input = [&](int arg, int edge) -> Tensor {
      const Edge& e = n->edges[edge];
      if (e.leaf) return leaves[leaf_index_.at(e.leaf.get())];
      if (!e.node) return arg < 0 ? Tensor() : saved_input(n, arg);
      const auto it = index_.find(static_cast<Node*>(e.node.get()));
      return it == index_.end() ? Tensor() : v[it->second][e.output];
    };
    Call c(*n->op);
    c.n = n->args ? n->args->n : n->edges.size();
    for (int i = 0; i < c.n; ++i) {
      const Value none = n->args ? n->args->arg[i] : Value();
      if (!n->args || none.tag == Tag::Tensor) {
        Tensor t = input(i, n->args ? n->args->first[i] : i);
        if (!t) return;
        c.set(i, std::move(t));
      } else if (none.tag == Tag::Tensors) {
        std::vector<Tensor> list;
        for (uint32_t k = 0; k < none.n; ++k) {
          list.push_back(input(-1, n->args->first[i] + static_cast<int>(k)));
          if (!list.back()) return;
        }
        c.keep_list(i, std::move(list));
      } else if (none.tag == Tag::Generator) {
        return;
      } else {
        c.arg[i] = none;
      }
    }
    try {
      fill_defaults(c);
      apply(c);
    } catch (const Error& e) {
      if (e.kind == Kind::Interrupt) throw;
      return;
    }
    for (size_t k = 0; k < out->size() && static_cast<int>(k) < c.out.size(); ++k)
      if (!(*out)[k] && c.out[static_cast<int>(k)].shape() == n->outputs[static_cast<int>(k)].shape)
        (*out)[k] = c.out[static_cast<int>(k)];
  }

  Tensor y_;
  bool complete_ = true;
  std::vector<Ref<GraphNode>> nodes_;
  std::unordered_map<const Node*, size_t> index_;
  std::vector<Tensor> leaves_;
  std::unordered_map<const Impl*, size_t> leaf_index_;
};

void set_tensors(lua_State* L, const char* key, const std::vector<Tensor>& list) {
  lua_createtable(L, static_cast<int>(list.size()), 0);
  for (size_t k = 0; k < list.size(); ++k) {
    if (!list[k]) continue;
    push(L, list[k]->node || list[k]->requires_grad ? alias(list[k]) : list[k]);
    lua_rawseti(L, -2, static_cast<lua_Integer>(k) + 1);
  }
  lua_setfield(L, -2, key);
}

// The tensor and number arguments of a node: {node=, output=}, {leaf=}, {number=} or {} for a
// tensor outside of the graph.
void push_inputs(lua_State* L, const Graph& graph, const Node* n) {
  lua_newtable(L);
  int count = 0;
  const auto edge = [&](const Edge& e) {
    lua_createtable(L, 0, 2);
    if (e.leaf) {
      set_integer(L, "leaf", static_cast<int64_t>(graph.leaf_index(e.leaf.get())) + 1);
    } else if (e.node && graph.complete()) {
      set_integer(L, "node", static_cast<int64_t>(graph.index(e.node.get())) + 1);
      set_integer(L, "output", e.output + 1);
    }
    lua_rawseti(L, -2, ++count);
  };
  if (!n->args || !n->op) {
    for (int k = 0; k < n->edges.size(); ++k) edge(n->edges[k]);
    return;
  }
  for (int i = 0; i < n->args->n; ++i) {
    const Value& v = n->args->arg[i];
    if (v.tag == Tag::Tensor) {
      edge(n->edges[n->args->first[i]]);
    } else if (v.tag == Tag::Tensors) {
      for (uint32_t k = 0; k < v.n; ++k) edge(n->edges[n->args->first[i] + static_cast<int>(k)]);
    } else if (n->op->row >= 0 && v.is_number()) {
      lua_createtable(L, 0, 1);
      if (v.tag == Tag::Int)
        lua_pushinteger(L, v.i);
      else
        lua_pushnumber(L, v.number());
      lua_setfield(L, -2, "number");
      lua_rawseti(L, -2, ++count);
    }
  }
}

bool option(lua_State* L, const char* name) {
  if (!lua_istable(L, 2)) return false;
  lua_getfield(L, 2, name);
  const bool on = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return on;
}

}  // namespace

int lua_unfold(lua_State* L) {
  const Tensor y = check_tensor(L, 1, "_unfold");
  if (!grad::requires_grad(y.get()) || !y->node) {
    lua_pushnil(L);
    return 1;
  }
  const Graph graph(y);
  Values values(graph.size()), grads(graph.size());
  std::vector<Tensor> leaf_grads;
  if (option(L, "values") && graph.complete()) values = graph.values();
  bool with_grads = false;
  if (option(L, "gradients") && graph.complete()) with_grads = graph.gradients(&grads, &leaf_grads);
  lua_createtable(L, 0, 6);
  lua_createtable(L, static_cast<int>(graph.size()), 0);
  for (size_t i = 0; i < graph.size(); ++i) {
    const Node* n = graph.at(i);
    lua_createtable(L, 0, 12);
    const std::string_view name = n->name();
    set_text(L, "name", std::string(name.substr(0, name.find('.'))));
    set_text(L, "source", n->where.source ? source_name(n->where.source) : "");
    set_integer(L, "line", n->where.line);
    set_integer(L, "id", static_cast<int64_t>(n->id));
    if (n->outputs.size() > 0) {
      set_text(L, "shape", to_string(n->outputs[0].shape));
      set_text(L, "dtype", dtype_short_name(n->outputs[0].dtype));
    }
    set_integer(L, "outputs", n->outputs.size());
    push_inputs(L, graph, n);
    lua_setfield(L, -2, "inputs");
    set_tensors(L, "values", values[i]);
    set_tensors(L, "grads", grads[i]);
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  lua_setfield(L, -2, "nodes");
  lua_createtable(L, static_cast<int>(graph.leaves().size()), 0);
  for (size_t k = 0; k < graph.leaves().size(); ++k) {
    lua_createtable(L, 0, 3);
    const Tensor& t = graph.leaves()[k];
    set_integer(L, "id", static_cast<int64_t>(reinterpret_cast<intptr_t>(t.get())));
    set_tensors(L, "values", {t});
    set_tensors(L, "grads", {k < leaf_grads.size() ? leaf_grads[k] : Tensor()});
    lua_rawseti(L, -2, static_cast<lua_Integer>(k) + 1);
  }
  lua_setfield(L, -2, "leaves");
  set_integer(L, "root", static_cast<int64_t>(graph.index(y->node.get())) + 1);
  set_integer(L, "output", y->output + 1);
  lua_pushboolean(L, with_grads);
  lua_setfield(L, -2, "has_grads");
  lua_pushboolean(L, graph.complete());
  lua_setfield(L, -2, "complete");
  if (const Node* n = graph.freed()) set_text(L, "freed_at", to_string(n->freed_at));
  return 1;
}

}  // namespace tycho::lua
