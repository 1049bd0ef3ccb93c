// dtype, device and shape as Lua values. There is one Lua object per dtype and per device, so `==`
// and use as table keys work.
#include <cstring>

#include "bindings/core/device.h"

namespace tycho::lua {
namespace {

const char kDType[] = "tycho.dtype", kDevice[] = "tycho.device", kShape[] = "tycho.shape";

int dtype_tostring(lua_State* L) {
  DType t;
  to_dtype(L, 1, &t);
  lua_pushfstring(L, "torch.%s", dtype_name(t));
  return 1;
}

int dtype_index(lua_State* L) {
  DType t;
  to_dtype(L, 1, &t);
  const char* key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (!std::strcmp(key, "is_floating_point"))
    lua_pushboolean(L, is_floating(t));
  else if (!std::strcmp(key, "itemsize"))
    lua_pushinteger(L, dtype_size(t));
  else if (!std::strcmp(key, "name"))
    lua_pushstring(L, dtype_name(t));
  else
    lua_pushnil(L);
  return 1;
}

Device device_at(lua_State* L, int i) {
  return *static_cast<Device*>(luaL_checkudata(L, i, kDevice));
}

int device_tostring(lua_State* L) {
  const Device d = device_at(L, 1);
  lua_pushstring(L, d == kCurrentCuda ? "cuda" : device_name(d).c_str());
  return 1;
}

int device_index(lua_State* L) {
  const Device d = device_at(L, 1);
  const char* key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (!std::strcmp(key, "type"))
    lua_pushstring(L, d.is_cpu() ? "cpu" : "cuda");
  else if (!std::strcmp(key, "index") && !d.is_cpu() && d != kCurrentCuda)
    lua_pushinteger(L, d.number);
  else
    lua_pushnil(L);
  return 1;
}

int shape_tostring(lua_State* L) {
  const int n = static_cast<int>(lua_rawlen(L, 1));
  std::string text = "[";
  for (int i = 1; i <= n; ++i) {
    lua_rawgeti(L, 1, i);
    text += (i > 1 ? ", " : "") + std::string(luaL_tolstring(L, -1, nullptr));
    lua_pop(L, 2);
  }
  lua_pushstring(L, (text + "]").c_str());
  return 1;
}

int shape_eq(lua_State* L) {
  bool same = lua_type(L, 1) == LUA_TTABLE && lua_type(L, 2) == LUA_TTABLE &&
              lua_rawlen(L, 1) == lua_rawlen(L, 2);
  for (int i = 1, n = same ? static_cast<int>(lua_rawlen(L, 1)) : 0; i <= n && same; ++i) {
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, 2, i);
    same = lua_compare(L, -1, -2, LUA_OPEQ);
    lua_pop(L, 2);
  }
  lua_pushboolean(L, same);
  return 1;
}

// How many elements a tensor of this shape has.
int shape_numel(lua_State* L) {
  if (lua_type(L, 1) != LUA_TTABLE)
    fail(tycho::Kind::Argument, "shape.numel: called with a colon: x.shape:numel()");
  lua_Unsigned product = 1;
  for (int i = 1, n = static_cast<int>(lua_rawlen(L, 1)); i <= n; ++i) {
    lua_rawgeti(L, 1, i);
    product *= static_cast<lua_Unsigned>(lua_tointeger(L, -1));
    lua_pop(L, 1);
  }
  lua_pushinteger(L, static_cast<lua_Integer>(product));
  return 1;
}

// Positions that no table has: negative ones count from the end, as everywhere.
int shape_index(lua_State* L) {
  if (lua_type(L, 2) == LUA_TSTRING && !std::strcmp(lua_tostring(L, 2), "numel")) {
    lua_pushcfunction(L, guarded<shape_numel>);
    return 1;
  }
  const auto n = static_cast<lua_Integer>(lua_rawlen(L, 1));
  const lua_Integer i = lua_isinteger(L, 2) ? lua_tointeger(L, 2) : n + 1;
  if (i > 0) return 0;
  if (i == 0 || i < -n)
    fail(tycho::Kind::Dim,
         i == 0 ? format("shape: dimension 0: dimensions count from 1; the last one is -1")
                : format("shape: dimension %lld is out of range for %lld dimensions",
                         static_cast<long long>(i), static_cast<long long>(n)));
  lua_rawgeti(L, 1, n + 1 + i);
  return 1;
}

void meta(lua_State* L, const char* name, const luaL_Reg* functions, const char* shown) {
  luaL_newmetatable(L, name);
  luaL_setfuncs(L, functions, 0);
  lua_pushstring(L, shown);
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
}

}  // namespace

