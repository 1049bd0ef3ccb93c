// Moving what a mask names, by how many are true up to each element; places in sorted lines; the
// gradient of running products.
#include "engine/cuda/kernels/find.cuh"
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

namespace {

// The elements that are true, one after the other.
template <class S>
__device__ inline void gathered(const Found& f) {
  for (int64_t i = first_element(); i < f.numel; i += all_threads())
    if (f.mask[i]) put<S>(f.to, f.upto[i] - 1, element<S>(f.from, i));
}
// The reverse.
template <class S>
__device__ inline void strewn(const Found& f) {
  for (int64_t i = first_element(); i < f.numel; i += all_threads())
    if (f.mask[i]) put<S>(f.to, i, element<S>(f.from, f.upto[i] - 1));
}

template <class L>
__device__ inline void search(const Search& s) {
  for (int64_t i = first_element(); i < s.numel; i += all_threads()) {
    L value = same_type<L, int64_t> ? L(s.integer) : L(s.number);
    if (s.values) value = load<L>(s.values, s.values_dtype, i);
    const int64_t from = i / s.per_line * s.n;
    int64_t low = 0, high = s.n;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const int64_t at = from + (s.order ? s.order[from + middle] - 1 : middle);
      const L m = load<L>(s.sorted, s.sorted_dtype, at);
      if (s.right ? !(m > value) : !(m >= value))
        low = middle + 1;
      else
        high = middle;
    }
    store<int64_t>(s.out, s.out_dtype, i, low + 1);
  }
}

}  // namespace

extern "C" __global__ void found_places(Found f) {
  for (int64_t i = first_element(); i < f.numel; i += all_threads()) {
    if (!f.mask[i]) continue;
    const int64_t to = (f.upto[i] - 1) * f.step;
    int64_t rest = i;
    TYCHO_ROLLED
    for (int d = f.rank - 1; d >= 0; --d) {
      const int64_t before = rest / f.size[d];
      f.places[d][to] = rest - before * f.size[d] + 1;
      rest = before;
    }
  }
}
TYCHO_KERNEL(found_places)

#define BY_SIZE(name)                                                 \
  extern "C" __global__ void name##_1(Found f) { name<uint8_t>(f); }  \
  extern "C" __global__ void name##_2(Found f) { name<uint16_t>(f); } \
  extern "C" __global__ void name##_4(Found f) { name<uint32_t>(f); } \
  extern "C" __global__ void name##_8(Found f) { name<uint64_t>(f); } \
  TYCHO_KERNEL(name##_1)                                              \
  TYCHO_KERNEL(name##_2) TYCHO_KERNEL(name##_4) TYCHO_KERNEL(name##_8)
BY_SIZE(gathered)
BY_SIZE(strewn)

extern "C" __global__ void search_f64(Search s) { search<double>(s); }
extern "C" __global__ void search_i64(Search s) { search<int64_t>(s); }
TYCHO_KERNEL(search_f64)
TYCHO_KERNEL(search_i64)

// The sum over what follows of its gradient times the product of all but this element.
extern "C" __global__ void products_back(ProductsBack p) {
  for (int64_t row = first_element(); row < p.rows; row += all_threads()) {
    const int64_t first = row / p.inner * p.n * p.inner + row % p.inner;
    double sum = 0;
    for (int64_t k = p.n - 1; k >= 0; --k) {
      const int64_t at = first + k * p.inner;
      sum = p.grad[at] + (k + 1 < p.n ? p.in[at + p.inner] * sum : 0);
      p.out[at] = sum;
    }
    double before = 1;
    for (int64_t k = 0; k < p.n; ++k) {
      const int64_t at = first + k * p.inner;
      p.out[at] *= before;
      before *= p.in[at];
    }
  }
}
TYCHO_KERNEL(products_back)
