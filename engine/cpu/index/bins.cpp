// Where values belong: in sorted lines (searchsorted), in bins of one width (histc), in a bin of their own
// (bincount).
#include <algorithm>
#include <cmath>
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
  const int64_t bins = c.integer(1);
  const Tensor in = as(x, DType::Float64), counts = filled({bins}, 0, DType::Float64);
  const double* v = in.data<double>();
  // The bin is computed in the input's own precision, as PyTorch does.
  const auto bin_of = [&]<class T>(T x, T least, T range) {
    return std::min(bins - 1, static_cast<int64_t>((x - least) * static_cast<T>(bins) / range));
  };
  const bool wide = x.dtype() == DType::Float64;
  const float first = static_cast<float>(low), range = static_cast<float>(high) - first;
  for (int64_t i = 0; i < in.numel(); ++i)
    if (v[i] >= low && v[i] <= high)
      ++counts.data<double>()[wide ? bin_of(v[i], low, high - low)
                                   : bin_of(static_cast<float>(v[i]), first, range)];
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
