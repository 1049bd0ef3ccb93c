// Weights of convolutions turned between [out, in, taps] and blocks of 16 outputs, a unit of 16
// outputs and 16 inputs with all taps at a time, which stays in the first-level cache.
#include "engine/cpu/conv/conv_pack.h"

#include "engine/cpu/lanes/storage.h"
#include "engine/cpu/lanes/transpose.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int64_t kSide = 16;
constexpr int64_t kMost = kSide * 27;  // numbers of an output at a time
constexpr int64_t kRoom = kMost + kSide;

TYCHO_INLINE int64_t fewer(int64_t a, int64_t b) { return a < b ? a : b; }

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

// A part of unit k: its first output and input, and how many there are of them. As many inputs at a
// time as there is room for, an even number.
struct Unit {
  int64_t out, in, outs, ins;
  Unit(const ConvPack& p, int64_t k)
      : out(k / p.in_units() * kSide),
        in(k % p.in_units() * kSide),
        outs(fewer(kSide, p.out - out)),
        ins(fewer(kSide, p.in - in)) {}
  int64_t packed(const ConvPack& p) const { return out / p.block * p.out_step; }
  // Calls f for parts.
  template <class F>
  void each_part(const ConvPack& p, F&& f) const {
    const int64_t most = p.taps <= kMost / kSide ? kSide : kMost / p.taps / 2 * 2;
    for (int64_t i = 0; i < ins; i += most) {
      Unit part = *this;
      part.in += i, part.ins = fewer(most, ins - i);
      f(part);
    }
  }
};

// Numbers as they are, and those of two bytes widened.
TYCHO_INLINE void widen(const float* from, int64_t n, float* to) {
  memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}
TYCHO_INLINE void widen(const uint16_t* from, int64_t n, float* to) {
  int64_t c = 0;
  for (; c + Lane<float>::size <= n; c += Lane<float>::size) get(from + c).store(to + c);
  for (; c < n; ++c) {
    const uint32_t bits = static_cast<uint32_t>(from[c]) << 16;
    memcpy(to + c, &bits, sizeof bits);
  }
}
TYCHO_INLINE void narrow(const float* from, int64_t n, float* to) {
  memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}
TYCHO_INLINE void narrow(const float* from, int64_t n, uint16_t* to) {
  int64_t c = 0;
  for (; c + Lane<float>::size <= n; c += Lane<float>::size)
    put(Lane<float>::load(from + c), to + c);
  if (c == n) return;
  float last[Lane<float>::size] = {};
  uint16_t rest[Lane<float>::size];
  for (int64_t i = c; i < n; ++i) last[i - c] = from[i];
  put(Lane<float>::load(last), rest);
  for (int64_t i = c; i < n; ++i) to[i] = rest[i - c];
}

// The numbers of a part as [inputs, taps, 16 outputs], zeros where there is no output.
template <class S>
TYCHO_INLINE void columns_of(const ConvPack& p, const Unit& u, const S* from, float* lines,
                             float* columns) {
  const int64_t row = p.in * p.taps, n = u.ins * p.taps, n4 = (n + 3) / 4 * 4;
  const S* const at = from + u.out * row + u.in * p.taps;
  if constexpr (sizeof(S) == 4)
    if (u.outs == kSide && n == n4) return transpose_in(at, row, n, columns);
  for (int64_t o = 0; o < u.outs; ++o) widen(at + o * row, n, lines + o * n4);
  if (u.outs < kSide)
    memset(lines + u.outs * n4, 0, static_cast<size_t>((kSide - u.outs) * n4) * sizeof(float));
  transpose_in(lines, n4, n4, columns);
}

void pack32(const ConvPack& p, const float* from, float* to, int64_t begin, int64_t end) {
  alignas(64) float columns[kRoom * kSide], lines[kSide * kRoom];
  for (int64_t k = begin; k < end; ++k)
    Unit(p, k).each_part(p, [&](const Unit& u) {
      columns_of(p, u, from, lines, columns);
      float* const block = to + u.packed(p) + u.out % p.block;
      for (int64_t i = 0; i < u.ins; ++i)
        for (int64_t t = 0; t < p.taps; ++t)
          copy16(columns + (i * p.taps + t) * kSide, block + (u.in + i) * p.in_step + p.tap_at[t]);
    });
}

// Two neighbouring inputs of an output are one number of 32 bits.
void pack16(const ConvPack& p, const uint16_t* from, uint16_t* to, int64_t begin, int64_t end) {
  alignas(64) float columns[kRoom * kSide], lines[kSide * kRoom];
  const int64_t row = p.in * p.taps;
  for (int64_t k = begin; k < end; ++k)
    Unit(p, k).each_part(p, [&](const Unit& u) {
      uint16_t* const block = to + u.packed(p) + u.out % p.block * 2;
      if (p.taps == 1 && u.ins == kSide && u.outs == kSide) {  // pairs lie side by side already
        const uint16_t* const at = from + u.out * row + u.in;
        for (int64_t o = 0; o < kSide; ++o) memcpy(lines + o * kSide / 2, at + o * row, kSide * 2);
        transpose_in(lines, kSide / 2, kSide / 2, columns);
        for (int64_t i = 0; i < kSide / 2; ++i)
          memcpy(block + (u.in / 2 + i) * p.in_step + p.tap_at[0], columns + i * kSide, kSide * 4);
        return;
      }
      columns_of(p, u, from, lines, columns);
      for (int64_t i = 0; i < u.ins; i += 2)
        for (int64_t t = 0; t < p.taps; ++t) {
          uint32_t low[kSide], high[kSide] = {};
          memcpy(low, columns + (i * p.taps + t) * kSide, sizeof low);
          if (i + 1 < u.ins) memcpy(high, columns + ((i + 1) * p.taps + t) * kSide, sizeof high);
          for (int64_t o = 0; o < kSide; ++o) low[o] = low[o] >> 16 | (high[o] & 0xffff0000u);
          memcpy(block + (u.in + i) / 2 * p.in_step + p.tap_at[t], low, sizeof low);
        }
    });
}

template <class S>
void unpack(const ConvPack& p, const float* from, S* to, int64_t begin, int64_t end) {
  alignas(64) float columns[kRoom * kSide], lines[kSide * kRoom];
  const int64_t row = p.in * p.taps;
  for (int64_t k = begin; k < end; ++k)
    Unit(p, k).each_part(p, [&](const Unit& u) {
      const int64_t n = u.ins * p.taps, n4 = (n + 3) / 4 * 4;
      const float* const block =
          from + u.packed(p) + u.in / kSide * p.in_step + u.in % kSide * kSide;
      for (int64_t i = 0; i < u.ins; ++i)
        for (int64_t t = 0; t < p.taps; ++t)
          copy16(block + p.tap_at[t] + i * kSide, columns + (i * p.taps + t) * kSide);
      S* const at = to + u.out * row + u.in * p.taps;
      if constexpr (sizeof(S) == 4)
        if (u.outs == kSide && n == n4) return transpose_out(columns, n, at, row);
      transpose_out(columns, n4, lines, n4);
      for (int64_t o = 0; o < u.outs; ++o) narrow(lines + o * n4, n, at + o * row);
    });
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
