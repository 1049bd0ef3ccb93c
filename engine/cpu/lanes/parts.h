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
  // In pieces: AMD's processors take a dozen cycles and more for a masked store.
  __m128 part = _mm256_castps256_ps128((__m256)x.v);
  auto* at = reinterpret_cast<float*>(to);
  const int words = count * static_cast<int>(sizeof(T) / 4);
  if (words >= 8) return _mm256_storeu_ps(at, (__m256)x.v);
  if (words & 4) {
    _mm_storeu_ps(at, part);
    part = _mm256_extractf128_ps((__m256)x.v, 1);
    at += 4;
  }
  if (words & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(at), part);
    part = _mm_movehl_ps(part, part);
    at += 2;
  }
  if (words & 1) _mm_store_ss(at, part);
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
// Two lanes' elements begin, begin + step, ..., as far as they reach; the first one then.
template <int begin, int step, class V, int... k>
TYCHO_INLINE V every(V x, V y, Places<k...>) {
  constexpr int all = 2 * static_cast<int>(sizeof...(k));
  return __builtin_shufflevector(x, y, (begin + step * k < all ? begin + step * k : 0)...);
}

// Of the elements of two lanes those at even places (begin 0) or at odd ones (1).
template <int begin, class T>
TYCHO_INLINE Lane<T> every_second(Lane<T> x, Lane<T> y) {
  return Lane<T>(every<begin, 2>(x.v, y.v, Places<__integer_pack(Lane<T>::size)...>()));
}
// The same of blocks of `unit` elements, and within groups of `group` blocks: the first half of each
// from x, the second from y.
template <int begin, int unit, int group, class V, int... k>
TYCHO_INLINE V every_second_of(V x, V y, Places<k...>) {
  constexpr int size = static_cast<int>(sizeof...(k)), half = unit * group / 2;
  return __builtin_shufflevector(
      x, y,
      (k / (2 * half) * (2 * half) + (k % half / unit * 2 + begin) * unit + k % unit +
       (k % (2 * half) < half ? 0 : size))...);
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

// What `across` makes of lane(0), lane(1), .., a lane's worth of them, side by side: the same bits. Elements
// are of eight bytes.
template <class T, class Make, class F>
TYCHO_INLINE Lane<T> each_across(const Make& lane, F f) {
  static_assert(sizeof(T) == 8);
  using L = Lane<T>;
  using V = typename L::V;
#if defined(TYCHO_LEVEL_v4)
  const auto halves = [&](L x, L y) __attribute__((always_inline)) {
    const __m512d a = (__m512d)x.v, b = (__m512d)y.v;
    return f(L((V)_mm512_maskz_shuffle_f64x2(-1, a, b, 0x44)),
             L((V)_mm512_maskz_shuffle_f64x2(-1, a, b, 0xee)));
  };
  const auto quarters = [&](L x, L y) __attribute__((always_inline)) {
    const __m512d a = (__m512d)x.v, b = (__m512d)y.v;
    return f(L((V)_mm512_maskz_shuffle_f64x2(-1, a, b, 0x88)),
             L((V)_mm512_maskz_shuffle_f64x2(-1, a, b, 0xdd)));
  };
  const __m512d a = (__m512d)quarters(halves(lane(0), lane(2)), halves(lane(4), lane(6))).v,
                b = (__m512d)quarters(halves(lane(1), lane(3)), halves(lane(5), lane(7))).v;
  return f(L((V)_mm512_maskz_unpacklo_pd(-1, a, b)), L((V)_mm512_maskz_unpackhi_pd(-1, a, b)));
#elif defined(TYCHO_LEVEL_v3)
  const auto halves = [&](L x, L y) __attribute__((always_inline)) {
    const __m256d a = (__m256d)x.v, b = (__m256d)y.v;
    return f(L((V)_mm256_permute2f128_pd(a, b, 0x20)), L((V)_mm256_permute2f128_pd(a, b, 0x31)));
  };
  const __m256d a = (__m256d)halves(lane(0), lane(2)).v, b = (__m256d)halves(lane(1), lane(3)).v;
  return f(L((V)_mm256_unpacklo_pd(a, b)), L((V)_mm256_unpackhi_pd(a, b)));
#else
  const __m128d a = (__m128d)lane(0).v, b = (__m128d)lane(1).v;
  return f(L((V)_mm_unpacklo_pd(a, b)), L((V)_mm_unpackhi_pd(a, b)));
#endif
}

// Neighbours, or neighbouring 16 bytes, joined by f: x's and y's in the two halves of 16 bytes, or of
// all. Registers are cut so, because elements move fast within 16 bytes.
template <bool within, class T, class F>
TYCHO_INLINE Lane<T> pairs(Lane<T> x, Lane<T> y, F f) {
  constexpr int some = 16 / sizeof(T), unit = within ? 1 : some,
                group = within ? some : Lane<T>::size / some;
  constexpr auto all = Places<__integer_pack(Lane<T>::size)...>();
  return f(Lane<T>(every_second_of<0, unit, group>(x.v, y.v, all)),
           Lane<T>(every_second_of<1, unit, group>(x.v, y.v, all)));
}
// The elements of lane(0), lane(1), ..., a lane's worth of them, each joined by f, side by side.
template <class T, int count = Lane<T>::size, class Make, class F = Sum>
TYCHO_INLINE Lane<T> totals(const Make& lane, F f = F(), int from = 0) {
  if constexpr (count == 1)
    return lane(from);
  else
    return pairs<count * sizeof(T) <= 16>(totals<T, count / 2>(lane, f, from),
                                          totals<T, count / 2>(lane, f, from + count / 2), f);
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
