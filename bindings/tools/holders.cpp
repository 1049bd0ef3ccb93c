// Who holds most memory: for the out-of-memory error, the variables (locals of running functions,
// globals) from which most tensor bytes can be reached.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "bindings/core/device.h"
#include "engine/tensor/backend.h"

namespace tycho::lua {
namespace {

constexpr int kMostVisits = 20000;  // of values: the error must come soon

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

  std::string text() {
    std::sort(holders_.begin(), holders_.end(),
              [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
    std::string out;
    for (size_t i = 0; i < holders_.size() && i < 3; ++i) {
      const Holder& h = holders_[i];
      out += (i ? ", " : "") + h.name + " " + h.shape +
             format("%.1f MB", static_cast<double>(h.bytes) / 1e6);
      if (h.tensors > 1) out += format(" (%d tensors)", h.tensors);
    }
    return out;
  }

 private:
  void visit(Holder* h, int depth) {
    if (--visits_ < 0 || depth > 6 || !lua_checkstack(L_, 6)) return;
    if (const Impl* t = to_impl(L_, -1)) {
      // A mapped file takes none of the memory that tensors have.
      if (t->device == device_ && (!t->storage->free_data || is_pinned(*t->storage)) &&
          seen_.insert(t->storage.get()).second) {
        h->bytes += static_cast<int64_t>(t->storage->bytes);
        ++h->tensors;
      }
      return;
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
};

}  // namespace

std::string largest_holders(lua_State* L) { return largest_holders_on(L, Device{}); }

std::string largest_holders_on(lua_State* L, Device device) {
  Counter counter(L, device);
  lua_Debug ar;
  for (int level = 0; level < 50 && lua_getstack(L, level, &ar); ++level) {
    lua_getinfo(L, "S", &ar);
    if (ar.what[0] == 'C') continue;
    const char* name;
    for (int i = 1; (name = lua_getlocal(L, &ar, i)); ++i) {
      if (name[0] == '(')
        lua_pop(L, 1);
      else
        counter.add(name);
    }
  }
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
  return counter.text();
}

}  // namespace tycho::lua
