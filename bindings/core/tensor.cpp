// The tensor as a Lua value: making and checking its userdata, fields (x.shape, x.grad, ...), and
// the simple methods that read the layout.
#include <cstring>

#include "bindings/core/format_argument.h"
#include "bindings/core/lua.h"
#include "engine/grad/backward.h"
#include "engine/grad/inplace.h"
#include "engine/grad/record.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/before_change.h"
#include "engine/tensor/layout.h"
#include "engine/watch/notes.h"
#include "engine/watch/trace.h"

namespace tycho::lua {
namespace {

const char kMeta[] = "tycho.tensor", kSame[] = "tycho.same", kMethods[] = "tycho.methods";

Tensor self(lua_State* L) { return check_tensor(L, 1, "self"); }

}  // namespace

const char* to_memory_format(lua_State* L, int i, const char* who) {
  if (lua_isnoneornil(L, i)) return nullptr;
  if (lua_type(L, i) == LUA_TSTRING) return lua_tostring(L, i);
  TYCHO_CHECK(Kind::Argument, lua_type(L, i) == LUA_TTABLE,
              "%s: memory_format is torch.channels_last or one of its kind, not a %s", who,
              luaL_typename(L, i));
  const char* format = nullptr;
  lua_pushnil(L);
  while (lua_next(L, i)) {
    TYCHO_CHECK(
        Kind::Argument,
        lua_type(L, -2) == LUA_TSTRING && !std::strcmp(lua_tostring(L, -2), "memory_format"),
        "%s: the one argument is memory_format", who);
    TYCHO_CHECK(Kind::Argument, lua_type(L, -1) == LUA_TSTRING,
                "%s: memory_format is torch.channels_last or one of its kind, not a %s", who,
                luaL_typename(L, -1));
    format = lua_tostring(L, -1);  // the table holds it
    lua_pop(L, 1);
  }
  return format;
}

namespace {

// --- fields: read ---
using Field = int (*)(lua_State* L, const Tensor& x);

// The user reads .grad of a computed tensor, which has none.
void note_no_grad(lua_State* L, const Tensor& x) {
  lua_Debug ar;
  if (!lua_getstack(L, 1, &ar) || !lua_getinfo(L, "S", &ar) ||
      !std::strncmp(ar.source, "=torch/", 7) || !std::strncmp(ar.source, "=shell/", 7))
    return;
  const Where where = here();
  if (!watch::wants_note("GRAD", where)) return;
  const Node& n = *static_cast<const Node*>(x->node.get());
  const std::string op = bare_name(n.name());
  const bool leaf_before = n.edges.size() > 0 && n.edges[0].leaf;
  watch::show_note(
      "GRAD", op == "to" && leaf_before ? "moved" : "computed", where,
      {{"op", op},
       {"at", at(n.where)},
       {"option", x.device().is_cpu() ? format("dtype=\"%s\"", dtype_name(x.dtype()))
                                      : format("device=\"%s\"", device_name(x.device()).c_str())}});
}

int get_shape(lua_State* L, const Tensor& x) {
  push_shape(L, x->shape, x.rank());
  return 1;
}
int get_dtype(lua_State* L, const Tensor& x) {
  push_dtype(L, x.dtype());
  return 1;
}
int get_device(lua_State* L, const Tensor& x) {
  push_device(L, x.device());
  return 1;
}
int get_ndim(lua_State* L, const Tensor& x) {
  lua_pushinteger(L, x.rank());
  return 1;
}
int get_requires_grad(lua_State* L, const Tensor& x) {
  lua_pushboolean(L, grad::requires_grad(x.get()));
  return 1;
}
int get_is_leaf(lua_State* L, const Tensor& x) {
  grad::requires_grad(x.get());
  lua_pushboolean(L, x.is_leaf());
  return 1;
}
int get_grad(lua_State* L, const Tensor& x) {
  if (x->node && !(x->extra && (x->extra->grad || x->extra->retains_grad))) note_no_grad(L, x);
  push_same(L, x->extra ? x->extra->grad : Tensor());
  return 1;
}
int get_is_cuda(lua_State* L, const Tensor& x) {
  lua_pushboolean(L, !x.device().is_cpu());
  return 1;
}
int get_is_cpu(lua_State* L, const Tensor& x) {
  lua_pushboolean(L, x.device().is_cpu());
  return 1;
}
int get_itemsize(lua_State* L, const Tensor& x) {
  lua_pushinteger(L, static_cast<lua_Integer>(dtype_size(x.dtype())));
  return 1;
}
int get_nbytes(lua_State* L, const Tensor& x) {
  lua_pushinteger(L, x.numel() * static_cast<lua_Integer>(dtype_size(x.dtype())));
  return 1;
}
int get_false(lua_State* L, const Tensor&) {  // kinds of tensors that there are not
  lua_pushboolean(L, false);
  return 1;
}
int get_layout(lua_State* L, const Tensor&) {
  lua_pushliteral(L, "torch.strided");
  return 1;
}
int get_retains_grad(lua_State* L, const Tensor& x) {
  lua_pushboolean(L, x->node && x->extra && x->extra->retains_grad);
  return 1;
}
int get_T(lua_State* L, const Tensor& x) {
  push(L, op<"T">(x));
  return 1;
}
int get_mT(lua_State* L, const Tensor& x) {
  push(L, op<"mT">(x));
  return 1;
}
int get_grad_fn(lua_State* L, const Tensor& x) {
  grad::requires_grad(x.get());
  if (!x->node) {
    lua_pushnil(L);
    return 1;
  }
  const auto* n = static_cast<const Node*>(x->node.get());
  lua_createtable(L, 0, 3);
  lua_pushstring(L, n->name());
  lua_setfield(L, -2, "name");
  lua_pushstring(L, to_string(n->where).c_str());
  lua_setfield(L, -2, "where");
  lua_pushinteger(L, static_cast<lua_Integer>(n->id));
  lua_setfield(L, -2, "id");
  return 1;
}
int get_data(lua_State* L, const Tensor& x) {
  const Tensor same = alias(x);
  if (x->requires_grad) same->trace = watch::new_trace(watch::Cut::Constant, "data");
  push(L, same);
  return 1;
}

constexpr struct {
  const char* name;
  Field get;
} kFields[] = {
    {"shape", get_shape},
    {"dtype", get_dtype},
    {"device", get_device},
    {"ndim", get_ndim},
    {"requires_grad", get_requires_grad},
    {"is_leaf", get_is_leaf},
    {"grad", get_grad},
    {"grad_fn", get_grad_fn},
    {"T", get_T},
    {"mT", get_mT},
    {"H", get_T},
    {"mH", get_mT},
    {"is_cuda", get_is_cuda},
    {"is_cpu", get_is_cpu},
    {"is_sparse", get_false},
    {"layout", get_layout},
    {"itemsize", get_itemsize},
    {"nbytes", get_nbytes},
    {"retains_grad", get_retains_grad},
    {"data", get_data},
};

// --- fields: write ---
void set_grad(lua_State* L, const Tensor& x) {
  if (lua_isnil(L, 3)) {
    if (x->extra) x->extra->grad = Tensor();
    return;
  }
  const Tensor& g = check_tensor(L, 3, "grad");
  TYCHO_CHECK(Kind::Shape, g.shape() == x.shape(),
              "grad: a gradient of shape %s does not fit a tensor of shape %s",
              to_string(g.shape()).c_str(), to_string(x.shape()).c_str());
  TYCHO_CHECK(Kind::DType, g.dtype() == x.dtype(),
              "grad: a gradient of %s does not fit a tensor of %s", dtype_name(g.dtype()),
              dtype_name(x.dtype()));
  if (g.device() != x.device())
    fail(Kind::Device,
         format("grad: the gradient is on %s, the tensor on %s", device_name(g.device()).c_str(),
                device_name(x.device()).c_str()),
         "x.grad = g:to(x.device)");
  extra_of(x.get()).grad = g;
  keep_same(L, 3);
}

void set_requires_grad(const Tensor& x, bool on) {
  TYCHO_CHECK(Kind::DType, !on || is_floating(x.dtype()),
              "requires_grad: only floating point tensors can require grad, not %s",
              dtype_name(x.dtype()));
  TYCHO_CHECK(Kind::Autograd, !on || !x->is_inference,
              "requires_grad: a tensor made in inference_mode cannot require grad; clone it first");
  if (grad::requires_grad(x.get()) == on) return;
  TYCHO_CHECK(Kind::Autograd, on || !x->node,
              "requires_grad: only a leaf can stop requiring grad; this tensor was computed (by "
              "%s): use y = x:detach()",
              static_cast<const Node*>(x->node.get())->name());
  x->requires_grad = on;
}

void set_data(lua_State* L, const Tensor& x) {
  const Tensor from = check_tensor(L, 3, "data");
  about_to_change(x, "data", true);
  straighten(x);
  straighten(from);
  x->storage = from->storage;
  x->dtype = from->dtype;
  x->device = from->device;
  x->rank = from->rank;
  x->numel = from->numel;
  x->offset = from->offset;
  x->contiguous = from->contiguous;
  std::memcpy(x->shape, from->shape, sizeof x->shape);
  std::memcpy(x->stride, from->stride, sizeof x->stride);
}

// --- metamethods ---
int tensor_index(lua_State* L) {
  // x:method() first: it is by far the most frequent.
  if (lua_type(L, 2) == LUA_TSTRING) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) {
      if (!lua_islightuserdata(L, -1)) return 1;  // a method
      const auto field = reinterpret_cast<Field>(lua_touserdata(L, -1));
      return field(L, self(L));
    }
    lua_pop(L, 1);
  }
  return index_get(L);
}

