// The walk that plans a pass for its sinks (see sink.h).
#include "engine/grad/sink.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tycho::grad {
namespace {

thread_local SinkPass* open_pass = nullptr;

// The last one made: a module may be wrapped again.
LeafSink* owner_of(Impl* leaf) {
  const auto& sinks = leaf_sinks();
  for (auto it = sinks.rbegin(); it != sinks.rend(); ++it)
    if ((*it)->owns(leaf)) return *it;
  return nullptr;
}

}  // namespace

std::vector<LeafSink*>& leaf_sinks() {
  static thread_local std::vector<LeafSink*> sinks;
  return sinks;
}

SinkPass::SinkPass(const std::vector<Tensor>& roots, const std::vector<Tensor>& only,
                   bool create_graph) {
  std::unordered_set<Impl*> wanted;
  for (const Tensor& t : only) wanted.insert(t.get());
  std::unordered_map<Impl*, size_t> index;
  std::unordered_set<Node*> seen;
  std::vector<Node*> stack;
  const auto reach = [&](const Edge& e, uint64_t from) {
    if (Impl* leaf = e.leaf.get()) {
      if (!only.empty() && !wanted.count(leaf)) return;
      const auto [it, fresh] = index.emplace(leaf, leaves_.size());
      if (fresh)
        leaves_.push_back({leaf, from, owner_of(leaf)});
      else
        leaves_[it->second].oldest = std::min(leaves_[it->second].oldest, from);
    } else if (Node* n = static_cast<Node*>(e.node.get())) {
      if (seen.insert(n).second) stack.push_back(n);
    }
  };
  for (const Tensor& root : roots) reach(edge_of(root.get()), ~uint64_t{0});
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    for (const Edge& e : n->edges) reach(e, n->id);
  }
  std::erase_if(leaves_, [](const Reached& r) { return !r.sink; });
  std::stable_sort(leaves_.begin(), leaves_.end(),
                   [](const Reached& a, const Reached& b) { return a.oldest > b.oldest; });
  open_pass = this;
  try {
    for (LeafSink* sink : std::vector<LeafSink*>(leaf_sinks())) {
      std::vector<Impl*> its;
      for (const Reached& r : leaves_)
        if (r.sink == sink) its.push_back(r.leaf);
      if (its.empty()) continue;
      if (sink->begin(its, create_graph))
        open_.push_back(sink);
      else
        std::erase_if(leaves_, [&](const Reached& r) { return r.sink == sink; });
    }
  } catch (...) {
    abandon();
    throw;
  }
}

void SinkPass::abandon() {
  open_pass = nullptr;
  for (LeafSink* sink : open_) sink->abandon();
  open_.clear();
}

LeafSink* SinkPass::sink_of(Impl* leaf) const {
  LeafSink* sink = open_.empty() ? nullptr : owner_of(leaf);
  return std::find(open_.begin(), open_.end(), sink) == open_.end() ? nullptr : sink;
}

void SinkPass::finish() {
  while (!open_.empty()) {
    LeafSink* sink = open_.front();
    open_.erase(open_.begin());
    sink->finish();
  }
}

bool SinkPass::open() { return open_pass != nullptr; }

void SinkPass::added_inside(Impl* leaf) {
  if (LeafSink* sink = open_pass->sink_of(leaf)) sink->added_inside(leaf);
}

}  // namespace tycho::grad
