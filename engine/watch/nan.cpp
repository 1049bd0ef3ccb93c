// The search for the first nan (see nan.h): along the graph, oldest operations first, and along a
// sweep that only looks.
#include "engine/watch/nan.h"

#include <cmath>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"

namespace tycho::watch {
namespace {

enum State : uint8_t { Finite = 0, Infinite = 1, Nan = 2, Unclear = 4 };

State state_of(const Tensor& t) {
  if (!t) return Unclear;
  if (!is_floating(t.dtype()) || t.numel() == 0) return Finite;
  const NoGrad quiet;
  if (item<bool>(op<"all">(fn::isfinite(t)))) return Finite;
  return item<bool>(op<"any">(fn::isnan(t))) ? Nan : Infinite;
}

double element(const Tensor& t, int64_t flat) {
  return item(op<"select">(op<"reshape">(t, Sizes{-1}), 0, flat));
}

std::string position(const Tensor& t, int64_t flat) {
  if (t.rank() == 0) return {};
  Sizes at = t.shape();
  for (int d = t.rank() - 1; d >= 0; --d) {
    at[d] = flat % t.size(d) + 1;
    flat /= t.size(d);
  }
  return to_string(at);
}

std::string number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "infinity" : "-infinity";
  return format("%.4g", x);
}

// "element [2]: input -1", for operations whose inputs lie element by element beside the result.
std::string describe_element(const GraphValues& values, const Node& n, const Tensor& result) {
  const NoGrad quiet;
  if (state_of(result) == Finite) return {};
  const Tensor odd = op<"logical_not">(fn::isfinite(result));
  const int64_t at = item<int64_t>(op<"argmax">(op<"to.dtype">(odd, DType::UInt8))) - 1;
  std::string inputs;
  if (n.op && n.op->row >= 0)
    for (int i = 0; i < n.edges.size(); ++i) {
      std::string value;
      if (n.args && n.args->arg[i].is_number()) {
        value = number(n.args->arg[i].number());
      } else {
        Tensor t = n.edges[i] ? values.of(n.edges[i]) : values.constant(&n, i);
        if (!t || !(t.shape() == result.shape())) continue;
        value = number(element(t, at));
      }
      inputs += (inputs.empty() ? "" : " and ") + value;
    }
  const std::string where = position(result, at);
  if (inputs.empty()) return where.empty() ? "" : "element " + where;
  return (where.empty() ? "" : "element " + where + ": ") + "input " + inputs;
}

const Node* node_of(const Edge& e) { return static_cast<const Node*>(e.node.get()); }

}  // namespace

bool all_finite(const Tensor& t) { return state_of(t) == Finite; }

NanSource find_nan(const Tensor& root) {
  NanSource found;
  const NoGrad quiet;
  const State wanted = state_of(root);
  if (wanted == Finite) return found;
  found.place = NanSource::Unknown;
  GraphValues values(root);
  std::unordered_map<const Node*, State> states;
  const auto edge_state = [&](const Edge& e) {
    if (e.leaf) return state_of(Tensor(e.leaf));
    const auto it = states.find(node_of(e));
    return it == states.end() ? Unclear : it->second;
  };
  const auto blame = [&](const Node& n, NanSource::Place place) {
    found.place = place;
    found.op = bare_name(n.name());
    found.where = n.where;
  };
  for (Node* n : values.nodes()) {
    values.evaluate(n);
    uint8_t state = Finite;
    for (int i = 0; i < n->outputs.size(); ++i)
      if (is_floating(n->outputs[i].dtype)) state |= state_of(values.output(n, i));
    states[n] = state & Nan ? Nan : static_cast<State>(state);
    const bool last = n == values.nodes().back();
    if (!(state & Nan) && !(last && wanted == Infinite)) continue;
    // The first node with a nan (or, where there is none, the one with the infinite result).
    const Node* at = n;
    for (bool deeper = true; deeper;) {
      deeper = false;
      for (int i = 0; i < at->edges.size() && !deeper; ++i) {
        const Edge& e = at->edges[i];
        const State s = e ? edge_state(e) : state_of(values.constant(at, i));
        if (e && e.node && s == Unclear) {
          blame(*node_of(e), NanSource::Operation);
          return found;
        }
        if (s == Finite || s == Unclear) continue;
        if (!e || e.leaf) {
          blame(*at, e.leaf ? NanSource::Parameter : NanSource::Data);
          found.infinite = s == Infinite;
          return found;
        }
        at = node_of(e);
        deeper = true;
      }
    }
    blame(*at, NanSource::Operation);
    Tensor result;
    for (int i = 0; i < at->outputs.size() && !result; ++i)
      if (const Tensor t = values.output(at, i); t && state_of(t) != Finite) result = t;
    if (result) {
      found.element = describe_element(values, *at, result);
      found.infinite = state_of(result) == Infinite;
    }
    if (at != n && wanted == Nan) found.then = bare_name(n->name()) + tycho::at(n->where);
    return found;
  }
  return found;
}

NanSource find_nan_gradient(const Tensor& root) {
  struct FirstBad final : Observer {
    NanSource found;
    GraphValues* values = nullptr;
    void step(const Node& n, std::span<const Tensor> in, std::span<const Tensor> out) override {
      if (found.place != NanSource::Nowhere) return;
      for (const Tensor& g : in)
        if (g && state_of(g) != Finite) return;
      for (size_t i = 0; i < out.size() && static_cast<int>(i) < n.edges.size(); ++i) {
        if (!out[i] || !n.edges[static_cast<int>(i)]) continue;
        const State s = state_of(out[i]);
        if (s == Finite) continue;
        found.place = NanSource::Gradient;
        found.op = bare_name(n.name());
        found.where = n.where;
        found.infinite = s == Infinite;
        found.element = describe_element(*values, n, out[i]);
        return;
      }
    }
  } first;
  GraphValues values(root);
  for (Node* n : values.nodes()) values.evaluate(n);
  first.values = &values;
  grad::observe_gradients(root, first);
  return first.found;
}

}  // namespace tycho::watch
