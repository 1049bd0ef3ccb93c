// Instruction-set levels: every kernel in engine/cpu/*/level/ exists three times, in namespaces
// x86_64, v3 (AVX2, FMA, F16C) and v4 (AVX-512 F, BW, CD, DQ, VL); the best one the CPU has is
// chosen once, at start. TYCHO_CPU_LEVEL=x86_64|v3|v4 forces a lower one (tests do).
//
//   TYCHO_LEVELS(void, add_rows, (const float* a, float* y, int64_t n))  // in a header: all three
//   level_of::add_rows(a, y, n)                                          // calls the chosen one
#pragma once
#include <cstdint>

namespace tycho::cpu {

enum class Level : int { x86_64, v3, v4 };
namespace detail {
extern Level current_level;
}
inline Level level() { return detail::current_level; }  // chosen at start
void force_level(Level);  // lower or raise (within what the CPU has); raises `value` otherwise
const char* level_name(Level);
bool has_tiles();  // of bfloat16 (Intel AMX); whether the system lets them be used is another matter
const char* cpu_features();  // what this CPU has of what the kernels can use: "avx2 fma"

}  // namespace tycho::cpu

#define TYCHO_LEVELS(result, name, params)          \
  namespace tycho::cpu::x86_64 {                    \
  result name params;                               \
  }                                                 \
  namespace tycho::cpu::v3 {                        \
  result name params;                               \
  }                                                 \
  namespace tycho::cpu::v4 {                        \
  result name params;                               \
  }                                                 \
  namespace tycho::cpu::level_of {                  \
  template <class... A>                             \
  inline result name(A... args) {                   \
    switch (::tycho::cpu::level()) {                \
      case ::tycho::cpu::Level::v4:                 \
        return ::tycho::cpu::v4::name(args...);     \
      case ::tycho::cpu::Level::v3:                 \
        return ::tycho::cpu::v3::name(args...);     \
      default:                                      \
        return ::tycho::cpu::x86_64::name(args...); \
    }                                               \
  }                                                 \
  }
