// Ordered keys: unsigned integers in the order of the values they stand for, so that sorting,
// selecting and searching compare integers whatever the type. nan is the largest key, -0 has the
// key of 0. Types of up to 32 bits have 32-bit keys, int64 and float64 64-bit ones.
#pragma once
#include <memory>

#include "engine/cpu/index/sort_level.h"
#include "engine/tensor/tensor.h"

namespace tycho::cpu {

inline bool wide_keys(DType t) { return t == DType::Int64 || t == DType::Float64; }

// A key with the number of its element: compares as the key, then by number, so no two are equal.
template <class Key>
struct PackedOf;
template <>
struct PackedOf<uint32_t> {
  using Type = uint64_t;
};
template <>
struct PackedOf<uint64_t> {
  __extension__ using Type = unsigned __int128;
};
template <class Key>
using Packed = typename PackedOf<Key>::Type;
template <class Key>
constexpr int kKeyBits = sizeof(Key) * 8;
template <class Key>
Packed<Key> pack(Key key, int64_t number) {
  return static_cast<Packed<Key>>(key) << kKeyBits<Key> | static_cast<Key>(number);
}
template <class Key>
Key key_of(Packed<Key> p) {
  return static_cast<Key>(p >> kKeyBits<Key>);
}
template <class Key>
int64_t number_of(Packed<Key> p) {
  return static_cast<int64_t>(static_cast<Key>(p));
}

// The keys of n elements of any type, `step` elements apart; with all bits in `flip`, in falling order.
template <class Key>
void load_keys(DType dtype, const char* from, int64_t step, Key* keys, int64_t n, Key flip = 0);
// The key that stands for nan (integers never have it as floats do: compare only for floats).
template <class Key>
constexpr Key kNanKey = static_cast<Key>(-1);

// From how many on items are sorted by digits, not by comparing them.
template <class Key>
constexpr int64_t kByDigits = sizeof(Key) == 4 ? 64 : 256;

// Sorts ascending; `spare` has room for n more.
template <class Key>
void sort_packed(Packed<Key>* items, Packed<Key>* spare, int64_t n);

// The items of keys, sorted on up to so many threads: in `items` or `spare`.
template <class Key>
Packed<Key>* sort_keys(const Key* keys, Packed<Key>* items, Packed<Key>* spare, int64_t n,
                       int threads);

// Where keys of few values begin in their order, and whose they are.
template <class Key>
struct Run {
  Key key;
  int64_t begin;
};
// Writes where the keys stand in order, from 1 and `step` apart, where they are no more apart than a digit tells (the
// runs come in order, then); else there are no runs.
template <class Key>
std::vector<Run<Key>> order_few_values(const Key* keys, int64_t n, int threads, int64_t* positions,
                                       int64_t step);

// Sorts many lines of a few elements each: the first of them, as many as `values` has along dim, and where they stood
// (from 1). Equal ones keep their order. False where the lines are not short and many.
bool sort_short_lines(const Tensor& x, int64_t dim, bool descending, const Tensor& values,
                      const Tensor& positions);

// The element number k (from 0) in the order of each of many short lines, and where it stood. Of a line with nans, by
// `nans`, k is right all the same, the first nan is taken, or the middle of what is not nan.
enum class Nans { Last, Win, Skip };
bool pick_short_lines(const Tensor& x, int64_t dim, int64_t k, Nans nans, const Tensor& values,
                      const Tensor& positions);

// Element-wise move of n elements of a type, the i-th from place numbers(i).
template <class Number>
void take_elements(DType dtype, const char* from, int64_t step, char* to, int64_t to_step,
                   int64_t n, Number&& number) {
  const auto move = [&](auto* d, const auto* s) {
    for (int64_t i = 0; i < n; ++i) d[i * to_step] = s[number(i) * step];
  };
  switch (dtype_size(dtype)) {
    case 1:
      return move(reinterpret_cast<uint8_t*>(to), reinterpret_cast<const uint8_t*>(from));
    case 2:
      return move(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const uint16_t*>(from));
    case 4:
      return move(reinterpret_cast<uint32_t*>(to), reinterpret_cast<const uint32_t*>(from));
    default:
      return move(reinterpret_cast<uint64_t*>(to), reinterpret_cast<const uint64_t*>(from));
  }
}

}  // namespace tycho::cpu
