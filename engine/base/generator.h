// Generator: PyTorch's CPU random stream. The engine is the Mersenne twister MT19937 (Matsumoto and
// Nishimura, 1998); how its outputs become numbers, what a seed means and the bytes of a saved
// state are as PyTorch's, so that the same seed gives the same numbers and states can be exchanged.
// A generator belongs to one thread at a time; so does the default one.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tycho {

// What makes an output of a word of the state.
[[gnu::always_inline]] inline uint32_t mersenne_temper(uint32_t y) {
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}

class Generator {
 public:
  static constexpr int kWords = 624;                           // words of state, and of one block
  static constexpr size_t kStateBytes = 5056;                  // of torch.get_rng_state()
  static constexpr uint64_t kDefaultSeed = 67280421310721ull;  // of a new torch.Generator()

  explicit Generator(uint64_t seed = kDefaultSeed) { this->seed(seed); }

  // Restarts the stream from the low 32 bits of `seed` and forgets the kept normal number.
  void seed(uint64_t seed);
  uint64_t initial_seed() const { return initial_seed_; }

  uint32_t next32() {
    if (used_ == kWords) next_block();
    return mersenne_temper(words_[used_++]);
  }
  // Two outputs; the first one is the high half.
  uint64_t next64() {
    const uint64_t high = next32();
    return high << 32 | next32();
  }
  // Uniform in [0, 1): the low 24 bits of one output.
  float next_float24() { return static_cast<float>(next32() & 0xffffff) * 0x1p-24f; }
  // Uniform in [0, 1): the low 53 bits of two outputs.
  double next_double53() {
    return static_cast<double>(next64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
  }
  // Normal with mean 0 and deviation 1, in pairs (Box and Muller): the cosine first, while the sine
  // is kept for the next call.
  double next_normal();

  // The next n outputs, in order; much faster than n calls of next32.
  void fill32(uint32_t* out, int64_t n);

  // The whole state, in the layout of torch.get_rng_state().
  std::string state() const;
  void set_state(std::string_view bytes);  // raises `value` when this is no such state

 private:
  void next_block();

  uint32_t words_[kWords];
  int used_ = kWords;  // words of the block already handed out
  bool has_normal_ = false;
  double normal_ = 0;  // the kept sine, when has_normal_
  uint64_t initial_seed_ = 0;
};

// The generator of every call on this thread that names none. It starts with a seed from the
// system, as PyTorch's.
Generator& default_generator();

// A seed nobody can predict, of 53 bits, as torch.seed() draws it.
uint64_t system_seed();

}  // namespace tycho
