// Lua values into PyTorch's zip format: data.pkl, and one entry for each storage, so that tensors
// that share memory share it after loading. A table whose keys are 1 to n is a list, any other a
// dict.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "bindings/core/device.h"
#include "bindings/files/files.h"
#include "engine/base/interrupt.h"
#include "engine/io/file.h"
#include "engine/io/pickle.h"
#include "engine/io/utf8.h"
#include "engine/io/zip.h"
#include "engine/ops/table/apply.h"

namespace tycho::lua {
namespace {

// The elements of a whole storage, as one dtype.
struct Block {
  Tensor all;
  uint32_t number;
};

class Saver {
 public:
  explicit Saver(lua_State* L) : L_(L) {}

  void value(int i, int depth) {
    TYCHO_CHECK(Kind::Argument, depth < kMostDepth,
                "save: the tables are nested deeper than %d levels, or hold themselves",
                kMostDepth);
    luaL_checkstack(L_, 12, "save");
    if (++values_ % 65536 == 0) check_interrupt();
    i = lua_absindex(L_, i);
    switch (lua_type(L_, i)) {
      case LUA_TNIL:
        out.op('N');
        return;
      case LUA_TBOOLEAN:
        out.op(lua_toboolean(L_, i) ? '\x88' : '\x89');
        return;
      case LUA_TNUMBER:
        if (lua_isinteger(L_, i))
          out.integer(lua_tointeger(L_, i));
        else
          out.real(lua_tonumber(L_, i));
        return;
      case LUA_TSTRING:
        out.text(text_at(i));
        return;
      case LUA_TTABLE:
        table(i, depth);
        return;
      default:
        break;
    }
    if (Impl* t = to_impl(L_, i)) return tensor(i, t);
    if (other(i)) return;
    std::string name;
    fail(Kind::Argument,
         format("save: %s cannot be saved; only tensors, tables, numbers, strings and booleans can",
                describe_value(L_, i, &name)),
         "torch.save(net:state_dict(), path)  -- the tensors of a module");
  }

  io::PickleWriter out;
  std::map<std::pair<Storage*, DType>, Block> blocks;

 private:
  std::string_view text_at(int i) {
    size_t n;
    const char* s = lua_tolstring(L_, i, &n);
    return {s, n};
  }

  // torch.none, dtypes and devices.
  bool other(int i) {
    if (lua_type(L_, i) == LUA_TLIGHTUSERDATA && !lua_touserdata(L_, i)) {
      out.op('N');
      return true;
    }
    DType t;
    Device d;
    if (lua_type(L_, i) != LUA_TUSERDATA) return false;
    if (to_dtype(L_, i, &t)) {
      out.global(std::string("torch ") + dtype_name(t));
      return true;
    }
    if (!to_device_value(L_, i, &d)) return false;
    out.global("torch device");
    out.text(d.is_cpu() ? "cpu" : "cuda");
    const bool numbered = !d.is_cpu() && d != kCurrentCuda;
    if (numbered) out.integer(d.number);
    out.op(numbered ? '\x86' : '\x85');
    out.op('R');
    return true;
  }

  // Puts what was written before again; else the caller writes it and calls keep.
  bool again(const void* identity) {
    const auto it = known_.find(identity);
    if (it != known_.end()) out.again(it->second);
    return it != known_.end();
  }

  // --- tables ---
  enum class KeyType { Integer, Number, Boolean, Text };
  struct Key {
    KeyType type;
    lua_Integer integer;
    lua_Number number;
    std::string text;
    auto order() const { return std::tie(type, integer, number, text); }
  };

  // Keys of text in the order that the table keeps, if it does; the others behind them.
  void put_in_order(int table, std::vector<Key>& keys) {
    push_order(L_, table);
    std::map<std::string, lua_Integer> place;
    if (lua_istable(L_, -1)) {
      const auto n = static_cast<lua_Integer>(lua_rawlen(L_, -1));
      for (lua_Integer k = 1; k <= n; ++k) {
        if (lua_rawgeti(L_, -1, k) == LUA_TSTRING) place.emplace(lua_tostring(L_, -1), k);
        lua_pop(L_, 1);
      }
    }
    lua_pop(L_, 1);
    if (place.empty()) return;
    std::ranges::stable_sort(keys, {}, [&](const Key& key) {
      const auto it = key.type == KeyType::Text ? place.find(key.text) : place.end();
      return it == place.end() ? static_cast<lua_Integer>(place.size() + 1) : it->second;
    });
  }

