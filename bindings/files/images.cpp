// Pictures from Lua, as tensors: torch._read_image, _decode_image, _encode_image and _write_image,
// which torch/utils/images.lua makes into data.read_image and its kin.
#include <cstring>

#include "bindings/files/files.h"
#include "bindings/show/show.h"
#include "bindings/tools/check.h"
#include "engine/io/file.h"
#include "engine/io/image.h"

namespace tycho::lua {
namespace {

// The arguments from i on: channels (0: as in the file), wide, the most pixels.
int push_decoded(lua_State* L, std::string_view bytes, const std::string& name, int i,
                 const char* who) {
  const int64_t channels = check_integer(L, i, who), most = check_integer(L, i + 2, who);
  TYCHO_CHECK(Kind::Value, channels == 0 || channels == 1 || channels == 3 || channels == 4,
              "%s: there are no pictures of %lld channels", who, static_cast<long long>(channels));
  push(L, io::decode_image(bytes, {name, most}, static_cast<io::Channels>(channels),
                           lua_toboolean(L, i + 1)));
  pace_collector(L);
  return 1;
}

int read_image(lua_State* L) {
  const std::string path(check_text(L, 1, "_read_image"));
  return push_decoded(L, io::read_file(path), path, 2, "_read_image");
}

int decode_image(lua_State* L) {
  const std::string name = "the picture";
  if (const Impl* x = to_impl(L, 1)) {
    TYCHO_CHECK(Kind::DType, x->dtype == DType::UInt8 && x->rank == 1,
                "decode_image: the bytes of a file are uint8 [n] (or a string), not %s %s",
                dtype_name(x->dtype), to_string(Sizes(x->shape, x->rank)).c_str());
    const Tensor t = on_cpu(Tensor(to_impl(L, 1)));
    return push_decoded(L, {t.host(), static_cast<size_t>(t.numel())}, name, 2, "decode_image");
  }
  return push_decoded(L, check_text(L, 1, "decode_image"), name, 2, "decode_image");
}

// (x, format, quality): x is [height, width, channels] of uint8, or of int32 up to 65535.
std::string encoded(lua_State* L, const char* who) {
  const Tensor x = on_cpu(check_tensor(L, 1, who));
  const std::string_view format = check_text(L, 2, who);
  const int64_t quality = check_integer(L, 3, who);
  const bool wide = x.dtype() == DType::Int32;
  TYCHO_CHECK(
      Kind::Value,
      x.rank() == 3 && (wide || x.dtype() == DType::UInt8) && x.size(2) >= 1 && x.size(2) <= 4,
      "%s: no picture is %s %s", who, dtype_name(x.dtype()), to_string(x.shape()).c_str());
  io::Picture p;
  p.height = x.size(0);
  p.width = x.size(1);
  p.channels = static_cast<int>(x.size(2));
  p.bytes = wide ? 2 : 1;
  const size_t samples = static_cast<size_t>(x.numel());
  p.pixels = std::make_unique_for_overwrite<uint8_t[]>(samples * static_cast<size_t>(p.bytes));
  if (wide) {
    uint16_t* const to = reinterpret_cast<uint16_t*>(p.pixels.get());
    for (size_t i = 0; i < samples; ++i) to[i] = static_cast<uint16_t>(x.host<int32_t>()[i]);
  } else {
    std::memcpy(p.pixels.get(), x.host(), samples);
  }
  if (format == "png") return io::encode_png(p);
  if (format == "pnm") return io::encode_pnm(p);
  return io::encode_jpeg(p, static_cast<int>(std::clamp<int64_t>(quality, 0, 101)));
}

int encode_image(lua_State* L) {
  const std::string bytes = encoded(L, "encode_image");
  lua_pushlstring(L, bytes.data(), bytes.size());
  return 1;
}

int write_image(lua_State* L) {
  const std::string path(check_text(L, 4, "write_image"));
  const std::string bytes = encoded(L, "write_image");
  io::atomic_write(path, [&](io::Output& out) { out.write(bytes); });
  return 0;
}

}  // namespace

void open_images(lua_State* L, int torch) {
  static const luaL_Reg functions[] = {{"_read_image", guarded<read_image>},
                                       {"_decode_image", guarded<decode_image>},
                                       {"_encode_image", guarded<encode_image>},
                                       {"_write_image", guarded<write_image>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
