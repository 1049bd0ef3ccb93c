// Lua values to tensors and back: torch.tensor and friends, item, tolist.
#include <cstring>

#include "bindings/core/device.h"
#include "bindings/core/format_argument.h"
#include "bindings/core/lua.h"
#include "engine/base/interrupt.h"
#include "engine/grad/record.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/half.h"
#include "engine/tensor/layout.h"
#include "engine/tensor/read.h"
#include "engine/watch/trace.h"

namespace tycho::lua {
namespace {

// Reads nested tables in two passes: the first finds shape and type, the second stores.
class TableReader {
 public:
  TableReader(lua_State* L, int table, bool named)
      : L_(L), table_(lua_absindex(L, table)), named_(named) {}

  void measure() {
    const int top = lua_gettop(L_);
    lua_pushvalue(L_, table_);
    while (lua_type(L_, -1) == LUA_TTABLE) {
      TYCHO_CHECK(Kind::Shape, shape.n < kMaxDims,
                  "tensor: the tables are nested deeper than %d levels", kMaxDims);
      luaL_checkstack(L_, 2, "nested tables");
      shape.push_back(static_cast<int64_t>(lua_rawlen(L_, -1)));
      if (shape[shape.n - 1] == 0) break;
      lua_rawgeti(L_, -1, 1);
    }
    lua_settop(L_, top);
    check(table_, 0);
  }

  DType natural() const {
    return any_float_  ? default_dtype()
           : any_int_  ? DType::Int64
           : any_bool_ ? DType::Bool
                       : default_dtype();
  }

  void store(const Tensor& t) {
    at_ = 0;
    walk(table_, 0, t);
  }

  Sizes shape;

 private:
  // Every element: the same shape all over, and a number or boolean at the bottom.
  void check(int table, int depth) {
    luaL_checkstack(L_, 4, "nested tables");
    if (depth == shape.n) return;
    const int64_t n = static_cast<int64_t>(lua_rawlen(L_, table));
    if (n != shape[depth])
      fail(
          Kind::Shape,
          format("tensor: the tables are ragged: at depth %d one has %lld elements, the first %lld",
                 depth + 1, static_cast<long long>(n), static_cast<long long>(shape[depth])),
          "every row needs the same number of elements");
    if (!(named_ && depth == 0) && depth < shape.n) check_keys(table, n);
    for (int64_t i = 1; i <= n; ++i) {
      lua_rawgeti(L_, table, i);
      const int type = lua_type(L_, -1);
      if (depth + 1 < shape.n) {
        if (type != LUA_TTABLE)
          fail(Kind::Shape, format("tensor: the tables are ragged: element %lld at depth %d is %s, "
                                   "others are tables",
                                   static_cast<long long>(i), depth + 1, luaL_typename(L_, -1)));
        check(lua_gettop(L_), depth + 1);
      } else if (type == LUA_TNUMBER) {
        if (lua_isinteger(L_, -1))
          any_int_ = true;
        else
          any_float_ = true;
      } else if (type == LUA_TBOOLEAN) {
        any_bool_ = true;
      } else if (const Impl* t = to_impl(L_, -1)) {
        if (t->numel != 1)
          fail(Kind::Argument,
               "tensor: a table of tensors with several elements is no table of numbers",
               "torch.stack(list)  -- joins tensors");
        (is_floating(t->dtype)     ? any_float_
         : t->dtype == DType::Bool ? any_bool_
                                   : any_int_) = true;
      } else if (type == LUA_TTABLE) {
        fail(Kind::Shape, format("tensor: the tables are ragged: element %lld at depth %d is a "
                                 "table, the first is not",
                                 static_cast<long long>(i), depth + 1));
      } else {
        std::string room;
        fail(Kind::Argument, format("tensor: element %lld must be a number or a boolean, not %s",
                                    static_cast<long long>(i), describe_value(L_, -1, &room)));
      }
      lua_pop(L_, 1);
    }
  }
  void check_keys(int table, int64_t n) {
    if (n > 64) return;  // a long list with stray keys is not worth a second pass
    lua_pushnil(L_);
    while (lua_next(L_, table)) {
      lua_pop(L_, 1);
      if (lua_type(L_, -1) == LUA_TSTRING)
        fail(Kind::Argument,
             format("tensor: no argument \"%s\" (it has: data, dtype, device, requires_grad)",
                    lua_tostring(L_, -1)));
    }
  }

