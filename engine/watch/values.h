// A graph looked at from outside: its nodes, and the values that went through them, taken from what
// is saved for gradients or computed again where that is possible: for finding what made a nan.
// Sweeps do not need it.
#pragma once
#include <unordered_map>
#include <vector>

#include "engine/grad/backward.h"
#include "engine/ops/table/observer.h"

namespace tycho::watch {

class GraphValues {
 public:
  // The nodes from which `root` was computed; at most `most` of them.
  explicit GraphValues(const Tensor& root, size_t most = 200000);

  const std::vector<Node*>& nodes() const { return nodes_; }  // oldest first
  bool complete() const { return complete_; }
  // Works out what can be known of a node's results; those of its inputs must have been before.
  void evaluate(const Node* n);
  // Undefined when it is not known.
  Tensor output(const Node* n, int i = 0) const;
  Tensor of(const Edge& e) const;
  // A saved tensor operand that has no edge: a constant.
  Tensor constant(const Node* n, int edge) const;

 private:
  void take_saved(const Node* n);
  void keep(const Node* n, int output, const Saved& s);
  Tensor operand(const Node* n, int edge, const Saved* saved) const;
  std::vector<Tensor> again(const Node* n) const;

  Ref<GraphNode> root_;
  std::vector<Node*> nodes_;
  bool complete_ = true;
  std::unordered_map<const Node*, std::vector<Tensor>> known_;
};

// What a sweep freed, kept for a while so that the sweep can be looked at afterwards.
struct Freed final : Observer {
  struct Kept {
    Ref<GraphNode> node;
    SmallVec<Saved, 3> saved;
  };
  size_t most;  // bytes; with more, nothing is kept
  size_t bytes = 0;
  bool too_much = false;
  std::vector<Kept> nodes;
  std::vector<Ref<Impl>> leaves;

  explicit Freed(size_t most_bytes) : most(most_bytes) {}
  void freeing(Node& n) override;
  void reached(const Ref<Impl>& leaf) override { leaves.push_back(leaf); }
};

// While it lives, the nodes have again what a sweep freed.
class Unfreed {
 public:
  explicit Unfreed(const Freed& freed);
  ~Unfreed();
  Unfreed(const Unfreed&) = delete;

 private:
  const Freed& freed_;
};

}  // namespace tycho::watch
