// Sizes in whole blocks.
#pragma once
#include <cstdint>

namespace tycho::cpu {

constexpr int64_t up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }
constexpr int64_t blocks(int64_t x, int64_t size) { return (x + size - 1) / size; }

}  // namespace tycho::cpu
