// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// 2011): four random words from a key and a counter, without a state between them. A device's
// random numbers are functions of the seed, the stream's offset and the element's place, so that
// they depend on no grid, thread or chip. Plain C++, which a device's compiler takes as well.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tycho {

struct PhiloxBlock {
  uint32_t word[4];
};

constexpr PhiloxBlock philox(uint64_t key, uint64_t low, uint64_t high = 0) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0 = static_cast<uint32_t>(low), c1 = static_cast<uint32_t>(low >> 32);
  uint32_t c2 = static_cast<uint32_t>(high), c3 = static_cast<uint32_t>(high >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53} * c0, b = uint64_t{0xcd9e8d57} * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(b);
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(a);
    k0 += 0x9e3779b9;
    k1 += 0xbb67ae85;
  }
  return {{c0, c1, c2, c3}};
}

// --- Words as numbers ---

// Element e of a block: in [0, 1) from 24 or 53 bits. Four float32 to a block, or two float64.
constexpr float unit_of(const PhiloxBlock& b, int e, float) {
  return static_cast<float>(b.word[e] >> 8) * 0x1p-24f;
}
constexpr double unit_of(const PhiloxBlock& b, int e, double) {
  return static_cast<double>((uint64_t{b.word[2 * e]} << 32 | b.word[2 * e + 1]) >> 11) * 0x1p-53;
}
// The same in (0, 1], whose logarithm is finite; float32 from all 32 bits.
constexpr float open_of(const PhiloxBlock& b, int e, float) {
  return static_cast<float>(b.word[e]) * 0x1p-32f + 0x1p-33f;
}
constexpr double open_of(const PhiloxBlock& b, int e, double x) {
  return unit_of(b, e, x) + 0x1p-53;
}

// --- Streams ---

// What a device's generator keeps: the seed, and the first counter that is not used up.
class PhiloxStream {
 public:
  static constexpr size_t kStateBytes = 16;  // seed and offset, as torch.cuda.get_rng_state()

  explicit PhiloxStream(uint64_t seed) : seed_(seed) {}

  void seed(uint64_t seed) { seed_ = seed, offset_ = 0; }
  uint64_t initial_seed() const { return seed_; }
  // The first of so many counters, which nobody else gets.
  uint64_t take(int64_t counters) {
    return std::exchange(offset_, offset_ + static_cast<uint64_t>(counters));
  }

  std::string state() const;
  void set_state(std::string_view bytes);  // raises `value` when this is no such state

 private:
  uint64_t seed_, offset_ = 0;
};

// Numbers one after the other for one element that may need any number of them: the blocks of
// counter `at` whose upper half counts from 1.
class PhiloxReader {
 public:
  constexpr PhiloxReader(uint64_t key, uint64_t at) : key_(key), at_(at) {}
  constexpr double next_double53() {
    kept_ = !kept_;
    if (!kept_) return second_;
    const PhiloxBlock block = philox(key_, at_, ++blocks_);
    second_ = unit_of(block, 1, double{});
    return unit_of(block, 0, double{});
  }

 private:
  uint64_t key_, at_, blocks_ = 0;
  double second_ = 0;  // of the last block, where it is kept
  bool kept_ = false;
};

}  // namespace tycho