int tensor_newindex(lua_State* L) {
  if (lua_type(L, 2) == LUA_TSTRING) {
    const char* key = lua_tostring(L, 2);
    const Tensor x = self(L);
    if (!std::strcmp(key, "grad")) {
      set_grad(L, x);
      return 0;
    }
    if (!std::strcmp(key, "requires_grad")) {
      set_requires_grad(x, lua_toboolean(L, 3));
      return 0;
    }
    if (!std::strcmp(key, "data")) {
      set_data(L, x);
      return 0;
    }
    for (const auto& f : kFields)
      TYCHO_CHECK(Kind::Argument, std::strcmp(f.name, key) != 0, "a tensor's %s cannot be assigned",
                  key);
  }
  return index_set(L);
}

int tensor_len(lua_State* L) {
  const Tensor x = self(L);
  TYCHO_CHECK(Kind::Shape, x.rank() > 0, "#: a 0-d tensor has no length");
  lua_pushinteger(L, x.size(0));
  return 1;
}

int tensor_tostring(lua_State* L) {
  const std::string text = show(self(L));
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

// --- methods that read the layout ---
int64_t dim_at(lua_State* L, int i, const Tensor& x) {
  std::string room;
  TYCHO_CHECK(Kind::Argument, lua_isinteger(L, i), "a dimension is an integer from 1, not %s",
              describe_value(L, i, &room));
  const int64_t d = lua_tointeger(L, i);
  TYCHO_CHECK(Kind::Dim, d != 0, "dimension 0: dimensions count from 1; the last one is -1");
  TYCHO_CHECK(Kind::Dim, x.rank() > 0, "a 0-d tensor has no dimension %lld",
              static_cast<long long>(d));
  return wrap_dim(d > 0 ? d - 1 : d, x.rank());
}
int m_size(lua_State* L) {
  const Tensor x = self(L);
  if (lua_isnoneornil(L, 2)) return get_shape(L, x);
  lua_pushinteger(L, x.size(static_cast<int>(dim_at(L, 2, x))));
  return 1;
}
int m_stride(lua_State* L) {
  const Tensor x = self(L);
  if (lua_isnoneornil(L, 2)) {
    push_shape(L, shown_strides(x.get()).v, x.rank());
    return 1;
  }
  lua_pushinteger(L, shown_strides(x.get())[static_cast<int>(dim_at(L, 2, x))]);
  return 1;
}
int m_dim(lua_State* L) { return get_ndim(L, self(L)); }
int m_numel(lua_State* L) {
  lua_pushinteger(L, self(L).numel());
  return 1;
}
// x:is_contiguous(), x:is_contiguous{memory_format = torch.channels_last}
int m_is_contiguous(lua_State* L) {
  const Tensor& x = self(L);
  const char* format = to_memory_format(L, 2, "is_contiguous");
  const int rank = format ? format_rank("is_contiguous", format) : 0;
  lua_pushboolean(
      L, rank ? x.rank() == rank && shown_as(x, Format::ChannelsLast) : shown_contiguous(x.get()));
  return 1;
}
int m_storage_offset(lua_State* L) {
  lua_pushinteger(L, self(L)->offset);
  return 1;
}
int m_element_size(lua_State* L) {
  lua_pushinteger(L, dtype_size(self(L).dtype()));
  return 1;
}
int m_data_ptr(lua_State* L) {
  const Tensor x = self(L);
  straighten(x);
  lua_pushinteger(L, reinterpret_cast<lua_Integer>(x.data()));
  return 1;
}
int m_version(lua_State* L) {
  lua_pushinteger(L, self(L)->storage->version);
  return 1;
}
int m_is_floating_point(lua_State* L) {
  lua_pushboolean(L, is_floating(self(L).dtype()));
  return 1;
}
int m_requires_grad_(lua_State* L) {
  set_requires_grad(self(L), lua_isnoneornil(L, 2) || lua_toboolean(L, 2));
  lua_settop(L, 1);
  return 1;
}

}  // namespace

