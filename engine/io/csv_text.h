// What reading tables needs to know of one field: numbers, spaces, bit patterns.
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

namespace tycho::io {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }
inline double as_double(uint64_t bits) { return __builtin_bit_cast(double, bits); }

// Without spaces and tabs around it.
std::string_view trimmed(std::string_view s);

enum class Parsed { No, Int, Float };
// A whole number that fits int64, or another number; beyond the range of doubles it is infinite or
// 0.
Parsed parse_number(std::string_view s, int64_t* whole, double* real);

}  // namespace tycho::io
