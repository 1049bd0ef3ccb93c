// Byte-pair encoding from Lua: torch._bpe_learn, _bpe_new and _bpe_encode, which
// torch/utils/text/bpe.lua makes into data.text.BPETokenizer. Tokens count from 1 here.
#include <cstring>

#include "bindings/show/show.h"
#include "bindings/tools/check.h"
#include "engine/io/bpe.h"
#include "engine/ops/table/apply.h"

namespace tycho::lua {
namespace {

const char kPairs[] = "tycho.bpe";

// _bpe_learn(text, size, least) -> list of tokens, flat list of merges (left, right, left, ...)
int bpe_learn(lua_State* L) {
  const std::string_view text = check_text(L, 1, "_bpe_learn");
  const int64_t size = check_integer(L, 2, "_bpe_learn"), least = check_integer(L, 3, "_bpe_learn");
  TYCHO_CHECK(Kind::Value, size >= 256, "_bpe_learn: there are 256 bytes");
  const io::Vocabulary v = io::learn_pairs(text, static_cast<size_t>(size), least);
  lua_createtable(L, static_cast<int>(v.tokens.size()), 0);
  lua_Integer i = 0;
  for (const std::string& t : v.tokens) {
    lua_pushlstring(L, t.data(), t.size());
    lua_rawseti(L, -2, ++i);
  }
  lua_createtable(L, static_cast<int>(v.merges.size() * 2), 0);
  i = 0;
  for (const auto& [left, right] : v.merges) {
    lua_pushinteger(L, left + 1);
    lua_rawseti(L, -2, ++i);
    lua_pushinteger(L, right + 1);
    lua_rawseti(L, -2, ++i);
  }
  return 2;
}

// _bpe_new(tokens, merges) -> what _bpe_encode takes
int bpe_new(lua_State* L) {
  TYCHO_CHECK(Kind::Argument, lua_istable(L, 1) && lua_istable(L, 2),
              "_bpe_new: wants a list of tokens and a list of merges");
  io::Vocabulary v;
  const auto count = static_cast<lua_Integer>(lua_rawlen(L, 1));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(L, 1, i);
    v.tokens.emplace_back(check_text(L, -1, "_bpe_new"));
    lua_pop(L, 1);
  }
  const auto token = [&](lua_Integer place) {
    lua_rawgeti(L, 2, place);
    const int64_t t = check_integer(L, -1, "_bpe_new");
    TYCHO_CHECK(Kind::Index, t >= 1 && t <= count, "_bpe_new: there is no token %lld",
                static_cast<long long>(t));
    lua_pop(L, 1);
    return static_cast<io::Token>(t - 1);
  };
  for (lua_Integer i = 1, n = static_cast<lua_Integer>(lua_rawlen(L, 2)); i + 1 <= n; i += 2) {
    const io::Token left = token(i);
    v.merges.emplace_back(left, token(i + 1));
  }
  auto** at = static_cast<io::BytePairs**>(lua_newuserdatauv(L, sizeof(io::BytePairs*), 0));
  *at = nullptr;
  luaL_setmetatable(L, kPairs);
  *at = new io::BytePairs(v);
  return 1;
}

int bpe_free(lua_State* L) {
  auto** at = static_cast<io::BytePairs**>(luaL_checkudata(L, 1, kPairs));
  delete *at;
  *at = nullptr;
  return 0;
}

// _bpe_encode(pairs, text) -> int64 [n]
int bpe_encode(lua_State* L) {
  auto** at = static_cast<io::BytePairs**>(luaL_testudata(L, 1, kPairs));
  TYCHO_CHECK(Kind::Argument, at && *at, "_bpe_encode: wants what _bpe_new gave");
  std::vector<int64_t> tokens;
  (*at)->encode(check_text(L, 2, "_bpe_encode"), &tokens);
  Tensor out = empty({static_cast<int64_t>(tokens.size())}, DType::Int64);
  auto* to = out.host<int64_t>();
  for (const int64_t t : tokens) *to++ = t + 1;
  push(L, out);
  pace_collector(L);
  return 1;
}

}  // namespace

void open_text(lua_State* L, int torch) {
  luaL_newmetatable(L, kPairs);
  lua_pushcfunction(L, guarded<bpe_free>);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  static const luaL_Reg functions[] = {{"_bpe_learn", guarded<bpe_learn>},
                                       {"_bpe_new", guarded<bpe_new>},
                                       {"_bpe_encode", guarded<bpe_encode>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
