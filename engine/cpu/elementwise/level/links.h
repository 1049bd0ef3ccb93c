// Links (elementwise/rows.h): rows after each other that hand eight lanes on in registers, so that what
// is between them is neither stored nor loaded. Every link ends with a jump to the next one.
#pragma once
#include "engine/cpu/elementwise/level/rows.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
using Raws = typename Lane<T>::V;

#define TYCHO_LINK_VALUES(T) \
  Raws<T> v0, Raws<T> v1, Raws<T> v2, Raws<T> v3, Raws<T> v4, Raws<T> v5, Raws<T> v6, Raws<T> v7
template <class T>
using Chain = void (*)(TYCHO_LINK_VALUES(T), const Link* link, int64_t at);

constexpr int kLinked = 8;
static_assert(kLinked * TYCHO_LANE_BYTES <= kRepeatedBytes);

// Loads keep their order: by it the processor sees that memory is read as a stream.
template <class T>
TYCHO_INLINE Lane<T> load_in_order(const T* p) {
  Lane<T> x = Lane<T>::load(p);
  asm volatile("" : "+v"(x.v));
  return x;
}

template <class T>
TYCHO_INLINE Chain<T> chain_of(const Link* link) {
  return reinterpret_cast<Chain<T>>(link->fn);
}

// f(v, k) for each of the lanes, then the next link, `links` further.
template <class T, int links = 1, class F>
TYCHO_INLINE void each_linked(TYCHO_LINK_VALUES(T), const Link* link, int64_t at, F f) {
  f(v0, 0), f(v1, 1), f(v2, 2), f(v3, 3), f(v4, 4), f(v5, 5), f(v6, 6), f(v7, 7);
  return chain_of<T>(link + links)(v0, v1, v2, v3, v4, v5, v6, v7, link + links, at);
}

template <class T>
TYCHO_INLINE T* place_of(const Link* link, int64_t at) {
  return reinterpret_cast<T*>(*link->memory + (at & *link->mask));
}

template <class T, class Value, int operands, int place>
void link_row(TYCHO_LINK_VALUES(T), const Link* link, int64_t at) {
  const T* const p = place_of<T>(link, at);
  return each_linked<T>(v0, v1, v2, v3, v4, v5, v6, v7, link, at, [&](Raws<T>& v, int k) {
    const Lane<T> x = v;
    if constexpr (operands == 1) {
      v = Value::value(x, x, x, x).v;
    } else {
      const Lane<T> y = load_in_order(p + k * Lane<T>::size);
      v = (place == 0 ? Value::value(x, y, x, x) : Value::value(y, x, y, y)).v;
    }
  });
}
// Three other operands, where this link and the two behind it say.
template <class T, class Value>
void link_row_of_four(TYCHO_LINK_VALUES(T), const Link* link, int64_t at) {
  const T *const b = place_of<T>(link, at), *const c = place_of<T>(link + 1, at),
                 *const d = place_of<T>(link + 2, at);
  return each_linked<T, 3>(v0, v1, v2, v3, v4, v5, v6, v7, link, at, [&](Raws<T>& v, int k) {
    const int64_t i = k * Lane<T>::size;
    v = Value::value(Lane<T>(v), load_in_order(b + i), load_in_order(c + i), load_in_order(d + i))
            .v;
  });
}
template <class T>
void link_load(TYCHO_LINK_VALUES(T), const Link* link, int64_t at) {
  const T* const p = place_of<T>(link, at);
  return each_linked<T>(v0, v1, v2, v3, v4, v5, v6, v7, link, at,
                        [&](Raws<T>& v, int k) { v = load_in_order(p + k * Lane<T>::size).v; });
}
template <class T>
void link_store(TYCHO_LINK_VALUES(T), const Link* link, int64_t at) {
  T* const p = place_of<T>(link, at);
  return each_linked<T>(v0, v1, v2, v3, v4, v5, v6, v7, link, at,
                        [&](Raws<T>& v, int k) { Lane<T>(v).store(p + k * Lane<T>::size); });
}
// Past the caches where whole lanes are at their places.
template <class T>
void link_pass(TYCHO_LINK_VALUES(T), const Link* link, int64_t at) {
  T* const p = place_of<T>(link, at);
  if (reinterpret_cast<uintptr_t>(p) % TYCHO_LANE_BYTES)
    return link_store<T>(v0, v1, v2, v3, v4, v5, v6, v7, link, at);
  return each_linked<T>(v0, v1, v2, v3, v4, v5, v6, v7, link, at, [&](Raws<T>& v, int k) {
    pass(reinterpret_cast<char*>(p + k * Lane<T>::size), as_bytes(v));
  });
}
template <class T>
void link_last(TYCHO_LINK_VALUES(T), const Link*, int64_t) {
  (void)v0, (void)v1, (void)v2, (void)v3, (void)v4, (void)v5, (void)v6, (void)v7;
}

// Short rows, and of floats those that networks have between them.
template <class T, LevelType type, class Value, int operands, int place>
constexpr LinkFn pick_link() {
  if constexpr (is_one_of<Value, Value_normalised> && place == 0)
    return reinterpret_cast<LinkFn>(link_row_of_four<T, Value>);
  if constexpr (place < operands && operands <= 2 && has_floats(type) && type != LevelType::Test &&
                (is_short<Value> ||
                 (sizeof(T) == 4 &&
                  is_one_of<Value, Value_exp, Value_log, Value_tanh, Value_sigmoid, Value_silu,
                            Value_silu_grad, Value_gelu_erf, Value_gelu_erf_grad, Value_gelu_tanh,
                            Value_gelu_tanh_grad>)))
    return reinterpret_cast<LinkFn>(link_row<T, Value, operands, place>);
  else
    return nullptr;
}

template <class T>
LinkFn link_of(int row, int place) {
  if (row == kLinkLoad) return reinterpret_cast<LinkFn>(link_load<T>);
  if (row == kLinkStore) return reinterpret_cast<LinkFn>(link_store<T>);
  if (row == kLinkPass) return reinterpret_cast<LinkFn>(link_pass<T>);
  if (row == kLinkLast) return reinterpret_cast<LinkFn>(link_last<T>);
  static const LinkFn table[][2] = {
#define ROW(name, operands, args, type, ...)                   \
  {pick_link<T, LevelType::type, Value_##name, operands, 0>(), \
   pick_link<T, LevelType::type, Value_##name, operands, 1>()},
#include "engine/ops/elementwise/elementwise.def"
  };
  return table[row][place];
}

template <class T>
int64_t run_links(const Link* first, int64_t n) {
  constexpr int64_t step = kLinked * Lane<T>::size, bytes = kLinked * TYCHO_LANE_BYTES;
  const int64_t steps = n / step;
  const Raws<T> none = Lane<T>(0).v;
  for (int64_t i = 0; i < steps; ++i)
    chain_of<T>(first)(none, none, none, none, none, none, none, none, first, i * bytes);
  return steps * step;
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
