// What the graph keeps, in the hands of Lua: torch.autograd.graph.saved_tensors_hooks, and
// checkpoints, which keep nothing and compute the values again when a gradient asks for them.
#include "bindings/core/graph.h"
#include "bindings/tools/check.h"
#include "engine/amp/autocast.h"
#include "engine/grad/record.h"
#include "engine/ops/table/apply.h"
#include "engine/watch/trace.h"

namespace tycho::lua {
namespace {

struct HooksScope {
  SaveHooks* before = save_hooks;
  explicit HooksScope(SaveHooks* hooks) { save_hooks = hooks; }
  ~HooksScope() { save_hooks = before; }
  HooksScope(const HooksScope&) = delete;
};

// --- hooks written in Lua ---

struct Function : Counted {  // in the registry
  int ref;
  explicit Function(lua_State* L, int i) {
    lua_pushvalue(L, i);
    ref = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  static void destroy(Function* f) {
    drop_later(f->ref);
    delete f;
  }
};

struct LuaPacked final : Packed {
  Ref<Function> function;  // unpack
  int value_ref;           // what pack returned
  Tensor unpack() override {
    lua_State* L = running;
    luaL_checkstack(L, 4, "unpack");
    lua_rawgeti(L, LUA_REGISTRYINDEX, function->ref);
    lua_rawgeti(L, LUA_REGISTRYINDEX, value_ref);
    lua_call(L, 1, 1);
    const Tensor t = alias(check_tensor(L, -1, "saved_tensors_hooks: what unpack returned"));
    lua_pop(L, 1);
    return t;
  }
  void free_packed() override {
    drop_later(value_ref);
    delete this;
  }
};

struct LuaHooks final : SaveHooks {
  Ref<Function> pack_function, unpack_function;
  Ref<Packed> pack(const Tensor& t) override {
    lua_State* L = running;
    luaL_checkstack(L, 4, "pack");
    const uint32_t version = t->storage->version;
    lua_rawgeti(L, LUA_REGISTRYINDEX, pack_function->ref);
    push(L, t);
    lua_call(L, 1, 1);
    TYCHO_CHECK(Kind::Autograd, t->storage->version == version,
                "saved_tensors_hooks: pack changed its tensor in place; work on x:clone()");
    auto* packed = new LuaPacked;
    const Ref<Packed> hold(packed);
    packed->function = unpack_function;
    packed->value_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    return hold;
  }
};

// _saved_tensors_hooks(pack, unpack, f) -> what f returns
int lua_saved_tensors_hooks(lua_State* L) {
  for (int i = 1; i <= 3; ++i) check_function(L, i, "saved_tensors_hooks");
  LuaHooks hooks;
  hooks.pack_function = Ref<Function>(new Function(L, 1));
  hooks.unpack_function = Ref<Function>(new Function(L, 2));
  const HooksScope scope(&hooks);
  lua_settop(L, 3);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L) - 2;
}

// --- checkpoints ---

// One checkpointed call. Its values are numbered in the order in which they are saved; they are
// there while the function runs, and again, after it ran once more, until each has been used.
struct Frame : Counted {
  struct Form {
    Sizes shape;
    DType dtype;
    Device device;
  };
  Ref<Function> again;  // calls the function with its arguments
  amp::Region region;
  std::vector<Form> forms;
  std::vector<Tensor> values;
  static void destroy(Frame* f) { delete f; }
  void recompute();
};

struct Promise final : Packed {
  Ref<Frame> frame;
  size_t number;
  Promise(Frame* f, size_t n) : frame(f), number(n) {}
  Tensor unpack() override {
    if (!frame->values[number]) frame->recompute();
    return std::move(frame->values[number]);
  }
  void free_packed() override { delete this; }
};

struct Kept final : Packed {  // of the graph of a second run, which is not used
  Tensor tensor;
  explicit Kept(Tensor t) : tensor(std::move(t)) {}
  Tensor unpack() override { return tensor; }
  void free_packed() override { delete this; }
};

struct FirstRun final : SaveHooks {
  Ref<Frame> frame;
  Ref<Packed> pack(const Tensor& t) override {
    frame->forms.push_back({t.shape(), t.dtype(), t.device()});
    frame->values.push_back(t);
    return Ref<Packed>(new Promise(frame.get(), frame->forms.size() - 1));
  }
};

const char kEnough = 0;  // its address is the error that ends a second run

struct SecondRun final : SaveHooks {
  Frame* frame;
  size_t next = 0;
  Ref<Packed> pack(const Tensor& t) override {
    const size_t number = next++;
    if (number < frame->forms.size()) {
      const Frame::Form& f = frame->forms[number];
      if (!(f.shape == t.shape()) || f.dtype != t.dtype() || !(f.device == t.device()))
        fail(Kind::Autograd,
             format("checkpoint: computed again, the function saved %s where it saved %s %s first",
                    describe(t).c_str(), dtype_name(f.dtype), to_string(f.shape).c_str()),
             "it must do the same both times: nothing that changes from call to call may decide "
             "what it computes");
      frame->values[number] = t;
      if (number + 1 == frame->forms.size()) {
        lua_pushlightuserdata(running, const_cast<char*>(&kEnough));
        lua_error(running);
      }
    }
    return Ref<Packed>(new Kept(t));
  }
};

// Runs the function once more, in the modes that it first had, until its last saved value is there.
void Frame::recompute() {
  lua_State* L = running;
  luaL_checkstack(L, 4, "checkpoint");
  const Ref<Frame> hold(this);
  struct Modes {
    lua_State* L;
    Mode now = mode;
    amp::Region region = amp::current();
    ~Modes() {
      amp::set(region);
      mode = now;
      modes_changed(L);
    }
  } const before{L};
  amp::set(region);
  mode.grad = true;
  mode.inference = false;
  mode.sweeping = false;
  modes_changed(L);
  SecondRun hooks;
  hooks.frame = this;
  const HooksScope scope(&hooks);
  values.assign(forms.size(), Tensor());
  lua_rawgeti(L, LUA_REGISTRYINDEX, again->ref);
  const int status = lua_pcall(L, 0, 0, 0);
  enter(L);
  if (status != LUA_OK && lua_touserdata(L, -1) != &kEnough) lua_error(L);
  if (status != LUA_OK) lua_pop(L, 1);
  // The function's own variables are garbage now: where they are large, memory is why we are here.
  int64_t bytes = 0;
  for (const Tensor& t : values)
    if (t) bytes += static_cast<int64_t>(t->storage->bytes);
  if (bytes > int64_t{4} << 20) lua_gc(L, LUA_GCSTEP, 0);
  if (hooks.next < forms.size())
    fail(Kind::Autograd,
         format("checkpoint: computed again, the function saved %zu tensors and not %zu as first",
                hooks.next, forms.size()),
         "it must do the same both times: nothing that changes from call to call may decide what "
         "it computes");
}

// _checkpoint(again, f, ...) -> what f(...) returns
int lua_checkpoint(lua_State* L) {
  check_function(L, 1, "checkpoint");
  check_function(L, 2, "checkpoint");
  FirstRun hooks;
  hooks.frame = Ref<Frame>(new Frame);
  hooks.frame->again = Ref<Function>(new Function(L, 1));
  hooks.frame->region = amp::current();
  {
    const HooksScope scope(&hooks);
    lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
  }
  for (Tensor& t : hooks.frame->values) t = Tensor();
  return lua_gettop(L) - 1;
}

}  // namespace

void open_saved(lua_State* L, int torch) {
  static const luaL_Reg functions[] = {{"_saved_tensors_hooks", guarded<lua_saved_tensors_hooks>},
                                       {"_checkpoint", guarded<lua_checkpoint>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
