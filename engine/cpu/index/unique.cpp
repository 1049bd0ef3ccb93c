// Distinct elements.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/index/combine.h"
#include "engine/cpu/index/index.h"
#include "engine/cpu/index/sort.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// The order in which elements are looked at, and where a new value begins in it.
struct Groups {
  std::vector<int64_t> order;
  std::vector<int64_t> starts;  // indices into order
};

template <class Same>
void find_starts(Groups& g, Same&& same) {
  for (size_t i = 0; i < g.order.size(); ++i)
    if (i == 0 || !same(g.order[i - 1], g.order[i])) g.starts.push_back(static_cast<int64_t>(i));
}

// Items are the elements of a row-major tensor, sorted.
template <class Key>
Groups group_elements(const Tensor& x) {
  const int64_t n = x.numel();
  std::vector<Key> keys(static_cast<size_t>(n));
  load_keys<Key>(x.dtype(), x.data(), 1, keys.data(), n);
  Groups g;
  g.order.resize(static_cast<size_t>(n));
  std::vector<Packed<Key>> items(static_cast<size_t>(n)), spare(static_cast<size_t>(n));
  const Packed<Key>* const sorted =
      sort_keys<Key>(keys.data(), items.data(), spare.data(), n, get_num_threads());
  for (int64_t i = 0; i < n; ++i) g.order[i] = number_of<Key>(sorted[i]);
  const bool floats = is_floating(x.dtype());
  find_starts(g, [&](int64_t a, int64_t b) {  // nan equals nothing
    return keys[a] == keys[b] && !(floats && keys[a] == kNanKey<Key>);
  });
  return g;
}

// Items are the slices of a row-major tensor along its first dimension.
Groups group_slices(const Tensor& x, bool sorted) {
  const int64_t n = x.size(0), m = n ? x.numel() / n : 0;
  std::vector<uint64_t> keys(static_cast<size_t>(n * m));
  load_keys<uint64_t>(x.dtype(), x.data(), 1, keys.data(), n * m);
  Groups g;
  g.order.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) g.order[i] = i;
  const auto slice = [&](int64_t i) { return keys.data() + i * m; };
  if (sorted)
    std::stable_sort(g.order.begin(), g.order.end(), [&](int64_t a, int64_t b) {
      return std::lexicographical_compare(slice(a), slice(a) + m, slice(b), slice(b) + m);
    });
  const bool floats = is_floating(x.dtype());
  find_starts(g, [&](int64_t a, int64_t b) {
    for (int64_t k = 0; k < m; ++k)
      if (slice(a)[k] != slice(b)[k] || (floats && slice(a)[k] == kNanKey<uint64_t>)) return false;
    return true;
  });
  return g;
}

// Distinct integers within a small range: each is counted, by turns in one of some rows, so that equal
// ones do not wait for each other.
constexpr uint64_t kFewValues = 4096;
bool count_unique(Call& c, const Tensor& x, const int64_t* v, int64_t least, int64_t range,
                  bool inverse, bool counts) {
  constexpr int64_t kRows = 4;
  const int64_t n = x.numel();
  std::vector<int64_t> seen(static_cast<size_t>(kRows * range)), rank(static_cast<size_t>(range));
  const auto place = [&](int64_t i) {
    return static_cast<uint64_t>(v[i]) - static_cast<uint64_t>(least);
  };
  int64_t i = 0;
  for (; i + kRows <= n; i += kRows)
    for (int64_t r = 0; r < kRows; ++r) ++seen[static_cast<uint64_t>(r * range) + place(i + r)];
  for (; i < n; ++i) ++seen[place(i)];
  int64_t size = 0;
  for (int64_t k = 0; k < range; ++k) {
    for (int64_t r = 1; r < kRows; ++r) seen[k] += seen[r * range + k];
    rank[k] = size += seen[k] > 0;  // from 1
  }
  const Tensor values = empty({size}, DType::Int64), out = empty({size}, x.dtype(), x.device()),
               times = empty({size}, DType::Int64, x.device());
  for (int64_t k = 0, at = 0; k < range; ++k) {
    if (!seen[k]) continue;
    values.data<int64_t>()[at] = least + k;
    times.data<int64_t>()[at++] = seen[k];
  }
  copy_raw(out, values);
  c.out.push_back(out);
  if (inverse) {
    const Tensor ranks = empty(x.shape(), DType::Int64, x.device());
    int64_t* const to = ranks.data<int64_t>();
    for (int64_t k = 0; k < n; ++k) to[k] = rank[place(k)];
    c.out.push_back(ranks);
  }
  if (counts) c.out.push_back(times);
  return true;
}

