// Where values belong: in sorted lines (searchsorted), in bins of one width (histc), in a bin of their own
// (bincount).
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/index/index.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cpu {
namespace {

// Row-major and of that type: itself where it is so.
Tensor as(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype && t.contiguous()) return t;
  const Tensor to = empty(t.shape(), dtype);
  copy_raw(to, t);
  return to;
}

// Where `count` values belong in a sorted line of n: eight searches side by side, none of which branches
// on what it finds.
template <bool right, class T>
void places(const T* line, int64_t n, const int64_t* order, const T* values, int64_t count,
            int64_t* to) {
  constexpr int kTogether = 8;
  const auto before = [&](int64_t k, T value) {
    const T m = order ? line[order[k] - 1] : line[k];
    return right ? !(m > value) : !(m >= value);
  };
  for (int64_t i = 0; i < count; i += kTogether) {
    const int m = static_cast<int>(std::min<int64_t>(kTogether, count - i));
    T value[kTogether] = {};
    int64_t low[kTogether] = {};
    for (int k = 0; k < m; ++k) value[k] = values[i + k];
    int64_t left = n;
    for (; left > 1; left -= left / 2)
      for (int k = 0; k < kTogether; ++k)
        low[k] += before(low[k] + left / 2 - 1, value[k]) ? left / 2 : 0;
    for (int k = 0; k < m; ++k) to[i + k] = 1 + low[k] + (left && before(low[k], value[k]));
  }
}

// sums[v] += what(i) for each: several tables where they are small, for one and the same place waits for
// what was added to it last.
template <class T, class F>
void add_to_bins(const int64_t* v, int64_t count, Tensor& sums, F what) {
  constexpr int64_t kFew = 4096;
  T* const to = sums.data<T>();
  const int64_t n = sums.numel();
  if (n > kFew || count < 4 * n) {
    for (int64_t i = 0; i < count; ++i) to[v[i]] += what(i);
    return;
  }
  std::vector<T> tables(static_cast<size_t>(3 * n));
  T *const a = tables.data(), *const b = a + n, *const d = b + n;
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    to[v[i]] += what(i);
    a[v[i + 1]] += what(i + 1);
    b[v[i + 2]] += what(i + 2);
    d[v[i + 3]] += what(i + 3);
  }
  for (; i < count; ++i) to[v[i]] += what(i);
  for (int64_t k = 0; k < n; ++k) to[k] += a[k] + (b[k] + d[k]);
}

// Values counted in bins of one width; which bin is computed in T, as PyTorch does. Every thread counts
// in tables of its own: several where they are small, for one and the same place waits for what was added
// to it last. What lies outside is counted behind the last bin.
template <class T, class F>
void count_in_bins(const Tensor& x, double low, double high, const Tensor& counts, F bins_of) {
  constexpr int64_t kTile = 1024, kFew = 4096, kChunk = 1 << 15;
  const int64_t n = x.numel(), bins = counts.numel(), table = bins + 1;
  const int64_t tables = table <= kFew && n >= 4 * table ? 4 : 1;
  const int64_t parts = std::clamp<int64_t>(n / std::max(kChunk, 4 * table), 1, get_num_threads());
  T least = static_cast<T>(low), most = static_cast<T>(high);
  if (least < low) least = std::nextafter(least, std::numeric_limits<T>::infinity());
  if (most > high) most = std::nextafter(most, -std::numeric_limits<T>::infinity());
  const T first = static_cast<T>(low), range = static_cast<T>(high) - first;
  std::vector<int64_t> count(static_cast<size_t>(parts * tables * table));
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      int64_t* const own = count.data() + part * tables * table;
      int64_t* const more[] = {own, own + (tables > 1 ? table : 0),
                               own + (tables > 1 ? 2 * table : 0),
                               own + (tables > 1 ? 3 * table : 0)};
      const int64_t to = n * (part + 1) / parts;
      for (int64_t i = n * part / parts; i < to; i += kTile) {
        int64_t at[kTile];
        const int64_t m = std::min(kTile, to - i);
        bins_of(x.data<T>() + i, m, least, most, first, range, bins, static_cast<int64_t*>(at));
        int64_t k = 0;
        for (; k + 4 <= m; k += 4)
          ++more[0][at[k]], ++more[1][at[k + 1]], ++more[2][at[k + 2]], ++more[3][at[k + 3]];
        for (; k < m; ++k) ++own[at[k]];
      }
    }
  });
  for (int64_t t = 0; t < parts * tables; ++t)
    for (int64_t b = 0; b < bins; ++b) counts.data<double>()[b] += count[t * table + b];
}

}  // namespace

