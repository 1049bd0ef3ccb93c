// layer_norm and rms_norm over rows of a few elements: many rows are turned into columns of a tile,
// so that lanes are full.
#pragma once
#include <cstdint>
#include <vector>

namespace tycho::cpu {

constexpr int64_t kShortRow = 24;  // elements, at most
inline bool are_short(int64_t rows, int64_t n) { return n >= 1 && n <= kShortRow && rows > 1; }

// Row-major float or double. w and b may be null; `centred`: less their mean.
template <class T>
struct ShortRows {
  int64_t rows, n;
  bool centred;
  const T* w;

  void forward(const T* x, T* y, const T* b, T* mean, T* rstd, double eps) const;
  // sum: 2 n numbers, the gradients of weight and bias.
  void backward(const T* g, const T* x, T* y, const T* mean, const T* rstd,
                std::vector<double>& sum) const;
};

}  // namespace tycho::cpu