// Distinct integers within a range of which a bit each can be kept: marked, not sorted. False where they do not lie so.
bool mark_unique(Call& c, const Tensor& x, bool inverse, bool counts) {
  const int64_t n = x.numel();
  if (is_floating(x.dtype()) || n == 0) return false;
  Tensor wide = x;
  if (x.dtype() != DType::Int64) copy_raw(wide = empty(x.shape(), DType::Int64), x);
  const int64_t* const v = wide.data<int64_t>();
  const int64_t least = *op<"amin">(wide).data<int64_t>(), most = *op<"amax">(wide).data<int64_t>();
  const auto from_least = [&](int64_t i) {
    return static_cast<uint64_t>(i) - static_cast<uint64_t>(least);
  };
  if (from_least(most) < kFewValues && (inverse || counts))
    return count_unique(c, x, v, least, static_cast<int64_t>(from_least(most)) + 1, inverse,
                        counts);
  if (from_least(most) >= static_cast<uint64_t>(std::max<int64_t>(4096, 32 * n))) return false;
  std::vector<uint64_t> bits(from_least(most) / 64 + 1);
  for (int64_t i = 0; i < n; ++i)
    bits[from_least(v[i]) / 64] |= uint64_t{1} << from_least(v[i]) % 64;
  std::vector<int64_t> before(bits.size());
  int64_t size = 0;
  for (size_t w = 0; w < bits.size(); ++w) {
    before[w] = size;
    size += std::popcount(bits[w]);
  }
  const Tensor values = empty({size}, DType::Int64);
  int64_t* to = values.data<int64_t>();
  for (size_t w = 0; w < bits.size(); ++w)
    for (uint64_t rest = bits[w]; rest; rest &= rest - 1)
      *to++ = least + static_cast<int64_t>(w * 64) + std::countr_zero(rest);
  const Tensor out = empty({size}, x.dtype(), x.device());
  copy_raw(out, values);
  c.out.push_back(out);
  if (!inverse && !counts) return true;
  const Tensor ranks = empty(x.shape(), DType::Int64, x.device());
  level_of::bit_ranks(v, n, least, static_cast<const uint64_t*>(bits.data()),
                      static_cast<const int64_t*>(before.data()), ranks.data<int64_t>());
  if (inverse) c.out.push_back(ranks);
  if (counts) {
    const Tensor seen = filled({size}, 0, DType::Int64, x.device());
    for (int64_t i = 0; i < n; ++i) ++seen.data<int64_t>()[ranks.data<int64_t>()[i] - 1];
    c.out.push_back(seen);
  }
  return true;
}

// Where runs of equal elements begin, in a row-major tensor; nan equals nothing.
template <class T>
std::vector<int64_t> run_starts(const Tensor& x) {
  const T* const v = x.data<T>();
  const int64_t n = x.numel();
  std::vector<int64_t> starts;
  int64_t place[1024];
  for (int64_t i = 0; i < n;) {
    const int64_t end = std::min(n, i + 1024);
    int64_t k = 0;
    for (; i < end; ++i) {
      place[k] = i;
      k += i == 0 || v[i] != v[i - 1];
    }
    starts.insert(starts.end(), place, place + k);
  }
  return starts;
}
std::vector<int64_t> run_starts_of(const Tensor& x) {
  if (x.dtype() == DType::Float32) return run_starts<float>(x);
  if (x.dtype() == DType::Float64) return run_starts<double>(x);
  if (is_floating(x.dtype())) {
    const Tensor wide = empty(x.shape(), DType::Float32);
    copy_raw(wide, x);
    return run_starts<float>(wide);
  }
  std::vector<int64_t> starts;
  with_size(x.dtype(), [&](auto kind) { starts = run_starts<decltype(kind)>(x); });
  return starts;
}

