// What torch.func asks of the graph: torch._reaches(results, own).
#include "bindings/core/graph.h"

#include <unordered_set>
#include <vector>

#include "engine/grad/record.h"

namespace tycho::lua {
namespace {

// Does a graph lead from one of the tensors of list 1 to a leaf that is not in list 2?
int lua_reaches(lua_State* L) {
  std::unordered_set<const Impl*> own;
  std::unordered_set<const Node*> seen;
  std::vector<Node*> stack;
  bool found = false;
  const auto go = [&](const Edge& e) {
    if (e.leaf) {
      found = found || !own.count(e.leaf.get());
    } else if (e.node) {
      Node* n = static_cast<Node*>(e.node.get());
      if (seen.insert(n).second) stack.push_back(n);
    }
  };
  for (int i = 2; i >= 1; --i) {
    TYCHO_CHECK(Kind::Argument, lua_istable(L, i), "_reaches: wants two lists of tensors");
    for (lua_Integer k = 1, n = static_cast<lua_Integer>(lua_rawlen(L, i)); k <= n; ++k) {
      lua_rawgeti(L, i, k);
      if (Impl* t = to_impl(L, -1)) i == 2 ? void(own.insert(t)) : go(edge_of(t));
      lua_pop(L, 1);
    }
  }
  while (!stack.empty() && !found) {
    Node* n = stack.back();
    stack.pop_back();
    for (const Edge& e : n->edges) go(e);
  }
  lua_pushboolean(L, found);
  return 1;
}

}  // namespace

void open_graph(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  lua_pushcfunction(L, guarded<lua_reaches>);
  lua_setfield(L, torch, "_reaches");
}

}  // namespace tycho::lua
