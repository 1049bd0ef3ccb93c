// Distinct elements, elements that are not zero, and where values belong in sorted lines.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/index/index.h"
#include "engine/cpu/index/sort.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

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

// Items are the elements of a row-major tensor.
template <class Key>
Groups group_elements(const Tensor& x, bool sorted) {
  const int64_t n = x.numel();
  std::vector<Key> keys(static_cast<size_t>(n));
  load_keys<Key>(x.dtype(), x.data(), 1, keys.data(), n);
  Groups g;
  g.order.resize(static_cast<size_t>(n));
  if (sorted) {
    std::vector<Packed<Key>> items(static_cast<size_t>(n)), spare(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) items[i] = pack<Key>(keys[i], i);
    sort_packed<Key>(items.data(), spare.data(), n);
    for (int64_t i = 0; i < n; ++i) g.order[i] = number_of<Key>(items[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) g.order[i] = i;
  }
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

template <class T>
int64_t place(const T* line, int64_t n, T value, bool right, const int64_t* order) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const T m = order ? line[order[middle] - 1] : line[middle];
    if (right ? !(m > value) : !(m >= value))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
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
  } else {
    x = packed(x);
    g = wide_keys(x.dtype()) || x.numel() > INT32_MAX ? group_elements<uint64_t>(x, !consecutive)
                                                      : group_elements<uint32_t>(x, !consecutive);
  }
  const int64_t n = static_cast<int64_t>(g.order.size()),
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
    std::memcpy(values.data() + i * size, x.data() + g.order[g.starts[i]] * size, size);
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
      for (int64_t k = g.starts[i]; k < end(i); ++k) t.data<int64_t>()[g.order[k]] = i + 1;
    c.out.push_back(t);
  }
  if (counts) {
    Tensor t = empty({found}, DType::Int64, device);
    for (int64_t i = 0; i < found; ++i) t.data<int64_t>()[i] = end(i) - g.starts[i];
    c.out.push_back(t);
  }
}

// 1-based positions of elements that are not zero: [n, rank].
Tensor nonzero_rows(const Tensor& input) {
  Tensor mask = empty(input.shape(), DType::Bool, input.device());
  copy_raw(mask, input);
  const uint8_t* m = mask.data<uint8_t>();
  const int64_t n = mask.numel();
  const int rank = input.rank();
  constexpr int64_t kChunk = 65536;
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<int64_t> first(static_cast<size_t>(chunks) + 1);
  parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      int64_t count = 0;
      for (int64_t i = k * kChunk; i < std::min(n, (k + 1) * kChunk); ++i) count += m[i];
      first[k + 1] = count;
    }
  });
  for (int64_t k = 0; k < chunks; ++k) first[k + 1] += first[k];
  const Tensor out = empty({first[chunks], rank}, DType::Int64, input.device());
  if (rank == 0) return out;
  const Sizes shape = input.shape();
  parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      int64_t* to = out.data<int64_t>() + first[k] * rank;
      int64_t index[kMaxDims], at = k * kChunk;
      for (int d = rank - 1; d >= 0; --d) {
        index[d] = at % shape[d];
        at /= shape[d];
      }
      const int64_t stop = std::min(n, (k + 1) * kChunk);
      for (int64_t i = k * kChunk; i < stop;) {
        const int64_t run = std::min(stop - i, shape[rank - 1] - index[rank - 1]);
        for (int64_t j = 0; j < run; ++j) {
          uint64_t eight;
          while (j + 8 <= run && (std::memcpy(&eight, m + i + j, 8), eight == 0)) j += 8;
          if (j >= run) break;
          if (!m[i + j]) continue;
          for (int d = 0; d < rank - 1; ++d) to[d] = index[d] + 1;
          to[rank - 1] = index[rank - 1] + j + 1;
          to += rank;
        }
        i += run;
        index[rank - 1] += run;
        for (int d = rank - 1; d > 0 && index[d] == shape[d]; --d) {
          index[d] = 0;
          ++index[d - 1];
        }
      }
    }
  });
  return out;
}