  void walk(int table, int depth, const Tensor& t) {
    const int64_t n = static_cast<int64_t>(lua_rawlen(L_, table));
    for (int64_t i = 1; i <= n; ++i) {
      lua_rawgeti(L_, table, i);
      if (depth + 1 < shape.n)
        walk(lua_gettop(L_), depth + 1, t);
      else
        put(t, at_++);
      lua_pop(L_, 1);
    }
  }

  void put(const Tensor& t, int64_t at) {
    double x = 0;
    int64_t k = 0;
    bool integer = false;
    const int type = lua_type(L_, -1);
    if (type == LUA_TNUMBER && lua_isinteger(L_, -1)) {
      k = lua_tointeger(L_, -1);
      x = static_cast<double>(k);
      integer = true;
    } else if (type == LUA_TNUMBER) {
      x = lua_tonumber(L_, -1);
    } else if (type == LUA_TBOOLEAN) {
      k = lua_toboolean(L_, -1);
      x = static_cast<double>(k);
      integer = true;
    } else if (const Impl* e = to_impl(L_, -1)) {
      x = number_at(e, 0);
      k = integer_at(e, 0);
      integer = !is_floating(e->dtype);
    }
    store_number(t.get(), at, x, k, integer);
  }

 public:
  static void store_number(Impl* t, int64_t at, double x, int64_t k, bool integer) {
    if (!integer) k = x >= -9.2e18 && x <= 9.2e18 ? static_cast<int64_t>(x) : INT64_MIN;
    switch (t->dtype) {
      case DType::Bool:
        t->host<uint8_t>()[at] = integer ? k != 0 : x != 0;
        break;
      case DType::UInt8:
        t->host<uint8_t>()[at] = static_cast<uint8_t>(k);
        break;
      case DType::Int8:
        t->host<int8_t>()[at] = static_cast<int8_t>(k);
        break;
      case DType::Int16:
        t->host<int16_t>()[at] = static_cast<int16_t>(k);
        break;
      case DType::Int32:
        t->host<int32_t>()[at] = static_cast<int32_t>(k);
        break;
      case DType::Int64:
        t->host<int64_t>()[at] = k;
        break;
      case DType::Float16:
        t->host<uint16_t>()[at] = to_float16(static_cast<float>(x));
        break;
      case DType::BFloat16:
        t->host<uint16_t>()[at] = to_bfloat16(static_cast<float>(x));
        break;
      case DType::Float32:
        t->host<float>()[at] = static_cast<float>(x);
        break;
      case DType::Float64:
        t->host<double>()[at] = x;
        break;
    }
  }

