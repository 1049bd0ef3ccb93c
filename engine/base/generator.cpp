// The Mersenne twister in blocks, and the bytes of its state (see generator.h).
#include "engine/base/generator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "engine/base/check.h"

namespace tycho {
namespace {

constexpr int N = Generator::kWords, M = 397;

// One step of the recurrence: the highest bit of `a` and the other bits of `b`, mixed into `m`.
[[gnu::always_inline]] inline uint32_t twist1(uint32_t a, uint32_t b, uint32_t m) {
  const uint32_t y = (a & 0x80000000u) | (b & 0x7fffffffu);
  return m ^ y >> 1 ^ ((0u - (b & 1)) & 0x9908b0dfu);
}

// Word i is made from words i, i + 1 and i + M, counted round: two runs, each of them split into a
// multiple of 16 words, which the compiler turns into vectors, and a rest.
[[gnu::always_inline]] inline void twist_all(uint32_t* w) {
  constexpr int first = (N - M) / 16 * 16, second = N - M + (M - 1) / 16 * 16;
  for (int i = 0; i < first; ++i) w[i] = twist1(w[i], w[i + 1], w[i + M]);
  for (int i = first; i < N - M; ++i) w[i] = twist1(w[i], w[i + 1], w[i + M]);
  for (int i = N - M; i < second; ++i) w[i] = twist1(w[i], w[i + 1], w[i + M - N]);
  for (int i = second; i < N - 1; ++i) w[i] = twist1(w[i], w[i + 1], w[i + M - N]);
  w[N - 1] = twist1(w[N - 1], w[0], w[M - 1]);
}

[[gnu::always_inline]] inline void temper_all(const uint32_t* __restrict w,
                                              uint32_t* __restrict out, int n) {
  int i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 16; ++k) out[i + k] = mersenne_temper(w[i + k]);
  for (; i < n; ++i) out[i] = mersenne_temper(w[i]);
}

// These two take nearly all the time of a long fill, and on integers every instruction set gives
// the same result, so the compiler makes them twice and the CPU's best is used.
struct Block {
  void (*twist)(uint32_t* words);
  void (*temper)(const uint32_t* words, uint32_t* out, int n);
};
#define TYCHO_BLOCK(name, isa)                                                       \
  [[gnu::target(isa)]] void twist_##name(uint32_t* w) { twist_all(w); }              \
  [[gnu::target(isa)]] void temper_##name(const uint32_t* w, uint32_t* out, int n) { \
    temper_all(w, out, n);                                                           \
  }                                                                                  \
  constexpr Block name = {twist_##name, temper_##name};
TYCHO_BLOCK(plain, "sse2")
TYCHO_BLOCK(avx2, "avx2")
#undef TYCHO_BLOCK

const Block& block() {
  static const Block& best = __builtin_cpu_supports("avx2") ? avx2 : plain;
  return best;
}

// How torch.get_rng_state() lays out its bytes (at::CPUGeneratorImplState).
struct SavedState {
  uint64_t seed;
  int32_t left;  // words left in this block, plus one
  int32_t seeded;
  uint64_t next;  // words of this block already used
  uint64_t words[N];
  double normal_x, normal, normal_rho;  // only the middle one is in use
  int32_t has_normal;
  float float_normal;
  uint8_t has_float_normal;
};
static_assert(sizeof(SavedState) == Generator::kStateBytes);

}  // namespace

void Generator::seed(uint64_t seed) {
  initial_seed_ = seed;
  words_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < N; ++i)
    words_[i] = 1812433253u * (words_[i - 1] ^ words_[i - 1] >> 30) + i;
  used_ = N;
  has_normal_ = false;
}

void Generator::next_block() {
  block().twist(words_);
  used_ = 0;
}

void Generator::fill32(uint32_t* out, int64_t n) {
  while (n > 0) {
    if (used_ == N) next_block();
    const int m = static_cast<int>(std::min<int64_t>(n, N - used_));
    block().temper(words_ + used_, out, m);
    used_ += m;
    out += m;
    n -= m;
  }
}

double Generator::next_normal() {
  if (has_normal_) {
    has_normal_ = false;
    return normal_;
  }
  const double u1 = next_double53(), u2 = next_double53();
  const double radius = std::sqrt(-2 * std::log1p(-u2)), theta = 2 * M_PI * u1;
  normal_ = radius * std::sin(theta);
  has_normal_ = true;
  return radius * std::cos(theta);
}

std::string Generator::state() const {
  SavedState s{};
  s.seed = initial_seed_;
  s.left = N + 1 - used_;
  s.seeded = 1;
  s.next = used_;
  for (int i = 0; i < N; ++i) s.words[i] = words_[i];
  s.normal = has_normal_ ? normal_ : 0;
  s.has_normal = has_normal_;
  return std::string(reinterpret_cast<const char*>(&s), sizeof s);
}

void Generator::set_state(std::string_view bytes) {
  TYCHO_CHECK(Kind::Value, bytes.size() == kStateBytes,
              "a generator's state has %zu bytes, this has %zu", kStateBytes, bytes.size());
  SavedState s;
  std::memcpy(&s, bytes.data(), sizeof s);
  TYCHO_CHECK(Kind::Value, s.seeded == 1 && s.left >= 1 && s.left <= N && s.next <= N,
              "these bytes are no generator's state");
  initial_seed_ = s.seed;
  used_ = N + 1 - s.left;
  for (int i = 0; i < N; ++i) words_[i] = static_cast<uint32_t>(s.words[i]);
  has_normal_ = s.has_normal != 0;
  normal_ = s.normal;
}

Generator& default_generator() {
  static thread_local Generator generator(system_seed());
  return generator;
}

uint64_t system_seed() {
  std::random_device device;
  const uint64_t high = device();
  return (high << 32 | device()) & ((uint64_t{1} << 53) - 1);
}

}  // namespace tycho
