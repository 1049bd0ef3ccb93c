// Hooks on gradients, written in Lua: x:register_hook(f).
//
// Note: who keeps the function. The engine's graph holds the hook, the hook means a Lua function,
// and the function often refers to tensors of that same graph: a circle through both worlds, which
// neither reference counts nor Lua's collector can see whole. So the function hangs on the tensor's
// Lua value it was registered with (kHeld, an ephemeron table), inside a `Watch`. When the
// collector finds that value dead, the watch's finaliser looks at what the function refers to:
// tensors that nothing else in Lua reaches (`kSeen` tells, one collection later) are dropped in
// thought, and if the graph that holds the hook would go with them, the function is let go. Else a
// new watch keeps it for another collection, or the registry for good when it refers to no tensor.
#include <unordered_map>
#include <unordered_set>

#include "bindings/lua.h"
#include "engine/grad/backward.h"
#include "engine/grad/node.h"
#include "engine/grad/record.h"

namespace tycho::lua {
namespace {

const char kHeld[] = "tycho.hooks.held";    // tensor value -> {[watch] = true}; keys are weak
const char kWatch[] = "tycho.hooks.watch";  // id -> watch; values are weak
const char kAll[] = "tycho.hooks.all";    // watch -> id; keys are weak: holds while finalisers wait
const char kSeen[] = "tycho.hooks.seen";  // address -> tensor value; values are weak
const char kMeta[] = "tycho.hooks";

struct LuaHook;
std::unordered_map<lua_Integer, LuaHook*>& live_hooks() {
  static thread_local std::unordered_map<lua_Integer, LuaHook*> map;
  return map;
}
lua_Integer next_id = 1;

struct Watch {
  lua_Integer id;  // user values: the function, and the addresses of the tensors it referred to
};

struct LuaHook final : Hook {
  const lua_Integer id = next_id++;
  const Counted* owner;  // the node, or the leaf, that holds this hook; only compared
  int ref = LUA_NOREF;   // of the function, when the registry keeps it
  explicit LuaHook(const Counted* o) : owner(o) { live_hooks()[id] = this; }

  Tensor call(const Tensor& g) override {
    lua_State* L = running;
    luaL_checkstack(L, 8, "hook");
    if (!push_function(L)) return {};
    push(L, g);
    lua_call(L, 1, 1);
    Tensor other;
    if (Impl* t = to_impl(L, -1)) other = Tensor(t);
    lua_pop(L, 1);
    if (other && !(other.shape() == g.shape()))
      fail(Kind::Shape, format("hook: it returned a gradient of shape %s for one of shape %s",
                               to_string(other.shape()).c_str(), to_string(g.shape()).c_str()));
    return other;
  }
  bool push_function(lua_State* L) {
    if (ref != LUA_NOREF) {
      lua_rawgeti(L, LUA_REGISTRYINDEX, ref);
      return true;
    }
    const int top = lua_gettop(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, kWatch);
    if (lua_rawgeti(L, -1, id) == LUA_TNIL) {  // found dead, but its finaliser has not run yet
      lua_rawgetp(L, LUA_REGISTRYINDEX, kAll);
      lua_pushnil(L);
      while (lua_next(L, -2)) {
        const bool mine = lua_tointeger(L, -1) == id;
        lua_pop(L, 1);
        if (mine) break;
      }
    }
    if (lua_type(L, -1) != LUA_TUSERDATA) {
      lua_settop(L, top);
      return false;
    }
    lua_getiuservalue(L, -1, 1);
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
    return true;
  }
  void free_hook() override {
    live_hooks().erase(id);
    if (ref != LUA_NOREF) drop_later(ref);
    delete this;
  }
};

// Pushes a new watch over the function on top of the stack, which it pops.
void push_watch(lua_State* L, lua_Integer id) {
  static_cast<Watch*>(lua_newuserdatauv(L, sizeof(Watch), 2))->id = id;
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, kMeta);
  lua_rawgetp(L, LUA_REGISTRYINDEX, kWatch);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, id);
  lua_rawgetp(L, LUA_REGISTRYINDEX, kAll);
  lua_pushvalue(L, -3);
  lua_pushinteger(L, id);
  lua_rawset(L, -3);
  lua_pop(L, 2);
}

// Finds the tensors that a Lua value refers to, through upvalues, tables and user values.
class Tracer {
 public:
  explicit Tracer(lua_State* L) : L_(L) {}
  bool complete() const { return visits_ > 0; }
  // The value on top of the stack, which it pops; `found` sees each tensor value there.
  template <class F>
  void visit(const F& found, int depth = 0) {
    const int at = lua_gettop(L_), type = lua_type(L_, at);
    const bool refers = type == LUA_TTABLE || type == LUA_TFUNCTION || type == LUA_TUSERDATA;
    if (refers && --visits_ > 0 && depth < 30 && lua_checkstack(L_, 8) &&
        seen_.insert(lua_topointer(L_, at)).second) {
      if (Impl* t = to_impl(L_, at)) {
        found(lua_touserdata(L_, at), t);
      } else if (type == LUA_TFUNCTION) {
        for (int i = 1; lua_getupvalue(L_, at, i); ++i) visit(found, depth + 1);
      } else if (type == LUA_TUSERDATA) {
        for (int i = 1; lua_getiuservalue(L_, at, i) != LUA_TNONE; ++i) visit(found, depth + 1);
        lua_pop(L_, 1);  // the nil that stands for no more
      } else {
        lua_pushnil(L_);
        while (lua_next(L_, at)) {
          lua_pushvalue(L_, -2);
          visit(found, depth + 1);
          visit(found, depth + 1);
        }
      }
    }
    lua_settop(L_, at - 1);
  }

