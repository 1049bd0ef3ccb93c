// How a value written at a position combines with what stands there, by element type. Halves are
// combined in float32 by their callers.
#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

#include "engine/tensor/dtype.h"

namespace tycho::cpu {

enum class Combine : uint8_t { Set, Add, Mul, Max, Min };

// bool as stored, apart from uint8.
struct Truth {
  uint8_t byte;
};

template <Combine C, class T>
inline T combined(T old, T x) {
  if constexpr (C == Combine::Set) {
    return x;
  } else if constexpr (std::is_same_v<T, Truth>) {
    const bool a = old.byte != 0, b = x.byte != 0;
    return {static_cast<uint8_t>(C == Combine::Add || C == Combine::Max ? a || b : a && b)};
  } else if constexpr (C == Combine::Add || C == Combine::Mul) {
    if constexpr (std::is_integral_v<T>) {  // integers wrap around
      using U = std::make_unsigned_t<T>;
      const uint64_t a = static_cast<U>(old), b = static_cast<U>(x);
      return static_cast<T>(C == Combine::Add ? a + b : a * b);
    } else {
      return C == Combine::Add ? old + x : old * x;
    }
  } else if constexpr (std::is_integral_v<T>) {
    return C == Combine::Max ? (x > old ? x : old) : (x < old ? x : old);
  } else {  // nan wins; by masks, since nobody can foresee which it is
    using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const bool take = (C == Combine::Max ? !(x <= old) : !(x >= old)) & (old == old);
    const U mask = U{0} - take;
    return std::bit_cast<T>((std::bit_cast<U>(x) & mask) | (std::bit_cast<U>(old) & ~mask));
  }
}

// Calls f with a value of the type that holds a dtype's elements.
template <class F>
inline void with_type(DType t, F&& f) {
  switch (t) {
    case DType::Bool:
      return f(Truth());
    case DType::UInt8:
      return f(uint8_t());
    case DType::Int8:
      return f(int8_t());
    case DType::Int16:
      return f(int16_t());
    case DType::Int32:
      return f(int32_t());
    case DType::Int64:
      return f(int64_t());
    case DType::Float32:
      return f(float());
    case DType::Float64:
      return f(double());
    default:
      return;
  }
}
// The same for moving values only: by size.
template <class F>
inline void with_size(DType t, F&& f) {
  switch (dtype_size(t)) {
    case 1:
      return f(uint8_t());
    case 2:
      return f(uint16_t());
    case 4:
      return f(uint32_t());
    default:
      return f(uint64_t());
  }
}

// Calls f.template operator()<C, T>() for how elements of type t combine.
template <class F>
inline void with_combine(Combine how, DType t, F&& f) {
  switch (how) {
    case Combine::Set:
      return with_size(t, [&](auto x) { f.template operator()<Combine::Set, decltype(x)>(); });
    case Combine::Add:
      return with_type(t, [&](auto x) { f.template operator()<Combine::Add, decltype(x)>(); });
    case Combine::Mul:
      return with_type(t, [&](auto x) { f.template operator()<Combine::Mul, decltype(x)>(); });
    case Combine::Max:
      return with_type(t, [&](auto x) { f.template operator()<Combine::Max, decltype(x)>(); });
    case Combine::Min:
      return with_type(t, [&](auto x) { f.template operator()<Combine::Min, decltype(x)>(); });
  }
}

inline bool is_half(DType t) { return t == DType::Float16 || t == DType::BFloat16; }

}  // namespace tycho::cpu
