// float16 and bfloat16 as bit patterns: scalar conversions (the kernels have vector ones).
// Rounding is to nearest even; nan stays nan.
#pragma once
#include <cstdint>
#include <cstring>

namespace tycho {

static inline float from_bits(uint32_t u) {
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
static inline uint32_t to_bits(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  return u;
}

static inline float from_bfloat16(uint16_t h) { return from_bits(static_cast<uint32_t>(h) << 16); }

static inline uint16_t to_bfloat16(float f) {
  const uint32_t u = to_bits(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

static inline float from_float16(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, rest = h & 0x7fffu;
  if (rest >= 0x7c00u) return from_bits(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  if (rest >= 0x400u) return from_bits(sign | ((rest << 13) + (112u << 23)));
  return from_bits(sign | to_bits(static_cast<float>(rest) * 0x1p-24f));
}

static inline uint16_t to_float16(float f) {
  const uint32_t u = to_bits(f), sign = (u >> 16) & 0x8000u, rest = u & 0x7fffffffu;
  if (rest > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (rest >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65536: inf
  if (rest < 0x38800000u) {  // subnormal: adding 0.5 lines the bits up and rounds them
    const float lifted = from_bits(rest) + 0.5f;
    return static_cast<uint16_t>(sign | (to_bits(lifted) - 0x3f000000u));
  }
  return static_cast<uint16_t>(sign | ((rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1)) >> 13));
}

}  // namespace tycho