 private:
  lua_State* L_;
  int visits_ = 5000;
  std::unordered_set<const void*> seen_;
};

// What would be freed if some tensors lost one reference each, without touching a count.
class Trial {
 public:
  void lose(Impl* p) {
    if (p && ++lost_[p] == p->count) tensors_.push_back(p);
  }
  void lose(GraphNode* n) {
    if (n && ++lost_[n] == n->count) nodes_.push_back(static_cast<Node*>(n));
  }
  bool frees(const Counted* owner) {
    while (!tensors_.empty() || !nodes_.empty()) {
      if (!tensors_.empty()) {
        Impl* p = tensors_.back();
        tensors_.pop_back();
        lose(p->node.get());
        lose(p->base.get());
        if (p->extra) lose(p->extra->grad.get());
      } else {
        Node* n = nodes_.back();
        nodes_.pop_back();
        for (const Edge& e : n->edges) {
          lose(e.node.get());
          lose(e.leaf.get());
        }
        for (const Saved& s : n->saved) lose(s.tensor.get());
      }
    }
    const auto it = lost_.find(owner);
    return it != lost_.end() && it->second == owner->count;
  }

 private:
  std::unordered_map<const Counted*, uint32_t> lost_;
  std::vector<Impl*> tensors_;
  std::vector<Node*> nodes_;
};

// A watch whose tensor value is gone: shall the function live on?
int finalise_watch(lua_State* L) {
  const auto it = live_hooks().find(static_cast<Watch*>(lua_touserdata(L, 1))->id);
  if (it == live_hooks().end()) return 0;  // the hook is gone too
  LuaHook* hook = it->second;
  luaL_checkstack(L, 20, "hook");
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, 1);
  lua_getiuservalue(L, 1, 2);
  lua_rawgetp(L, LUA_REGISTRYINDEX, kSeen);
  lua_newtable(L);
  const int function = 2, before = 3, alive = 4, now = 5;
  Trial trial;
  int tensors = 0;
  Tracer tracer(L);
  lua_pushvalue(L, function);
  tracer.visit([&](void* box, Impl* t) {
    ++tensors;
    bool known = false;
    if (lua_istable(L, before)) {
      known = lua_rawgetp(L, before, box) != LUA_TNIL;
      lua_pop(L, 1);
    }
    const bool reached = lua_rawgetp(L, alive, box) != LUA_TNIL;
    lua_pop(L, 1);
    if (known && !reached) trial.lose(t);
    lua_pushvalue(L, -1);  // the tensor value itself
    lua_rawsetp(L, alive, box);
    lua_pushboolean(L, true);
    lua_rawsetp(L, now, box);
  });
  if (tensors == 0 || !tracer.complete()) {
    lua_pushvalue(L, function);
    hook->ref = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
  }
  if (trial.frees(hook->owner)) return 0;
  lua_pushvalue(L, function);
  push_watch(L, hook->id);
  lua_pushvalue(L, now);
  lua_setiuservalue(L, -2, 2);
  return 0;
}

int remove_hook(lua_State* L) {
  lua_getfield(L, 1, "tensor");
  lua_getfield(L, 1, "id");
  if (to_impl(L, -2)) grad::remove_hook(check_tensor(L, -2, "remove"), lua_tointeger(L, -1));
  lua_rawgetp(L, LUA_REGISTRYINDEX, kHeld);
  lua_getfield(L, 1, "tensor");
  if (!lua_isnil(L, -1) && lua_rawget(L, -2) == LUA_TTABLE) {
    lua_getfield(L, 1, "_watch");
    if (!lua_isnil(L, -1)) {
      lua_pushnil(L);
      lua_rawset(L, -3);
    }
  }
  return 0;
}

int register_hook(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "register_hook");
  TYCHO_CHECK(Kind::Argument, lua_isfunction(L, 2),
              "register_hook: wants a function of the gradient");
  TYCHO_CHECK(Kind::Autograd, grad::requires_grad(x.get()),
              "register_hook: the tensor does not require grad");
  lua_settop(L, 2);
  const Counted* owner =
      x->node ? static_cast<const Counted*>(x->node.get()) : static_cast<const Counted*>(x.get());
  auto* hook = new LuaHook(owner);
  const int64_t id = grad::add_hook(x, Ref<Hook>(hook));
  lua_createtable(L, 0, 4);  // the handle
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, "tensor");
  lua_pushinteger(L, id);
  lua_setfield(L, -2, "id");
  lua_pushcfunction(L, guarded<remove_hook>);
  lua_setfield(L, -2, "remove");
  lua_pushvalue(L, 2);
  push_watch(L, hook->id);
  lua_rawgetp(L, LUA_REGISTRYINDEX, kHeld);
  lua_pushvalue(L, 1);
  if (lua_rawget(L, -2) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
  }
  lua_pushvalue(L, -3);
  lua_pushboolean(L, true);
  lua_rawset(L, -3);
  lua_pop(L, 2);
  lua_setfield(L, -2, "_watch");
  return 1;
}

void weak_table(lua_State* L, const char* key, const char* mode) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

}  // namespace

void open_hooks(lua_State* L) {
  weak_table(L, kHeld, "k");
  weak_table(L, kWatch, "v");
  weak_table(L, kAll, "k");
  weak_table(L, kSeen, "v");
  luaL_newmetatable(L, kMeta);
  lua_pushcfunction(L, guarded<finalise_watch>);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  push_methods(L);
  lua_pushcfunction(L, guarded<register_hook>);
  lua_setfield(L, -2, "register_hook");
  lua_pop(L, 1);
}

}  // namespace tycho::lua
