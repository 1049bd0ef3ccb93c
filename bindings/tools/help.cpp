// The op table as Lua sees it: torch._ops() gives one record per public name, with its signatures.
// Help, completion, argument hints and definition files for editors are all made from these.
//   torch._ops()        a list of {key=, name=, aliases=, alias_of=, places=, inplace=, signatures=} in
//                       alphabetical order; also found by its key, which names the namespace too
//   torch._brief(v)     "f32 [2, 3]" of a tensor (with its device when that is not the CPU),
//                       else nil
//   torch._embedded(n)  the text of an embedded Lua file; without a name, the list of all names
#include "bindings/tools/help.h"

#include <cctype>
#include <cstring>
#include <map>
#include <string>

#include "bindings/tools/check.h"
#include "engine/ops/table/gradient_text.h"

namespace tycho::lua {
namespace {

const char kOps[] = "tycho.ops";

const char* take_name(Take t) {
  static constexpr const char* kNames[] = {
      "tensor",   "tensor or number", "number",   "integer", "number",
      "boolean",  "string",           "integers", "dim",     "dims",
      "position", "tensors",          "dtype",    "device",  "generator"};
  return kNames[static_cast<int>(t)];
}

void set(lua_State* L, const char* key, const char* text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}
void set(lua_State* L, const char* key, bool yes) {
  lua_pushboolean(L, yes);
  lua_setfield(L, -2, key);
}
void append(lua_State* L, const char* text) {
  lua_pushstring(L, text);
  lua_rawseti(L, -2, static_cast<lua_Integer>(lua_rawlen(L, -2)) + 1);
}

// A default as Lua writes it; positions count from 1 there.
std::string default_text(const Param& p) {
  const bool place = p.take == Take::Dim || p.take == Take::Dims || p.take == Take::Position;
  if (place && !p.text.empty() && p.text != "none" && p.text[0] != '-')
    return std::to_string(std::atoll(p.text.c_str()) + 1);
  if (p.text == "none") return "nil";
  if (p.take == Take::String && !p.text.empty()) return "\"" + p.text + "\"";
  return p.text;
}

void push_params(lua_State* L, const Op& op) {
  lua_createtable(L, op.param_count, 0);
  int n = 0;
  for (const Param& p : op.params) {
    lua_createtable(L, 0, 6);
    set(L, "name", p.name.c_str());
    set(L, "take", take_name(p.take));
    set(L, "optional", p.optional);
    set(L, "required", p.required);
    set(L, "gather", p.gather);
    if (!p.text.empty()) set(L, "default", default_text(p).c_str());
    lua_rawseti(L, -2, ++n);
  }
}

// A list of what the gradients of the operands are, where the op's row says it.
void push_gradients(lua_State* L, const Op& op) {
  lua_newtable(L);
  if (op.row >= 0) {
    const char* const* texts = row_gradients(op.row);
    for (int i = 0; i < 3; ++i)
      if (std::strcmp(texts[i], "none") != 0) append(L, texts[i]);
  } else if (const char* text = reduction_gradient(op.name); text && std::strcmp(text, "none")) {
    append(L, text);
  }
}

// What the functions are that such gradients call and nobody else: name -> value in a, b, c.
void push_helpers(lua_State* L, const Op& op) {
  lua_newtable(L);
  if (op.row < 0) return;
  for (int i = 0; i < 3; ++i) {
    const std::string text = row_gradients(op.row)[i];
    for (size_t at = text.find('('); at != text.npos; at = text.find('(', at + 1)) {
      size_t first = at;
      while (first > 0 &&
             (std::isalnum(static_cast<unsigned char>(text[first - 1])) || text[first - 1] == '_'))
        --first;
      const std::string name = text.substr(first, at - first);
      if (const char* value = hidden_row_value(name.c_str())) set(L, name.c_str(), value);
    }
  }
}

void push_signature(lua_State* L, const Op& op) {
  lua_createtable(L, 0, 17);
  set(L, "id", op.name);
  set(L, "doc", op.doc);
  set(L, "rule", op.rule);
  set(L, "example", op.example);
  set(L, "see", op.see);
  set(L, "file", op.file);
  set(L, "differentiable", op.differentiable);
  set(L, "view", op.view);
  set(L, "random", op.random);
  set(L, "row", op.row >= 0);
  set(L, "number", op.scalar_result);
  set(L, "inplace_only", op.inplace == Inplace::Only);
  set(L, "has_inplace", op.inplace != Inplace::No);
  lua_pushinteger(L, op.id);
  lua_setfield(L, -2, "index");
  push_gradients(L, op);
  lua_setfield(L, -2, "gradients");
  push_helpers(L, op);
  lua_setfield(L, -2, "gradient_helpers");
  push_params(L, op);
  lua_setfield(L, -2, "params");
}

void push_places(lua_State* L, uint8_t where) {
  lua_createtable(L, 2, 0);
  if (where & kFunction) append(L, "torch");
  if (where & kMethod) append(L, "Tensor");
  if (where & kFunctional) append(L, "F");
  if (where & kLinalg) append(L, "torch.linalg");
}

struct Entry {
  std::vector<const Op*> ops;
  uint8_t shown = 0, inplace = 0;
  std::string alias_of;
  std::vector<std::string> aliases;
};

// By public name.
const std::map<std::string, Entry>& entries() {
  static const std::map<std::string, Entry> known = [] {
    std::map<std::string, Entry> all;
    for (const Op* op : all_ops()) {
      if (op->where & kHidden) continue;
      Entry& e = all[public_name(*op)];
      e.ops.push_back(op);
      if (op->inplace != Inplace::Only) e.shown |= op->where;
      if (op->inplace != Inplace::No) e.inplace |= op->where;
      if (op->alias_of) e.alias_of = public_name(*op->alias_of);
    }
    for (auto& [name, e] : all)
      if (!e.alias_of.empty())
        if (const auto it = all.find(e.alias_of); it != all.end())
          it->second.aliases.push_back(name);
    return all;
  }();
  return known;
}

// __index of a record: its signatures are made when they are asked for, since most never are.
int lua_record_index(lua_State* L) {
  if (lua_type(L, 2) != LUA_TSTRING || std::strcmp(lua_tostring(L, 2), "signatures") != 0) return 0;
  lua_getfield(L, 1, "key");
  const Entry& e = entries().at(lua_tostring(L, -1));
  lua_createtable(L, static_cast<int>(e.ops.size()), 0);
  int k = 0;
  for (const Op* op : e.ops) {
    push_signature(L, *op);
    lua_rawseti(L, -2, ++k);
  }
  lua_pushvalue(L, -1);
  lua_setfield(L, 1, "signatures");
  return 1;
}

// The record of an entry, new on the stack; its metatable (lua_record_index) is at `records`.
void push_record(lua_State* L, const std::string& name, const Entry& e, int records) {
  lua_createtable(L, 0, 7);
  set(L, "key", name.c_str());
  set(L, "name", name_in_namespace(name).c_str());
  if (!e.alias_of.empty()) set(L, "alias_of", e.alias_of.c_str());
  lua_newtable(L);
  for (const std::string& a : e.aliases) append(L, a.c_str());
  lua_setfield(L, -2, "aliases");
  push_places(L, e.shown);
  lua_setfield(L, -2, "places");
  push_places(L, e.inplace);
  lua_setfield(L, -2, "inplace");
  lua_pushvalue(L, records);
  lua_setmetatable(L, -2);
}

// __index of the list of records: by name, or by number in the order of names. Each is made when it
// is asked for: an error message asks for one, and should not wait for a thousand.
int lua_ops_index(lua_State* L) {
  using Item = std::map<std::string, Entry>::value_type;
  static const std::vector<const Item*> in_order = [] {
    std::vector<const Item*> all;
    for (const Item& item : entries()) all.push_back(&item);
    return all;
  }();
  if (lua_isinteger(L, 2)) {
    const lua_Integer k = lua_tointeger(L, 2);
    if (k < 1 || static_cast<size_t>(k) > in_order.size()) return 0;
    lua_getfield(L, 1, in_order[static_cast<size_t>(k - 1)]->first.c_str());
    return 1;
  }
  const auto it =
      lua_type(L, 2) == LUA_TSTRING ? entries().find(lua_tostring(L, 2)) : entries().end();
  if (it == entries().end()) return 0;
  push_record(L, it->first, it->second, lua_upvalueindex(1));
  lua_pushvalue(L, -1);
  lua_setfield(L, 1, it->first.c_str());
  return 1;
}

int lua_ops(lua_State* L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, kOps) == LUA_TTABLE) return 1;
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_createtable(L, 0, 1);  // of each record
  lua_pushcfunction(L, guarded<lua_record_index>);
  lua_setfield(L, -2, "__index");
  lua_pushcclosure(L, guarded<lua_ops_index>, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, kOps);
  return 1;
}