const Tensor& check_tensor(lua_State* L, int i, const char* what) {
  Impl* p = to_impl(L, i);
  if (!p) {
    std::string room;
    fail(Kind::Argument,
         format("%s: a tensor is wanted, not %s", what, describe_value(L, i, &room)));
  }
  return reinterpret_cast<const Tensor&>(static_cast<Box*>(lua_touserdata(L, i))->p);
}

void push(lua_State* L, const Tensor& t) {
  if (!t) {
    lua_pushnil(L);
    return;
  }
  Box* b = static_cast<Box*>(lua_newuserdatauv(L, sizeof(Box), 0));
  t->retain();
  b->p = t.get();
  b->tag = box_secret ^ reinterpret_cast<uint64_t>(b);
  lua_rawgetp(L, LUA_REGISTRYINDEX, kMeta);
  lua_setmetatable(L, -2);
}

void push_same(lua_State* L, const Tensor& t) {
  if (!t) {
    lua_pushnil(L);
    return;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, kSame);
  if (lua_rawgetp(L, -1, t.get()) == LUA_TNIL) {
    lua_pop(L, 1);
    push(L, t);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, t.get());
  }
  lua_remove(L, -2);
}

void keep_same(lua_State* L, int i) {
  i = lua_absindex(L, i);
  lua_rawgetp(L, LUA_REGISTRYINDEX, kSame);
  lua_pushvalue(L, i);
  lua_rawsetp(L, -2, to_impl(L, i));
  lua_pop(L, 1);
}

