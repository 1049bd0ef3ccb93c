// Hashes of 64 bits for the engine's caches: of numbers and of byte ranges. Fast and well spread,
// but not safe against chosen keys, and never written to files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tycho {

// Both halves of the 128-bit product, folded: every bit of the result depends on all bits.
inline uint64_t hash_mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// The constants are odd numbers with bits well spread (the fractions of sqrt 2 and sqrt 3).
inline uint64_t hash_int(uint64_t value, uint64_t seed = 0) {
  return hash_mix(value ^ 0x6a09e667f3bcc909u, (seed << 1 | seed >> 63) ^ 0xbb67ae8584caa73bu);
}

// Hash of `bytes` bytes at `data`; pass a hash as the seed to go on from it.
inline uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed = 0) {
  const char* at = static_cast<const char*>(data);
  uint64_t hash = hash_int(bytes, seed);
  uint64_t words[2];
  for (; bytes > 16; bytes -= 16, at += 16) {
    std::memcpy(words, at, 16);
    hash = hash_mix(words[0] ^ 0x3c6ef372fe94f82bu, words[1] ^ hash);
  }
  words[0] = words[1] = 0;
  if (bytes > 0) std::memcpy(words, at, bytes);
  hash = hash_mix(words[0] ^ 0xa54ff53a5f1d36f1u, words[1] ^ hash);
  return hash_int(hash, seed);
}

}  // namespace tycho