int lua_brief(lua_State* L) {
  const Impl* t = to_impl(L, 1);
  if (!t) {
    lua_pushnil(L);
    return 1;
  }
  std::string text =
      std::string(dtype_short_name(t->dtype)) + " " + to_string(Sizes(t->shape, t->rank));
  if (!t->device.is_cpu()) text += " " + device_name(t->device);
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

int lua_embedded(lua_State* L) {
  if (lua_isnoneornil(L, 1)) {
    lua_newtable(L);
    for (const EmbeddedFile* f = tycho_embedded_lua; f->name; ++f) append(L, f->name);
    return 1;
  }
  const std::string_view name = check_text(L, 1, "_embedded");
  for (const EmbeddedFile* f = tycho_embedded_lua; f->name; ++f)
    if (f->name == name) {
      lua_pushlstring(L, f->text, f->size);
      return 1;
    }
  lua_pushnil(L);
  return 1;
}

// Whether a text of Lua seems to define the word: .word( or word = or "word", not a word of a comment.
bool defines(std::string_view text, std::string_view word) {
  const auto is_in = [](char c, std::string_view set) { return set.find(c) != set.npos; };
  // memmem looks at many bytes at once.
  size_t at = 0;
  while (const void* found = memmem(text.data() + at, text.size() - at, word.data(), word.size())) {
    at = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    const char before = at ? text[at - 1] : '\n',
               after = (text.data() + at)[word.size()];  // ends with 0
    const std::string_view rest = text.substr(at + word.size(), 2);
    if (is_in(before, ".:\"'") && is_in(after, "(\"' ")) return true;
    if (is_in(before, " \n{,(") && (rest == " =" || after == '(')) return true;
    at += word.size();
  }
  return false;
}

// _defined_in(word, names): which of those files, or folders of them, seem to define it: {name = boolean}.
int lua_defined_in(lua_State* L) {
  const std::string_view word = check_text(L, 1, "_defined_in");
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_newtable(L);
  const auto is_there = [](std::string_view word, std::string_view folder) {
    for (const EmbeddedFile* f = tycho_embedded_lua; f->name; ++f)
      if (std::string_view(f->name).starts_with(folder) && defines({f->text, f->size}, word))
        return true;
    return false;
  };
  const auto n = static_cast<lua_Integer>(luaL_len(L, 2));
  for (lua_Integer i = 1; i <= n && !word.empty(); ++i) {
    lua_rawgeti(L, 2, i);
    lua_pushboolean(L, is_there(word, check_text(L, -1, "_defined_in")));
    lua_rawset(L, -3);
  }
  return 1;
}

int lua_tensor_methods(lua_State* L) {
  push_methods(L);
  return 1;
}

}  // namespace

void open_help(lua_State* L, int torch) {
  static const luaL_Reg functions[] = {{"_ops", guarded<lua_ops>},
                                       {"_brief", guarded<lua_brief>},
                                       {"_embedded", guarded<lua_embedded>},
                                       {"_defined_in", guarded<lua_defined_in>},
                                       {"_tensor_methods", lua_tensor_methods},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
