// Choosing the instruction-set level (see level.h).
#include "engine/cpu/level.h"

#include <cpuid.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "engine/base/check.h"

namespace tycho::cpu {
namespace {

Level best() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return Level::v4;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    return Level::v3;
  return Level::x86_64;
}

Level chosen() {
  const char* want = std::getenv("TYCHO_CPU_LEVEL");
  if (want)
    for (Level l : {Level::x86_64, Level::v3, Level::v4})
      if (!std::strcmp(want, level_name(l)) && l <= best()) return l;
  return best();
}

}  // namespace

Level detail::current_level = chosen();

void force_level(Level l) {
  TYCHO_CHECK(Kind::Value, l <= best(), "this CPU has no level %s", level_name(l));
  detail::current_level = l;
}

bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;  // clang 14 does not know the tiles by name
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & d >> 24 & 1);
}

const char* cpu_features() {
  static std::string text;
  if (!text.empty()) return text.c_str();
  __builtin_cpu_init();
  const auto add = [&](const char* name, bool has) {
    if (has) text += (text.empty() ? "" : " ") + std::string(name);
  };
  add("sse4.2", __builtin_cpu_supports("sse4.2"));
  add("avx2", __builtin_cpu_supports("avx2"));
  add("fma", __builtin_cpu_supports("fma"));
  add("avx512f", __builtin_cpu_supports("avx512f"));
  add("avx512vl", __builtin_cpu_supports("avx512vl"));
  add("avx512_vnni", __builtin_cpu_supports("avx512vnni"));
  add("avx512_bf16", __builtin_cpu_supports("avx512bf16"));
  add("amx_bf16", has_tiles());
  return text.c_str();
}

const char* level_name(Level l) {
  static const char* const names[] = {"x86_64", "v3", "v4"};
  return names[static_cast<int>(l)];
}

}  // namespace tycho::cpu
