// Few long rows, cut into parts so that all threads have some. The cuts depend on nothing but the
// shape, and what is found of the parts is joined in their order, so that the bits do not depend on
// the threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/base/parallel.h"

namespace tycho::cpu {

struct RowParts {
  static constexpr int64_t kPart = 8192;  // elements: of floats, two thirds of the first cache
  int64_t rows, n, size, parts;
  RowParts(int64_t all, int64_t length) : rows(all), n(length) {
    size = rows < 16 && n >= 4 * kPart ? kPart : std::max<int64_t>(n, 1);
    parts = (n + size - 1) / size;
  }
  bool whole() const { return parts <= 1; }

  // Calls f(row) for every row: on several threads where none would wait for the others, or one after
  // the other, which then shares its parts out.
  template <class F>
  void each_row(F f) const {
    if (rows % get_num_threads() == 0 || rows >= 4 * get_num_threads())
      return parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) f(row);
      });
    for (int64_t row = 0; row < rows; ++row) f(row);
  }
  // f(first element, how many) for every part of a row.
  template <class F>
  void each(F f) const {
    parallel_for(parts, 2, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) f(k * size, std::min(size, n - k * size));
    });
  }
  // What f makes of a row's parts, joined: join(all of it, the next).
  template <class T, class F, class J>
  T joined(T all, F f, J join) const {
    std::vector<T> part(static_cast<size_t>(parts));
    each([&](int64_t at, int64_t m) { part[static_cast<size_t>(at / size)] = f(at, m); });
    for (const T& one : part) join(all, one);
    return all;
  }
};

}  // namespace tycho::cpu