 private:
  lua_State* L_;
  int table_;
  bool named_;
  bool any_float_ = false, any_int_ = false, any_bool_ = false;
  int64_t at_ = 0;
};

struct MakeOptions {
  bool has_dtype = false, has_device = false, requires_grad = false;
  DType dtype = DType::Float32;
  Device device;
};

void read_options(lua_State* L, int table, MakeOptions* o) {
  table = lua_absindex(L, table);
  lua_pushnil(L);
  while (lua_next(L, table)) {
    if (lua_type(L, -2) == LUA_TSTRING) {
      const std::string key = lua_tostring(L, -2);
      std::string room;
      if (key == "dtype") {
        TYCHO_CHECK(Kind::DType, to_dtype(L, -1, &o->dtype), "tensor: %s is no dtype",
                    describe_value(L, -1, &room));
        o->has_dtype = true;
      } else if (key == "device") {
        TYCHO_CHECK(Kind::Argument, to_device(L, -1, &o->device), "tensor: %s is no device",
                    describe_value(L, -1, &room));
        o->has_device = true;
      } else if (key == "requires_grad") {
        o->requires_grad = lua_toboolean(L, -1);
      } else if (key != "data") {
        fail(Kind::Argument,
             format("tensor: no argument \"%s\" (it has: data, dtype, device, requires_grad)",
                    key.c_str()));
      }
    }
    lua_pop(L, 1);
  }
}

bool string_keys(lua_State* L, int table) {
  // Begin after the list part: named arguments stand behind it.
  const auto n = static_cast<lua_Integer>(lua_rawlen(L, table));
  if (n > 0)
    lua_pushinteger(L, n);
  else
    lua_pushnil(L);
  while (lua_next(L, table)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) {
      lua_pop(L, 1);
      return true;
    }
  }
  return false;
}

// torch.tensor(data, {dtype=, device=, requires_grad=}), or all in one table.
int make_tensor(lua_State* L) {
  MakeOptions o;
  TYCHO_CHECK(Kind::Argument, lua_gettop(L) >= 1, "tensor: argument \"data\" is missing");
  bool named = false;
  if (lua_type(L, 2) == LUA_TTABLE) {
    read_options(L, 2, &o);
  } else if (!lua_isnoneornil(L, 2)) {
    fail(Kind::Argument, "tensor: takes one table of data",
         "torch.tensor{1, 2, 3}  -- or torch.tensor({1, 2}, {dtype=\"int32\"})");
  } else if (lua_type(L, 1) == LUA_TTABLE && string_keys(L, 1)) {
    read_options(L, 1, &o);
    named = true;
    lua_getfield(L, 1, "data");
    if (!lua_isnil(L, -1)) {
      lua_replace(L, 1);
      named = false;
    }
    lua_settop(L, 1);
  }
  if (!o.has_device) o.has_device = takes_default_device(L, &o.device);
  Tensor t;
  if (const Impl* from = to_impl(L, 1)) {
    t = empty(Sizes(from->shape, from->rank), o.has_dtype ? o.dtype : from->dtype,
              o.has_device ? o.device : from->device);
    copy_raw(t, Tensor(const_cast<Impl*>(from)));
  } else if (lua_type(L, 1) == LUA_TTABLE) {
    TableReader reader(L, 1, named);
    reader.measure();
    t = empty(reader.shape, o.has_dtype ? o.dtype : reader.natural());
    reader.store(t);
  } else if (lua_type(L, 1) == LUA_TNUMBER || lua_type(L, 1) == LUA_TBOOLEAN) {
    const bool boolean = lua_type(L, 1) == LUA_TBOOLEAN, integer = boolean || lua_isinteger(L, 1);
    const DType natural = boolean ? DType::Bool : integer ? DType::Int64 : default_dtype();
    t = empty(Sizes(), o.has_dtype ? o.dtype : natural);
    const int64_t k = boolean ? lua_toboolean(L, 1) : integer ? lua_tointeger(L, 1) : 0;
    TableReader::store_number(t.get(), 0, boolean ? static_cast<double>(k) : lua_tonumber(L, 1), k,
                              integer);
  } else {
    std::string room;
    fail(Kind::Argument,
         format("tensor: data must be a number, a boolean, a table or a tensor, not %s",
                describe_value(L, 1, &room)));
  }
  if (!to_impl(L, 1) && !o.device.is_cpu()) t = sent(t, o.device);
  if (o.requires_grad) {
    TYCHO_CHECK(Kind::DType, is_floating(t.dtype()),
                "tensor: only floating point tensors can require grad, not %s",
                dtype_name(t.dtype()));
    t->requires_grad = true;
  }
  if (mode.inference) t->is_inference = true;
  if (t.numel() == 1 && is_floating(t.dtype()) && t.device().is_cpu())
    t->trace = watch::trace_of_number(tycho::item(t));
  push(L, t);
  pace_collector(L);
  return 1;
}

void push_element(lua_State* L, const Impl* t, int64_t at) {
  if (t->dtype == DType::Bool)
    lua_pushboolean(L, integer_at(t, at) != 0);
  else if (is_floating(t->dtype))
    lua_pushnumber(L, number_at(t, at));
  else
    lua_pushinteger(L, integer_at(t, at));
}

int item(lua_State* L) {
  const Tensor& x = check_tensor(L, 1, "item");
  if (x->numel != 1) {
    std::string first = "1";
    for (int i = 1; i < x.rank(); ++i) first += ", 1";
    fail(Kind::Shape,
         format("item: only a tensor of one element is one number, this one has shape %s",
                to_string(x.shape()).c_str()),
         x->numel ? "x:tolist()  -- or pick an element: x[{" + first + "}]:item()" : "x:tolist()");
  }
  push_element(L, x.get(), 0);
  if (x->requires_grad && is_floating(x.dtype())) watch::number_taken(lua_tonumber(L, -1));
  number_read(L, x);
  return 1;
}

void push_number(lua_State* L, DType dtype, const char* p) {
  if (dtype == DType::Float32)
    lua_pushnumber(L, *reinterpret_cast<const float*>(p));
  else if (is_floating(dtype))
    lua_pushnumber(L, number_of(dtype, p));
  else if (dtype == DType::Bool)
    lua_pushboolean(L, integer_of(dtype, p) != 0);
  else
    lua_pushinteger(L, integer_of(dtype, p));
}

// The part of x, in host memory, that begins at `p` once the first `dim` dimensions are chosen.
void push_list(lua_State* L, const Impl* x, int dim, const char* p) {
  if (dim == x->rank) return push_number(L, x->dtype, p);
  luaL_checkstack(L, 3, "tolist");
  const int64_t n = x->shape[dim], step = x->stride[dim] * dtype_size(x->dtype);
  lua_createtable(L, static_cast<int>(n), 0);
  for (int64_t i = 0; i < n; ++i, p += step) {
    push_list(L, x, dim + 1, p);
    lua_rawseti(L, -2, i + 1);
  }
}

int tolist(lua_State* L) {
  const Tensor x = fetch(check_tensor(L, 1, "tolist"));
  push_list(L, x.get(), 0, x.numel() ? x->host() : nullptr);
  training_note(L);
  return 1;
}

int is_tensor(lua_State* L) {
  lua_pushboolean(L, to_impl(L, 1) != nullptr);
  return 1;
}

// Pushes x in another type, on another device, in another layout: itself (the first argument) when
// nothing changes. A layout that PyTorch takes x to have already is none.
int push_converted(lua_State* L, const Tensor& x, DType dtype, Device device, bool copy,
                   bool non_blocking, const char* layout) {
  pace_collector(L);  // what a result had to live through twice only whole collections would find
  const Value format = layout ? Value(layout) : Value();
  Tensor y = x;
  if (!(device == x.device())) y = op<"to.device">(y, device, Value(), false, non_blocking, format);
  if (dtype != y.dtype()) y = op<"to.dtype">(y, dtype, false, format);
  if (y.get() == x.get() && layout) {
    const Format want = parse_format("to", layout, x.rank());
    copy |= want != Format::Preserve && want != preferred(x);
  }
  if (y.get() == x.get() && copy) y = op<"clone">(x, format);
  if (y.get() == x.get())
    lua_pushvalue(L, 1);
  else
    push(L, y);
  return 1;
}

// x:to(dtype), x:to(device), x:to(other), x:to{dtype=, device=, copy=, memory_format=}
int to(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "to");
  DType dtype = x.dtype();
  Device device = x.device();
  bool copy = false, non_blocking = false;
  const char* layout = nullptr;
  int flags = 0;  // by position: non_blocking, then copy
  const auto take = [&](int i, const char* key) {
    std::string room;
    if (lua_isnoneornil(L, i)) return;
    if (const Impl* other = to_impl(L, i)) {
      dtype = other->dtype;
      device = other->device;
    } else if (lua_type(L, i) == LUA_TBOOLEAN) {
      const bool first = key ? !std::strcmp(key, "non_blocking") : flags++ == 0;
      (first ? non_blocking : copy) = lua_toboolean(L, i);
    } else if (!to_dtype(L, i, &dtype)) {
      TYCHO_CHECK(Kind::Argument, to_device(L, i, &device),
                  "to: %s is neither a dtype nor a device nor a tensor",
                  describe_value(L, i, &room));
    }
  };
  for (int i = 2, n = lua_gettop(L); i <= n; ++i) {
    if (lua_type(L, i) != LUA_TTABLE) {
      take(i, nullptr);
      continue;
    }
    lua_pushnil(L);
    while (lua_next(L, i)) {
      const std::string key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "1";
      if (key == "memory_format") {
        TYCHO_CHECK(Kind::Argument, lua_type(L, -1) == LUA_TSTRING,
                    "to: memory_format is torch.channels_last or one of its kind, not a %s",
                    luaL_typename(L, -1));
        layout = lua_tostring(L, -1);  // the table holds it
        lua_pop(L, 1);
        continue;
      }
      TYCHO_CHECK(Kind::Argument,
                  key == "dtype" || key == "device" || key == "copy" || key == "non_blocking" ||
                      key == "1" || key == "2" || key == "other",
                  "to: no argument \"%s\" (it has: dtype, device, other, copy, non_blocking, "
                  "memory_format)",
                  key.c_str());
      take(lua_gettop(L), key.c_str());
      lua_pop(L, 1);
    }
  }
  return push_converted(L, x, dtype, device, copy, non_blocking, layout);
}

