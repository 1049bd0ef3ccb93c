// Sizes: a list of up to 8 numbers (a shape, strides, a set of dimensions), held in place.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>

#include "engine/base/check.h"

namespace tycho {

constexpr int kMaxDims = 8;

struct Sizes {
  int n = 0;
  int64_t v[kMaxDims];

  Sizes() {}
  Sizes(std::initializer_list<int64_t> list)
      : Sizes(list.begin(), static_cast<int64_t>(list.size())) {}
  Sizes(const int64_t* p, int64_t count) {
    TYCHO_CHECK(Kind::Shape, count <= kMaxDims, "a tensor has at most %d dimensions, not %lld",
                kMaxDims, static_cast<long long>(count));
    n = static_cast<int>(count);
    copy(p);
  }
  int size() const { return n; }
  int64_t& operator[](int i) { return v[i]; }
  int64_t operator[](int i) const { return v[i]; }
  int64_t* begin() { return v; }
  int64_t* end() { return v + n; }
  const int64_t* begin() const { return v; }
  const int64_t* end() const { return v + n; }
  void push_back(int64_t x) {
    TYCHO_CHECK(Kind::Shape, n < kMaxDims, "a tensor has at most %d dimensions", kMaxDims);
    v[n++] = x;
  }
  void insert(int at, int64_t x) {
    push_back(x);
    for (int i = n - 1; i > at; --i) v[i] = v[i - 1];
    v[at] = x;
  }
  void erase(int at) {
    for (int i = at; i + 1 < n; ++i) v[i] = v[i + 1];
    --n;
  }
  void copy(const int64_t* p) {
    for (int i = 0; i < n; ++i) {
      v[i] = p[i];
      asm("");  // a call of memcpy costs more than a few numbers
    }
  }
  bool operator==(const Sizes& o) const {
    if (n != o.n) return false;
    for (int i = 0; i < n; ++i)
      if (v[i] != o.v[i]) return false;
    return true;
  }
};

std::string to_string(const Sizes& s);  // "[2, 3]", as shapes are shown everywhere
int64_t product(const Sizes& s);        // the number of elements; raises Kind::Shape on overflow
// Row-major strides of a shape.
Sizes row_major(const Sizes& shape);
// The common shape of two; raises Kind::Broadcast and names the dimension.
Sizes broadcast(const Sizes& a, const Sizes& b);

}  // namespace tycho