void searchsorted(Call& c) {
  const Tensor &sorted = c.tensor(0), &sorter = c.tensor(5), &out = c.out[0];
  const Value& v = c.arg[1];
  const Tensor values = v.tag == Tag::Tensor ? c.tensor(1)
                        : v.tag == Tag::Int  ? number_tensor(v.i)
                                             : number_tensor(v.number());
  const bool right = c.flag(3), floats = is_floating(sorted.dtype()) || is_floating(values.dtype());
  const DType type = floats ? DType::Float64 : DType::Int64;
  const Tensor lines = as(sorted, type), wanted = as(values, type);
  const Tensor order = sorter ? as(sorter, DType::Int64) : Tensor();
  const int64_t n = lines.rank() ? lines.size(-1) : 1;
  if (order)
    TYCHO_CHECK(Kind::Index, !level_of::any_outside(order.data<int64_t>(), order.numel(), n),
                "searchsorted: the sorter's positions must lie in 1..%lld",
                static_cast<long long>(n));
  Tensor result = empty(out.shape(), DType::Int64);
  const int64_t per_line =
      lines.rank() > 1 ? wanted.size(-1) : std::max<int64_t>(1, wanted.numel());
  const auto search = [&]<class T>(T) {
    const T *const line = lines.data<T>(), *const value = wanted.data<T>();
    int64_t* const to = result.data<int64_t>();
    const int64_t* const o = order ? order.data<int64_t>() : nullptr;
    parallel_for(wanted.numel(), 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin, m; i < end; i += m) {
        const int64_t from = i / per_line * n;
        m = std::min(per_line - i % per_line, end - i);
        (right ? places<true, T> : places<false, T>)(line + from, n, o ? o + from : nullptr,
                                                     value + i, m, to + i);
      }
    });
  };
  if (floats)
    search(double{});
  else
    search(int64_t{});
  copy_raw(out, result);
}

void histc(Call& c) {
  const Tensor& x = c.tensor(0);
  double low = c.number(2), high = c.number(3);
  if (low == high && x.numel() > 0) {
    low = item(op<"amin">(x));
    high = item(op<"amax">(x));
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  if (!(high - low < __builtin_inf()))
    fail(Kind::Value, format("histc: the range from %g to %g is not finite", low, high));
  const bool wide = x.dtype() == DType::Float64;
  const Tensor counts = filled({c.integer(1)}, 0, DType::Float64);
  const Tensor in = as(x, wide ? DType::Float64 : DType::Float32);
  if (wide)
    count_in_bins<double>(in, low, high, counts, [](auto... all) { level_of::bins_f64(all...); });
  else
    count_in_bins<float>(in, low, high, counts, [](auto... all) { level_of::bins_f32(all...); });
  copy_raw(c.out[0], counts);
}

void bincount(Call& c) {
  const Tensor &x = c.tensor(0), &weights = c.tensor(1);
  const Tensor in = as(x, DType::Int64);
  const int64_t* const v = in.data<int64_t>();
  const int64_t count = in.numel();
  int64_t n = c.integer(2);
  if (count > 0) {
    const int64_t most = *op<"amax">(in).data<int64_t>();
    if (*op<"amin">(in).data<int64_t>() < 0)
      for (int64_t i = 0; i < count; ++i)
        if (v[i] < 0)
          fail(Kind::Value, format("bincount: counts values from 0, and element %lld is %lld",
                                   static_cast<long long>(i + 1), static_cast<long long>(v[i])));
    TYCHO_CHECK(Kind::Value, most < int64_t{1} << 40,
                "bincount: value %lld needs too many counters", static_cast<long long>(most));
    n = std::max(n, most + 1);
  }
  if (!weights) {
    Tensor counts = filled({n}, 0, DType::Int64, x.device());
    add_to_bins<int64_t>(v, count, counts, [](int64_t) { return int64_t{1}; });
    c.out.push_back(counts);
    return;
  }
  const DType type = weights.dtype() == DType::Float32 ? DType::Float32 : DType::Float64;
  const Tensor w = as(weights, type);
  Tensor sums = filled({n}, 0, DType::Float64);
  const auto add = [&](const auto* weight) {
    add_to_bins<double>(v, count, sums, [=](int64_t i) { return static_cast<double>(weight[i]); });
  };
  if (type == DType::Float32)
    add(w.data<float>());
  else
    add(w.data<double>());
  const Tensor out = empty({n}, type, x.device());
  copy_raw(out, sums);
  c.out.push_back(out);
}

BIND_KERNEL(Cpu, "searchsorted", searchsorted);
BIND_KERNEL(Cpu, "searchsorted.number", searchsorted);
BIND_KERNEL(Cpu, "histc", histc);
BIND_KERNEL(Cpu, "bincount", bincount);

}  // namespace tycho::cpu
