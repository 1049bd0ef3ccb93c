// Weights of convolutions turned between [out, in, taps] and blocks of 16 outputs, a unit of 16
// outputs and 16 inputs with all taps at a time, which stays in the first-level cache.
#include "engine/cpu/conv/conv_pack.h"

#include "engine/cpu/lanes/storage.h"
#include "engine/cpu/lanes/transpose.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int64_t kSide = 16;
constexpr int64_t kMost = kSide * ConvPack::kMostTaps;

// Sixteen numbers of 32 bits, as float lanes.
TYCHO_INLINE void copy16(const float* from, float* to) { memcpy(to, from, kSide * sizeof(float)); }

// [16 outputs, n] into [n, 16]; rows of `from` are `ld` apart. n is a multiple of 4.
TYCHO_INLINE void transpose_in(const float* from, int64_t ld, int64_t n, float* to) {
  for (int64_t o = 0; o < kSide; o += 4)
    for (int64_t c = 0; c < n; c += 4) turn4(from + o * ld + c, ld, to + c * kSide + o, kSide);
}
TYCHO_INLINE void transpose_out(const float* from, int64_t n, float* to, int64_t ld) {
  for (int64_t o = 0; o < kSide; o += 4)
    for (int64_t c = 0; c < n; c += 4) turn4(from + c * kSide + o, kSide, to + o * ld + c, ld);
}

// Where unit k begins: its first output and input.
struct Unit {
  int64_t out, in;
  Unit(const ConvPack& p, int64_t k)
      : out(k / (p.in / kSide) * kSide), in(k % (p.in / kSide) * kSide) {}
  int64_t packed(const ConvPack& p) const { return out / p.block * p.out_step; }
};

void pack32(const ConvPack& p, const float* from, float* to, int64_t begin, int64_t end) {
  alignas(64) float scratch[kMost * kSide];
  const int64_t row = p.in * p.taps, n = kSide * p.taps;
  for (int64_t k = begin; k < end; ++k) {
    const Unit u(p, k);
    transpose_in(from + u.out * row + u.in * p.taps, row, n, scratch);
    float* const block = to + u.packed(p) + u.out % p.block;
    for (int64_t i = 0; i < kSide; ++i)
      for (int64_t t = 0; t < p.taps; ++t)
        copy16(scratch + (i * p.taps + t) * kSide, block + (u.in + i) * p.in_step + p.tap_at[t]);
  }
}

// Two neighbouring inputs of an output are one number of 32 bits.
void pack16(const ConvPack& p, const uint16_t* from, uint16_t* to, int64_t begin, int64_t end) {
  alignas(64) float scratch[kMost * kSide], wide[kSide * kMost];
  const int64_t row = p.in * p.taps, n = kSide * p.taps;
  for (int64_t k = begin; k < end; ++k) {
    const Unit u(p, k);
    const uint16_t* const at = from + u.out * row + u.in * p.taps;
    uint16_t* const block = to + u.packed(p) + u.out % p.block * 2;
    if (p.taps == 1) {  // pairs lie side by side already
      for (int64_t o = 0; o < kSide; ++o) memcpy(wide + o * kSide / 2, at + o * row, kSide * 2);
      transpose_in(wide, kSide / 2, kSide / 2, scratch);
      for (int64_t i = 0; i < kSide / 2; ++i)
        memcpy(block + (u.in / 2 + i) * p.in_step + p.tap_at[0], scratch + i * kSide, kSide * 4);
      continue;
    }
    for (int64_t o = 0; o < kSide; ++o)
      for (int64_t c = 0; c < n; c += Lane<float>::size)
        get(at + o * row + c).store(wide + o * n + c);
    transpose_in(wide, n, n, scratch);
    for (int64_t i = 0; i < kSide; i += 2)
      for (int64_t t = 0; t < p.taps; ++t) {
        uint32_t low[kSide], high[kSide];
        memcpy(low, scratch + (i * p.taps + t) * kSide, sizeof low);
        memcpy(high, scratch + ((i + 1) * p.taps + t) * kSide, sizeof high);
        for (int64_t o = 0; o < kSide; ++o) low[o] = low[o] >> 16 | (high[o] & 0xffff0000u);
        memcpy(block + (u.in + i) / 2 * p.in_step + p.tap_at[t], low, sizeof low);
      }
  }
}

template <class S>
void unpack(const ConvPack& p, const float* from, S* to, int64_t begin, int64_t end) {
  alignas(64) float scratch[kMost * kSide], lines[kSide * kMost];
  const int64_t row = p.in * p.taps, n = kSide * p.taps;
  for (int64_t k = begin; k < end; ++k) {
    const Unit u(p, k);
    const float* const block = from + u.packed(p) + u.in / kSide * p.in_step;
    for (int64_t i = 0; i < kSide; ++i)
      for (int64_t t = 0; t < p.taps; ++t)
        copy16(block + p.tap_at[t] + i * kSide, scratch + (i * p.taps + t) * kSide);
    S* const at = to + u.out * row + u.in * p.taps;
    if constexpr (sizeof(S) == 4) {
      transpose_out(scratch, n, at, row);
    } else {
      transpose_out(scratch, n, lines, n);
      for (int64_t o = 0; o < kSide; ++o)
        for (int64_t c = 0; c < n; c += Lane<float>::size)
          put(Lane<float>::load(lines + o * n + c), at + o * row + c);
    }
  }
}

}  // namespace

void conv_pack(int bytes, const ConvPack* p, const void* from, void* to, int64_t begin,
               int64_t end) {
  if (bytes == 4)
    pack32(*p, static_cast<const float*>(from), static_cast<float*>(to), begin, end);
  else
    pack16(*p, static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to), begin, end);
}

void conv_unpack(int bytes, const ConvPack* p, const void* from, void* to, int64_t begin,
                 int64_t end) {
  if (bytes == 4)
    unpack(*p, static_cast<const float*>(from), static_cast<float*>(to), begin, end);
  else
    unpack(*p, static_cast<const float*>(from), static_cast<uint16_t*>(to), begin, end);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