void push_dtype(lua_State* L, DType t) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, kDType);
  lua_rawgeti(L, -1, static_cast<int>(t) + 1);
  lua_remove(L, -2);
}

void push_device(lua_State* L, Device d) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, kDevice);
  if (lua_rawgeti(L, -1, d.number + 2) == LUA_TNIL) {
    lua_pop(L, 1);
    *static_cast<Device*>(lua_newuserdatauv(L, sizeof(Device), 0)) = d;
    luaL_setmetatable(L, kDevice);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, d.number + 2);
  }
  lua_remove(L, -2);
}

void push_shape(lua_State* L, const int64_t* v, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; ++i) {
    lua_pushinteger(L, v[i]);
    lua_rawseti(L, -2, i + 1);
  }
  luaL_setmetatable(L, kShape);
}

bool to_dtype(lua_State* L, int i, DType* out) {
  if (const auto* t = static_cast<DType*>(luaL_testudata(L, i, kDType))) {
    *out = *t;
    return true;
  }
  return lua_type(L, i) == LUA_TSTRING && parse_dtype(lua_tostring(L, i), out);
}

bool to_device_value(lua_State* L, int i, Device* out) {
  if (const auto* d = static_cast<Device*>(luaL_testudata(L, i, kDevice)))
    *out = *d;
  else if (lua_isinteger(L, i))
    *out = parse_device("cuda:" + std::to_string(lua_tointeger(L, i)));
  else if (lua_type(L, i) == LUA_TSTRING)
    *out = parse_device(lua_tostring(L, i));
  else
    return false;
  return true;
}

bool to_device(lua_State* L, int i, Device* out) {
  if (lua_isinteger(L, i)) return *out = cuda_device(lua_tointeger(L, i)), true;
  if (!to_device_value(L, i, out)) return false;
  if (*out == kCurrentCuda) return *out = current_cuda_device(), true;
  if (!out->is_cpu()) cuda_device(out->number);  // raises when it is not there
  return true;
}

constinit thread_local DefaultDevice default_device;

bool takes_default_device(lua_State* L, Device* out) {
  if (!default_device.set) [[likely]]
    return false;
  lua_Debug caller;
  if (lua_getstack(L, 1, &caller) && lua_getinfo(L, "S", &caller))
    for (const char* own : {"=torch/", "=shell/"})
      if (!std::strncmp(caller.source, own, std::strlen(own))) return false;
  push_device(L, default_device.device);
  to_device(L, -1, out);  // raises when it is not there
  lua_pop(L, 1);
  return true;
}

void open_objects(lua_State* L) {
  static const luaL_Reg dtype[] = {
      {"__tostring", dtype_tostring}, {"__index", dtype_index}, {nullptr, nullptr}};
  static const luaL_Reg device[] = {
      {"__tostring", device_tostring}, {"__index", device_index}, {nullptr, nullptr}};
  static const luaL_Reg shape[] = {{"__tostring", shape_tostring},
                                   {"__eq", shape_eq},
                                   {"__index", guarded<shape_index>},
                                   {nullptr, nullptr}};
  meta(L, kDType, dtype, "dtype");
  meta(L, kDevice, device, "device");
  meta(L, kShape, shape, "shape");
  lua_newtable(L);
  for (int i = 0; i < kDTypes; ++i) {
    *static_cast<DType*>(lua_newuserdatauv(L, sizeof(DType), 0)) = static_cast<DType>(i);
    luaL_setmetatable(L, kDType);
    lua_rawseti(L, -2, i + 1);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, kDType);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, kDevice);
}

}  // namespace tycho::lua