  std::vector<Key> keys_of(int i) {
    std::vector<Key> keys;
    lua_pushnil(L_);
    while (lua_next(L_, i)) {
      lua_pop(L_, 1);
      Key k{KeyType::Text, 0, 0, {}};
      if (lua_isinteger(L_, -1)) {
        k.type = KeyType::Integer, k.integer = lua_tointeger(L_, -1);
      } else if (lua_type(L_, -1) == LUA_TNUMBER) {
        k.type = KeyType::Number, k.number = lua_tonumber(L_, -1);
      } else if (lua_type(L_, -1) == LUA_TBOOLEAN) {
        k.type = KeyType::Boolean, k.integer = lua_toboolean(L_, -1);
      } else if (lua_type(L_, -1) == LUA_TSTRING) {
        k.text = text_at(-1);
      } else {
        std::string name;
        fail(Kind::Argument, format("save: %s cannot be saved as the key of a table; only numbers, "
                                    "strings and booleans can",
                                    describe_value(L_, -1, &name)));
      }
      keys.push_back(std::move(k));
    }
    return keys;
  }

  void get(int i, const Key& k) {
    if (k.type == KeyType::Integer) lua_pushinteger(L_, k.integer);
    if (k.type == KeyType::Number) lua_pushnumber(L_, k.number);
    if (k.type == KeyType::Boolean) lua_pushboolean(L_, k.integer != 0);
    if (k.type == KeyType::Text) lua_pushlstring(L_, k.text.data(), k.text.size());
    lua_pushvalue(L_, -1);
    lua_rawget(L_, i);
  }

  void table(int i, int depth) {
    const void* const identity = lua_topointer(L_, i);
    if (again(identity)) {
      TYCHO_CHECK(Kind::Argument, !open_[identity],
                  "save: tables that hold themselves cannot be saved");
      return;
    }
    if (lua_getmetatable(L_, i)) {
      lua_getfield(L_, i, "state_dict");
      if (lua_isfunction(L_, -1))
        fail(Kind::Argument,
             "save: a module or another object with methods cannot be saved; its state can",
             "torch.save(net:state_dict(), path)");
      lua_pop(L_, 1);
      // An object of a class would come back as a table without its methods.
      lua_getfield(L_, -1, "_name");
      if (lua_isstring(L_, -1))
        fail(Kind::Argument,
             std::string("save: an object of ") + lua_tostring(L_, -1) +
                 " cannot be saved, only what it was made from: tensors, tables, numbers, strings "
                 "and booleans");
      lua_pop(L_, 2);
    }
    const bool list = is_list(L_, i);
    const auto n = static_cast<lua_Integer>(lua_rawlen(L_, i));
    out.op(list ? ']' : '}');
    known_[identity] = out.keep();
    open_[identity] = true;
    if (list) {
      out.op('(');
      for (lua_Integer k = 1; k <= n; ++k) {
        lua_rawgeti(L_, i, k);
        value(-1, depth + 1);
        lua_pop(L_, 1);
      }
      out.op('e');
    } else {
      std::vector<Key> keys = keys_of(i);
      std::ranges::sort(keys, [](const Key& a, const Key& b) { return a.order() < b.order(); });
      put_in_order(i, keys);
      out.op('(');
      for (const Key& k : keys) {
        get(i, k);
        value(-2, depth + 1);
        value(-1, depth + 1);
        lua_pop(L_, 2);
      }
      out.op('u');
    }
    open_[identity] = false;
  }

  // --- tensors ---
  bool is_parameter(int i) {
    luaL_getsubtable(L_, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L_, -1, "torch");
    lua_getfield(L_, -1, "nn");
    // Where the modules are not loaded yet, there is no parameter.
    lua_pushstring(L_, "_is_parameter");
    bool is = false;
    if (lua_rawget(L_, -2) == LUA_TFUNCTION) {
      lua_pushvalue(L_, i);
      lua_call(L_, 1, 1);
      is = lua_toboolean(L_, -1);
    }
    lua_pop(L_, 4);
    return is;
  }

