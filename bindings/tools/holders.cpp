// Who holds most memory: for the out-of-memory error, the variables (of running functions, globals)
// from which most tensor bytes can be reached, and the operations whose graph keeps the rest.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <unordered_set>

#include "bindings/core/device.h"
#include "engine/grad/node.h"
#include "engine/tensor/backend.h"

namespace tycho::lua {
namespace {

constexpr int kMostVisits = 20000;  // of values, and of nodes: the error must come soon

struct Holder {
  std::string name;
  int64_t bytes = 0;
  int tensors = 0;
  std::string shape;  // of a variable that is a tensor itself
};

class Counter {
 public:
  Counter(lua_State* L, Device device) : L_(L), device_(device) {}
  // Counts what hangs on the value on top of the stack, which it pops; storage seen under an
  // earlier name does not count again.
  void add(const std::string& name) {
    Holder h;
    h.name = name;
    if (const Impl* t = to_impl(L_, -1)) h.shape = to_string(Sizes(t->shape, t->rank)) + " ";
    visit(&h, 0);
    lua_pop(L_, 1);
    if (h.tensors) holders_.push_back(std::move(h));
  }

  // What graphs keep that no variable holds counts for the operation and its line.
  void add_graphs() {
    std::map<std::string, Holder> by_place;
    for (size_t i = 0; i < nodes_.size() && i < kMostVisits; ++i) {
      const Node& node = *nodes_[i];
      Holder found;
      for (const Saved& saved : node.saved)
        if (saved.tensor) count(&found, saved.tensor.get());
      for (const Edge& e : node.edges) reach(e.node.get());
      if (!found.tensors) continue;
      std::string name = "what " + bare_name(node.name()) + at(node.where) + " keeps for backward";
      Holder& h = by_place[name];
      h.name = std::move(name);
      h.bytes += found.bytes;
      h.tensors += found.tensors;
    }
    for (auto& [name, h] : by_place) holders_.push_back(std::move(h));
  }

  std::string text() {
    std::sort(holders_.begin(), holders_.end(),
              [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
    std::string out;
    for (size_t i = 0; i < holders_.size() && i < 3; ++i) {
      const Holder& h = holders_[i];
      if (h.bytes < holders_[0].bytes / 100) break;
      out += (i ? ", " : "") + h.name + " " + h.shape +
             format("%.1f MB", static_cast<double>(h.bytes) / 1e6);
      if (h.tensors > 1) out += format(" (%d tensors)", h.tensors);
    }
    return out;
  }

 private:
  void count(Holder* h, const Impl* t) {
    // A mapped file takes none of the memory that tensors have.
    if (t->device == device_ && (!t->storage->free_data || is_pinned(*t->storage)) &&
        seen_.insert(t->storage.get()).second) {
      h->bytes += static_cast<int64_t>(t->storage->bytes);
      ++h->tensors;
    }
  }
  void reach(const GraphNode* node) {
    if (node && seen_.insert(node).second) nodes_.push_back(static_cast<const Node*>(node));
  }
  void visit(Holder* h, int depth) {
    if (--visits_ < 0 || depth > 6 || !lua_checkstack(L_, 6)) return;
    if (const Impl* t = to_impl(L_, -1)) {
      count(h, t);
      if (t->extra && t->extra->grad) count(h, t->extra->grad.get());
      return reach(t->node.get());
    }
    if (lua_type(L_, -1) != LUA_TTABLE || !seen_.insert(lua_topointer(L_, -1)).second) return;
    lua_pushnil(L_);
    while (lua_next(L_, -2)) {
      visit(h, depth + 1);
      lua_pop(L_, 1);
    }
  }

  lua_State* L_;
  Device device_;
  int visits_ = kMostVisits;
  std::unordered_set<const void*> seen_;
  std::vector<Holder> holders_;
  std::vector<const Node*> nodes_;
};

// The variables of running functions: of the user's, or of the half of torch that is written in Lua.
void add_running(lua_State* L, Counter& counter, bool ours) {
  lua_Debug ar;
  for (int level = 0; level < 50 && lua_getstack(L, level, &ar); ++level) {
    lua_getinfo(L, "S", &ar);
    if (ar.what[0] == 'C') continue;
    if (ours != (!std::strncmp(ar.source, "=torch/", 7) || !std::strncmp(ar.source, "=shell/", 7)))
      continue;
    const char* name;
    for (int i = 1; (name = lua_getlocal(L, &ar, i)); ++i) {
      if (name[0] == '(')
        lua_pop(L, 1);
      else
        counter.add(ours ? std::string(name) + " in " + ar.short_src : name);
    }
    lua_getinfo(L, "f", &ar);
    const int function = lua_gettop(L);
    for (int i = 1; !ours && (name = lua_getupvalue(L, function, i)); ++i) {
      if (std::strcmp(name, "_ENV") == 0)
        lua_pop(L, 1);
      else
        counter.add(name);
    }
    lua_settop(L, function - 1);
  }
}

}  // namespace

std::string largest_holders(lua_State* L) { return largest_holders_on(L, Device{}); }

std::string largest_holders_on(lua_State* L, Device device) {
  Counter counter(L, device);
  add_running(L, counter, false);
  static const std::set<std::string> standard = {"_G",        "package", "torch", "string",
                                                 "table",     "math",    "io",    "os",
                                                 "coroutine", "utf8",    "debug"};
  lua_pushglobaltable(L);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    if (lua_type(L, -2) == LUA_TSTRING && !standard.count(lua_tostring(L, -2)))
      counter.add(lua_tostring(L, -2));
    else
      lua_pop(L, 1);
  }
  lua_pop(L, 1);
  add_running(L, counter, true);
  counter.add_graphs();
  return counter.text();
}

}  // namespace tycho::lua
