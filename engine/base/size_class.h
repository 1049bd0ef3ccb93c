// Sizes of memory blocks: steps of 64 bytes up to 1 KB, then eight per power of two, so that at
// most an eighth of a block is unused above 1 KB.
#pragma once
#include <bit>
#include <cstddef>

namespace tycho {

// 0 bytes are in the first class, too: an empty tensor has an address like any other.
constexpr unsigned size_class(size_t bytes) {
  if (bytes <= 1024) return static_cast<unsigned>((bytes - (bytes != 0)) >> 6);
  const size_t last = bytes - 1;
  const unsigned power = std::bit_width(last) - 1;
  return 16 + (power - 10) * 8 + ((last >> (power - 3)) & 7);
}

constexpr size_t class_bytes(unsigned index) {
  if (index < 16) return (size_t(index) + 1) * 64;
  const unsigned power = 10 + (index - 16) / 8;
  return size_t(9 + (index - 16) % 8) << (power - 3);
}

static_assert(class_bytes(size_class(0)) == 64 && class_bytes(size_class(65)) == 128);
static_assert(class_bytes(size_class(1024)) == 1024 && class_bytes(size_class(1025)) == 1152);
static_assert(class_bytes(size_class(4'000'000)) == size_t(4) << 20);

}  // namespace tycho
