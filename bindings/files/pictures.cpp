// Pictures from Lua: torch._write_png(path, width, height, channels, pixels),
// torch._write_text(path, text), which replace files whole, and torch._base64(bytes) for terminals
// that draw pictures.
#include "bindings/show/show.h"
#include "bindings/tools/check.h"
#include "engine/io/file.h"
#include "engine/io/png.h"

namespace tycho::lua {
namespace {

int lua_write_png(lua_State* L) {
  const char* const me = "_write_png";
  const std::string path(check_text(L, 1, me));
  const int64_t width = check_integer(L, 2, me), height = check_integer(L, 3, me);
  const int64_t channels = check_integer(L, 4, me);
  const std::string_view pixels = check_text(L, 5, me);
  TYCHO_CHECK(Kind::Value,
              width > 0 && height > 0 && channels > 0 && channels < 5 && width < 1000000 &&
                  height < 1000000 &&
                  static_cast<int64_t>(pixels.size()) == width * height * channels,
              "_write_png: the pixels do not fit the size");
  io::write_png(path, width, height, static_cast<int>(channels),
                reinterpret_cast<const uint8_t*>(pixels.data()));
  return 0;
}

int lua_write_text(lua_State* L) {
  const std::string path(check_text(L, 1, "_write_text"));
  const std::string_view text = check_text(L, 2, "_write_text");
  io::atomic_write(path, [&](io::Output& out) { out.write(text); });
  return 0;
}

int lua_base64(lua_State* L) {
  const std::string_view bytes = check_text(L, 1, "_base64");
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve(bytes.size() / 3 * 4 + 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t v = 0;
    for (size_t k = 0; k < 3; ++k)
      v = v << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? digits[v >> (18 - 6 * k) & 63] : '=';
  }
  lua_pushlstring(L, out.data(), out.size());
  return 1;
}

}  // namespace

void open_pictures(lua_State* L, int torch) {
  static const luaL_Reg functions[] = {{"_write_png", guarded<lua_write_png>},
                                       {"_write_text", guarded<lua_write_text>},
                                       {"_base64", guarded<lua_base64>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