void push_methods(lua_State* L) { lua_rawgetp(L, LUA_REGISTRYINDEX, kMethods); }

void open_tensor(lua_State* L) {
  lua_newtable(L);  // methods and, as light userdata, fields
  static const luaL_Reg methods[] = {{"size", guarded<m_size>},
                                     {"stride", guarded<m_stride>},
                                     {"dim", guarded<m_dim>},
                                     {"numel", guarded<m_numel>},
                                     {"nelement", guarded<m_numel>},
                                     {"ndimension", guarded<m_dim>},
                                     {"is_contiguous", guarded<m_is_contiguous>},
                                     {"storage_offset", guarded<m_storage_offset>},
                                     {"element_size", guarded<m_element_size>},
                                     {"data_ptr", guarded<m_data_ptr>},
                                     {"_version", guarded<m_version>},
                                     {"is_floating_point", guarded<m_is_floating_point>},
                                     {"requires_grad_", guarded<m_requires_grad_>},
                                     {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
  for (const auto& f : kFields) {
    lua_pushlightuserdata(L, reinterpret_cast<void*>(f.get));
    lua_setfield(L, -2, f.name);
  }
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, kMethods);
  luaL_newmetatable(L, kMeta);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, kMeta);
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, guarded<tensor_index>, 1);
  lua_setfield(L, -2, "__index");
  static const luaL_Reg meta[] = {{"__newindex", guarded<tensor_newindex>},
                                  {"__len", guarded<tensor_len>},
                                  {"__tostring", guarded<tensor_tostring>},
                                  {nullptr, nullptr}};
  luaL_setfuncs(L, meta, 0);
  lua_pushliteral(L, "Tensor");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, false);  // getmetatable gives nothing to break
  lua_setfield(L, -2, "__metatable");
  set_tensor_gc(L, -1);
  lua_pop(L, 2);
  lua_newtable(L);  // tensors that must be the same Lua value each time, weakly
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, kSame);
}

}  // namespace tycho::lua