// The first element of every run, where nothing else is wanted.
template <class T>
Tensor run_values(const Tensor& x) {
  const T* const v = x.data<T>();
  const int64_t n = x.numel();
  const Tensor all = empty({n}, x.dtype(), x.device());
  T* const to = all.data<T>();
  int64_t found = n > 0 ? 1 : 0;
  if (n > 0) to[0] = v[0];
  for (int64_t i = 1; i < n; ++i) {  // the next one is written over what begins no run
    to[found] = v[i];                // found <= i
    found += v[i] != v[i - 1];
  }
  const Tensor values = empty({found}, x.dtype(), x.device());
  std::copy_n(to, found, values.data<T>());
  return values;
}

// The results of unique and unique_consecutive; `dim_arg` is none where elements are compared.
void make_unique(Call& c, bool consecutive, bool inverse, bool counts, int dim_arg) {
  Tensor x = c.tensor(0);
  const bool along = c.has(dim_arg);
  const int64_t dim = along ? c.integer(dim_arg) : 0;
  const Device device = x.device();
  const Sizes shape = x.shape();
  Groups g;
  if (along) {
    x = packed(op<"transpose">(x, 0, dim));
    g = group_slices(x, !consecutive);
  } else if (consecutive) {
    x = packed(x);
    if (!inverse && !counts && (!is_floating(x.dtype()) || dtype_size(x.dtype()) > 2)) {
      if (x.dtype() == DType::Float32)
        c.out.push_back(run_values<float>(x));
      else if (x.dtype() == DType::Float64)
        c.out.push_back(run_values<double>(x));
      else
        with_size(x.dtype(), [&](auto kind) { c.out.push_back(run_values<decltype(kind)>(x)); });
      return;
    }
    g.starts = run_starts_of(x);
  } else {
    x = packed(x);
    if (mark_unique(c, x, inverse, counts)) return;
    g = wide_keys(x.dtype()) || x.numel() > INT32_MAX ? group_elements<uint64_t>(x)
                                                      : group_elements<uint32_t>(x);
  }
  const bool in_order = !along && consecutive;  // nothing was sorted
  const auto nth = [&](int64_t i) { return in_order ? i : g.order[i]; };
  const int64_t n = in_order ? x.numel() : static_cast<int64_t>(g.order.size()),
                found = static_cast<int64_t>(g.starts.size());
  Sizes out_shape{found};
  int64_t size = dtype_size(x.dtype());
  if (along) {
    out_shape = x.shape();
    out_shape[0] = found;
    size *= n ? x.numel() / n : 0;
  }
  Tensor values = empty(out_shape, x.dtype(), device);
  for (int64_t i = 0; i < found; ++i)
    std::memcpy(values.data() + i * size, x.data() + nth(g.starts[i]) * size, size);
  if (along) {
    const Tensor back = op<"transpose">(values, 0, dim);
    values = empty(back.shape(), x.dtype(), device);
    copy_raw(values, back);
  }
  c.out.push_back(values);
  const auto end = [&](int64_t i) { return i + 1 < found ? g.starts[i + 1] : n; };
  if (inverse) {
    Tensor t = empty(along ? Sizes{n} : shape, DType::Int64, device);
    for (int64_t i = 0; i < found; ++i)
      for (int64_t k = g.starts[i]; k < end(i); ++k) t.data<int64_t>()[nth(k)] = i + 1;
    c.out.push_back(t);
  }
  if (counts) {
    Tensor t = empty({found}, DType::Int64, device);
    for (int64_t i = 0; i < found; ++i) t.data<int64_t>()[i] = end(i) - g.starts[i];
    c.out.push_back(t);
  }
}

}  // namespace

void unique(Call& c) { make_unique(c, false, c.flag(2), c.flag(3), 4); }
void unique_consecutive(Call& c) { make_unique(c, true, c.flag(1), c.flag(2), 3); }

BIND_KERNEL(Cpu, "unique", unique);
BIND_KERNEL(Cpu, "unique_consecutive", unique_consecutive);

}  // namespace tycho::cpu