// The same as one tensor for each dimension; a 0-d tensor has one.
void nonzero_columns(Call& c) {
  Tensor x = c.tensor(0);
  if (x.rank() == 0) x = alias(x, {1}, {1}, x->offset);
  const Tensor rows = nonzero_rows(x);
  for (int d = 0; d < x.rank(); ++d) {
    const Tensor column = empty({rows.size(0)}, DType::Int64, x.device());
    copy_raw(column, alias(rows, column.shape(), {x.rank()}, rows->offset + d));
    c.out.push_back(column);
  }
}

}  // namespace

void unique(Call& c) { make_unique(c, false, c.flag(2), c.flag(3), 4); }
void unique_consecutive(Call& c) { make_unique(c, true, c.flag(1), c.flag(2), 3); }

void nonzero(Call& c) {
  if (c.flag(1))
    nonzero_columns(c);
  else
    c.out.push_back(nonzero_rows(c.tensor(0)));
}
void where_found(Call& c) { nonzero_columns(c); }

void searchsorted(Call& c) {
  const Tensor &sorted = c.tensor(0), &sorter = c.tensor(5), &out = c.out[0];
  const Value& v = c.arg[1];
  const Tensor values = v.tag == Tag::Tensor ? c.tensor(1)
                        : v.tag == Tag::Int  ? number_tensor(v.i)
                                             : number_tensor(v.number());
  const bool right = c.flag(3), floats = is_floating(sorted.dtype()) || is_floating(values.dtype());
  const DType type = floats ? DType::Float64 : DType::Int64;
  const auto as = [](const Tensor& t, DType dtype) {
    Tensor to = empty(t.shape(), dtype);
    copy_raw(to, t);
    return to;
  };
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
  parallel_for(wanted.numel(), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t from = i / per_line * n;
      const int64_t* o = order ? order.data<int64_t>() + from : nullptr;
      result.data<int64_t>()[i] =
          1 + (floats
                   ? place(lines.data<double>() + from, n, wanted.data<double>()[i], right, o)
                   : place(lines.data<int64_t>() + from, n, wanted.data<int64_t>()[i], right, o));
    }
  });
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
  Tensor in = empty(x.shape(), DType::Float64), counts = filled({bins}, 0, DType::Float64);
  copy_raw(in, x);
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
  Tensor in = empty(x.shape(), DType::Int64);
  copy_raw(in, x);
  const int64_t* v = in.data<int64_t>();
  int64_t n = c.integer(2);
  for (int64_t i = 0; i < in.numel(); ++i) {
    if (v[i] < 0)
      fail(Kind::Value, format("bincount: counts values from 0, and element %lld is %lld",
                               static_cast<long long>(i + 1), static_cast<long long>(v[i])));
    TYCHO_CHECK(Kind::Value, v[i] < int64_t{1} << 40,
                "bincount: value %lld needs too many counters", static_cast<long long>(v[i]));
    n = std::max(n, v[i] + 1);
  }
  if (!weights) {
    const Tensor counts = filled({n}, 0, DType::Int64, x.device());
    for (int64_t i = 0; i < in.numel(); ++i) ++counts.data<int64_t>()[v[i]];
    c.out.push_back(counts);
    return;
  }
  const DType type = weights.dtype() == DType::Float32 ? DType::Float32 : DType::Float64;
  Tensor w = empty(weights.shape(), DType::Float64), sums = filled({n}, 0, DType::Float64);
  copy_raw(w, weights);
  for (int64_t i = 0; i < in.numel(); ++i) sums.data<double>()[v[i]] += w.data<double>()[i];
  const Tensor out = empty({n}, type, x.device());
  copy_raw(out, sums);
  c.out.push_back(out);
}

BIND_KERNEL(Cpu, "unique", unique);
BIND_KERNEL(Cpu, "unique_consecutive", unique_consecutive);
BIND_KERNEL(Cpu, "nonzero", nonzero);
BIND_KERNEL(Cpu, "argwhere", nonzero);
BIND_KERNEL(Cpu, "where.found", where_found);
BIND_KERNEL(Cpu, "searchsorted", searchsorted);
BIND_KERNEL(Cpu, "searchsorted.number", searchsorted);
BIND_KERNEL(Cpu, "histc", histc);
BIND_KERNEL(Cpu, "bincount", bincount);

}  // namespace tycho::cpu