  void numbers(const int64_t* v, int n) {
    out.op('(');
    for (int d = 0; d < n; ++d) out.integer(v[d]);
    out.op('t');
  }
  void no_hooks() {
    out.global("collections OrderedDict");
    out.bytes += ")R";
  }

  const Block& block(const Tensor& t) {
    const auto [it, fresh] = blocks.try_emplace({t->storage.get(), t.dtype()});
    if (fresh) {
      TYCHO_CHECK(Kind::Argument, !has_no_values(*t->storage),
                  "save: a tensor of shapes only has no values to save");
      const int64_t n = static_cast<int64_t>(t->storage->bytes) / dtype_size(t.dtype());
      it->second.all = alias(t, Sizes{n}, Sizes{1}, 0);
      it->second.number = static_cast<uint32_t>(blocks.size() - 1);
    }
    return it->second;
  }

  void tensor(int i, Impl* p) {
    if (again(p)) return;
    const Tensor t(p);
    straighten(t);
    const bool parameter = is_parameter(i);
    if (parameter) {
      out.global("torch._utils _rebuild_parameter");
      out.op('(');
    }
    const Block& b = block(t);
    out.global("torch._utils _rebuild_tensor_v2");
    out.bytes += "((";
    out.text("storage");
    out.global(std::string("torch ") + io::storage_class(t.dtype()));
    out.text(std::to_string(b.number));
    out.text(t.device().is_cpu() ? "cpu" : "cuda:" + std::to_string(t.device().number));
    out.integer(b.all.numel());
    out.bytes += "tQ";
    out.integer(p->offset);
    numbers(p->shape, p->rank);
    numbers(p->stride, p->rank);
    out.op(!parameter && p->requires_grad ? '\x88' : '\x89');
    no_hooks();
    out.bytes += "tR";
    if (parameter) {
      out.op(p->requires_grad ? '\x88' : '\x89');
      no_hooks();
      out.bytes += "tR";
    }
    known_[p] = out.keep();
  }

  lua_State* L_;
  uint64_t values_ = 0;
  std::map<const void*, uint32_t> known_;
  std::map<const void*, bool> open_;
};

// PyTorch names the archive's folder after the file.
std::string folder_of(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  name = name.substr(0, name.rfind('.'));
  return name.empty() || name.size() > 200 || !io::is_utf8(name) ? "archive" : name;
}

constexpr char kDict[] = "tycho.dict";

}  // namespace

void mark_dict(lua_State* L, int table) {
  table = lua_absindex(L, table);
  if (luaL_newmetatable(L, kDict)) {  // printed as any table
    lua_pushnil(L);
    lua_setfield(L, -2, "__name");
  }
  lua_setmetatable(L, table);
}

bool is_list(lua_State* L, int table) {
  table = lua_absindex(L, table);
  if (lua_getmetatable(L, table)) {
    luaL_getmetatable(L, kDict);
    const bool dict = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    if (dict) return false;
  }
  const auto n = static_cast<lua_Integer>(lua_rawlen(L, table));
  lua_Integer count = 0;
  lua_pushnil(L);
  while (n > 0 && lua_next(L, table)) {
    lua_pop(L, 1);
    if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < 1 || lua_tointeger(L, -1) > n) {
      lua_pop(L, 1);
      return false;
    }
    ++count;
  }
  if (n == 0) lua_pop(L, 1);
  return n > 0 && count == n;
}

void save_pytorch(lua_State* L, int value, const std::string& path) {
  Saver saver(L);
  saver.value(value, 0);
  saver.out.op('.');
  std::map<uint32_t, const Tensor*> in_order;
  for (const auto& [key, block] : saver.blocks) in_order[block.number] = &block.all;
  const std::string folder = folder_of(path) + "/";
  io::atomic_write(path, [&](io::Output& out) {
    io::ZipWriter zip(out);
    zip.add(folder + "data.pkl", {saver.out.bytes});
    zip.add(folder + ".format_version", {"1"});
    zip.add(folder + ".storage_alignment", {"64"});
    zip.add(folder + "byteorder", {"little"});
    for (const auto& [number, all] : in_order) {
      const Tensor t = on_cpu(*all);
      zip.add(folder + "data/" + std::to_string(number),
              {std::string_view(t.host(), static_cast<size_t>(t.numel()) * dtype_size(t.dtype()))});
    }
    zip.add(folder + "version", {"3\n"});
    zip.finish();
  });
}

}  // namespace tycho::lua
