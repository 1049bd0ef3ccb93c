// The checksum of zip archives (CRC-32), at the speed of memory where the processor multiplies
// without carries.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tycho::io {

// The sum of `bytes` after others whose sum is `before`. It looks for no interrupt.
uint32_t crc32(std::string_view bytes, uint32_t before = 0);
// The sum of two parts, from the sum of each and the second's length.
uint32_t crc32_joined(uint32_t first, uint32_t second, size_t second_bytes);

}  // namespace tycho::io