// x:float(), x:long(), x:float{memory_format=}, ...: one function, the type in an upvalue.
int to_fixed(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "to");
  const auto dtype = static_cast<DType>(lua_tointeger(L, lua_upvalueindex(1)));
  return push_converted(L, x, dtype, x.device(), false, false,
                        to_memory_format(L, 2, dtype_name(dtype)));
}

// x:cpu(), x:cpu{memory_format=}
int to_cpu(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "cpu");
  return push_converted(L, x, x.dtype(), Device{}, false, false, to_memory_format(L, 2, "cpu"));
}
// x:cuda(), x:cuda(1, non_blocking), x:cuda{device = 1, non_blocking = true}
int to_cuda(lua_State* L) {
  bool non_blocking = lua_toboolean(L, 3) && lua_type(L, 3) == LUA_TBOOLEAN;
  const Tensor x = check_tensor(L, 1, "cuda");
  const char* layout = nullptr;
  if (lua_type(L, lua_gettop(L)) == LUA_TTABLE) {
    const int options = lua_gettop(L);
    lua_getfield(L, options, "non_blocking");
    non_blocking = lua_toboolean(L, -1);
    lua_getfield(L, options, "memory_format");
    layout = to_memory_format(L, -1, "cuda");
    lua_getfield(L, options, "device");
    if (lua_isnil(L, -1) && options > 2) lua_pushvalue(L, 2), lua_replace(L, -2);
    lua_replace(L, 2);
    lua_settop(L, 2);
  }
  Device d = lua_isnoneornil(L, 2) ? current_cuda_device() : Device{};
  if (!lua_isnoneornil(L, 2))
    TYCHO_CHECK(Kind::Argument, to_device(L, 2, &d), "cuda: a device number is wanted");
  return push_converted(L, x, x.dtype(), d, false, non_blocking, layout);
}

}  // namespace

void open_convert(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  static const luaL_Reg functions[] = {
      {"tensor", guarded<make_tensor>}, {"is_tensor", guarded<is_tensor>}, {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
  push_methods(L);
  static const luaL_Reg methods[] = {{"item", guarded<item>},    {"tolist", guarded<tolist>},
                                     {"to", guarded<to>},        {"cpu", guarded<to_cpu>},
                                     {"cuda", guarded<to_cuda>}, {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
  static const struct {
    const char* name;
    DType dtype;
  } fixed[] = {{"bool", DType::Bool},     {"byte", DType::UInt8},        {"char", DType::Int8},
               {"short", DType::Int16},   {"int", DType::Int32},         {"long", DType::Int64},
               {"half", DType::Float16},  {"bfloat16", DType::BFloat16}, {"float", DType::Float32},
               {"double", DType::Float64}};
  for (const auto& f : fixed) {
    lua_pushinteger(L, static_cast<int>(f.dtype));
    lua_pushcclosure(L, guarded<to_fixed>, 1);
    lua_setfield(L, -2, f.name);
  }
  lua_pop(L, 1);
}

}  // namespace tycho::lua
