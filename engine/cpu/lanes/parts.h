// Parts of lanes: the first elements from and to memory, of which no other is touched; and what all
// elements of a lane are together.
#pragma once
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// True for the first `count` elements, of none to all.
template <class T>
TYCHO_INLINE Mask<T> first(int count) {
#if defined(TYCHO_LEVEL_v4)
  return {static_cast<typename Raw<T>::MaskBits>((1u << count) - 1)};
#else
  typename Raw<T>::Ints places;
  for (int k = 0; k < Lane<T>::size; ++k) places[k] = k;
  return {(typename Mask<T>::M)(places < static_cast<typename Raw<T>::Int>(count))};
#endif
}

// The first `count` elements of a lane, the others `pad`.
template <class T>
TYCHO_INLINE Lane<T> load_part(const T* x, int count, T pad = T(0)) {
  using V [[maybe_unused]] = typename Raw<T>::V;
#if defined(TYCHO_LEVEL_v4)
  const auto mask = first<T>(count).m;
  const Lane<T> p(pad);
  if constexpr (sizeof(T) == 4)
    return Lane<T>((V)_mm512_mask_loadu_ps((__m512)p.v, mask, x));
  else
    return Lane<T>((V)_mm512_mask_loadu_pd((__m512d)p.v, mask, x));
#elif defined(TYCHO_LEVEL_v3)
  const Mask<T> mask = first<T>(count);
  if constexpr (sizeof(T) == 4)
    return select(
        mask, Lane<T>((V)_mm256_maskload_ps(reinterpret_cast<const float*>(x), (__m256i)mask.m)),
        Lane<T>(pad));
  else
    return select(
        mask, Lane<T>((V)_mm256_maskload_pd(reinterpret_cast<const double*>(x), (__m256i)mask.m)),
        Lane<T>(pad));
#else
  T v[Lane<T>::size];
  for (int k = 0; k < Lane<T>::size; ++k) v[k] = pad;
  for (int k = 0; k < count; ++k) v[k] = x[k];
  return Lane<T>::load(v);
#endif
}
template <class T>
TYCHO_INLINE void store_part(Lane<T> x, T* to, int count) {
#if defined(TYCHO_LEVEL_v4)
  const auto mask = first<T>(count).m;
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(to, mask, (__m512)x.v);
  else
    _mm512_mask_storeu_pd(to, mask, (__m512d)x.v);
#elif defined(TYCHO_LEVEL_v3)
  const __m256i mask = (__m256i)first<T>(count).m;
  if constexpr (sizeof(T) == 4)
    _mm256_maskstore_ps(reinterpret_cast<float*>(to), mask, (__m256)x.v);
  else
    _mm256_maskstore_pd(reinterpret_cast<double*>(to), mask, (__m256d)x.v);
#else
  T v[Lane<T>::size];
  x.store(v);
  for (int k = 0; k < count; ++k) to[k] = v[k];
#endif
}

// All elements of a lane joined by f, in every element: halves first.
template <int... k>
struct Places {};
template <int by, class V, int... k>
TYCHO_INLINE V turned(V v, Places<k...>) {
  return __builtin_shufflevector(v, v, ((k + by) % static_cast<int>(sizeof...(k)))...);
}
template <int half, class T, class F>
TYCHO_INLINE Lane<T> join_halves(Lane<T> x, F f) {
  if constexpr (half == 0)
    return x;
  else
    return join_halves<half / 2>(
        f(x, Lane<T>(turned<half>(x.v, Places<__integer_pack(Lane<T>::size)...>()))), f);
}
template <class T, class F>
TYCHO_INLINE Lane<T> across(Lane<T> x, F f) {
  return join_halves<Lane<T>::size / 2>(x, f);
}

struct Sum {
  template <class L>
  TYCHO_INLINE L operator()(L x, L y) const {
    return x + y;
  }
};
template <class T>
TYCHO_INLINE T total(Lane<T> x) {
  return across(x, Sum()).v[0];
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
