// Counting and searching on a device: places in sorted lines, distinct elements, how often values
// occur. Most are made of operations that have kernels there.
#include <algorithm>
#include <cmath>

#include "engine/cuda/kernels/find.cuh"
#include "engine/cuda/ops/index_walk.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

Tensor flat(const Tensor& t) {
  const Tensor x = packed(t);
  return alias(x, {x.numel()}, {1}, x->offset);
}
int64_t smallest(const Tensor& t) { return item<int64_t>(op<"amin">(t)); }
int64_t largest(const Tensor& t) { return item<int64_t>(op<"amax">(t)); }

void searchsorted(Call& c) {
  const Tensor &sorter = c.tensor(5), &out = c.out[0];
  const Tensor sorted = packed(c.tensor(0)), order = sorter ? packed(sorter) : sorter;
  const Tensor values = c.arg[1].tag == Tag::Tensor ? packed(c.tensor(1)) : Tensor();
  const int64_t n = sorted.rank() ? sorted.size(-1) : 1;
  if (out.numel() == 0) return;
  if (order && order.numel())
    TYCHO_CHECK(Kind::Index, smallest(order) >= 1 && largest(order) <= n,
                "searchsorted: the sorter's positions must lie in 1..%lld",
                static_cast<long long>(n));
  const Written places(out);
  Search s{};
  s.sorted = sorted.data<void>();
  s.sorted_dtype = number_of(sorted);
  s.order = order ? order.data<int64_t>() : nullptr;
  s.out = places.data();
  s.out_dtype = number_of(out);
  s.right = c.flag(3);
  s.n = n;
  s.numel = out.numel();
  s.per_line = sorted.rank() > 1 ? out.size(-1) : out.numel();
  bool floats = is_floating(sorted.dtype());
  if (values) {
    s.values = values.data<void>();
    s.values_dtype = number_of(values);
    floats = floats || is_floating(values.dtype());
  } else {
    floats = floats || c.arg[1].tag == Tag::Float;
    s.number = c.number(1);
    s.integer = c.arg[1].tag == Tag::Int ? c.arg[1].i : 0;
  }
  launch(out.device(), {"find", floats ? "search_f64" : "search_i64"},
         grid_for(out.device(), s.numel), {256}, 0, s);
  places.finish();
}

// --- distinct elements ---

// Which of the slices differ from the one before; nan differs from everything.
Tensor beginnings(const Tensor& x) {
  const int64_t n = x.size(0);
  const Tensor begins = filled({n}, 1, DType::Bool, x.device());
  if (n < 2) return begins;
  Tensor differs = op<"ne">(op<"narrow">(x, 0, 1, n - 1), op<"narrow">(x, 0, 0, n - 1));
  if (x.rank() > 1) differs = op<"any">(op<"reshape">(differs, Sizes{n - 1, -1}), Sizes{1});
  copy_raw(op<"narrow">(begins, 0, 1, n - 1), differs);
  return begins;
}

// The order of slices by their first element, those with equal ones by the second, and so on.
Tensor order_of(const Tensor& x) {
  const int64_t n = x.size(0), m = n ? x.numel() / n : 0;
  const Tensor lines = op<"reshape">(x, Sizes{n, m});
  Tensor order = op<"arange.start">(1, n + 1, 1, DType::Int64, x.device());
  for (int64_t k = m - 1; k >= 0; --k) {
    const Tensor keys = op<"index_select">(op<"select">(lines, 1, k), 0, order);
    order = op<"index_select">(order, 0, op<"argsort">(keys, 0, false, true));
  }
  return order;
}

void unique(Call& c, bool consecutive, bool inverse, bool counts, int dim_arg) {
  const bool along = c.has(dim_arg);
  const Tensor& given = c.tensor(0);
  const int64_t dim = along ? c.integer(dim_arg) : 0;
  Tensor x = along ? packed(op<"transpose">(given, 0, dim)) : flat(given), order;
  if (!consecutive && x.rank() == 1) {
    const auto sorted = ops<"sort">(x, 0, false, true);
    x = sorted[0];
    order = sorted[1];
  } else if (!consecutive) {
    order = order_of(x);
    x = op<"index_select">(x, 0, order);
  }
  const Tensor begins = beginnings(x);
  const int64_t n = begins.numel();
  const Tensor starts = op<"reshape">(ops<"nonzero">(begins, false)[0], Sizes{-1});
  Tensor values = op<"index_select">(x, 0, starts);
  if (along) values = packed(op<"transpose">(values, 0, dim));
  c.out.push_back(values);
  if (inverse) {
    Tensor number = op<"cumsum">(as(begins, DType::Int64), 0);
    if (order) number = op<"index_copy">(op<"zeros_like">(number), 0, order, number);
    c.out.push_back(along ? number : op<"reshape">(number, given.shape()));
  }
  if (counts) {
    const Tensor end = filled({1}, n + 1, DType::Int64, x.device());
    const std::vector<Tensor> all{starts, end};
    const Tensor bounds = op<"cat">(all, 0);
    const int64_t found = starts.numel();
    c.out.push_back(
        op<"sub">(op<"narrow">(bounds, 0, 1, found), op<"narrow">(bounds, 0, 0, found)));
  }
}

// Whether elements are among others: their place among these, sorted, holds an equal one.
void isin(Call& c) {
  const auto floats = [&](int i) {
    return c.arg[i].tag == Tag::Tensor ? is_floating(c.tensor(i).dtype())
                                       : c.arg[i].tag == Tag::Float;
  };
  const Tensor& out = c.out[0];
  const DType type = floats(0) || floats(1) ? DType::Float64 : DType::Int64;
  const auto read = [&](int i) {
    return flat(c.arg[i].tag == Tag::Tensor ? as(c.tensor(i), type) : scalar(out, c.arg[i], type));
  };
  const Tensor x = read(0), among = read(1);
  if (out.numel() == 0) return;
  if (among.numel() == 0) return fill_raw(out, Value(c.flag(3)));
  const Tensor sorted = ops<"sort">(among, 0, false, true)[0];
  const Tensor place = op<"clamp">(op<"searchsorted">(sorted, x), Value(), among.numel());
  const Tensor near = op<"index_select">(sorted, 0, place);
  const Tensor found = c.flag(3) ? op<"ne">(near, x) : op<"eq">(near, x);
  copy_raw(out, op<"reshape">(found, out.shape()));
}

// --- counts ---

// 1, or what stands in `weights`, added to `counts` at positions from 1.
void count_at(const Tensor& counts, const Tensor& places, const Tensor& weights) {
  if (places.numel() == 0) return;
  Tensor each = weights;
  if (!each) {
    each = scalar(counts, Value(int64_t{1}), counts.dtype());
    each = alias(each, places.shape(), Sizes{0}, each->offset);
  }
  op_<"index_add">(counts, 0, places, each);
}

void bincount(Call& c) {
  const Tensor x = flat(as(c.tensor(0), DType::Int64)), &weights = c.tensor(1);
  int64_t n = c.integer(2);
  if (x.numel()) {
    if (smallest(x) < 0) {
      const std::vector<int64_t> all = items<int64_t>(fetch(x));
      const auto bad = std::find_if(all.begin(), all.end(), [](int64_t v) { return v < 0; });
      fail(Kind::Value,
           format("bincount: counts values from 0, and element %lld is %lld",
                  static_cast<long long>(bad - all.begin() + 1), static_cast<long long>(*bad)));
    }
    const int64_t most = largest(x);
    TYCHO_CHECK(Kind::Value, most < int64_t{1} << 40,
                "bincount: value %lld needs too many counters", static_cast<long long>(most));
    n = std::max(n, most + 1);
  }
  const bool narrow = weights && weights.dtype() == DType::Float32;
  const Tensor counts = filled({n}, 0, weights ? DType::Float64 : DType::Int64, x.device());
  count_at(counts, op<"add">(x, 1), weights ? flat(as(weights, DType::Float64)) : weights);
  c.out.push_back(narrow ? as(counts, DType::Float32) : counts);
}

void histc(Call& c) {
  const Tensor& given = c.tensor(0);
  const Tensor x = flat(given.dtype() == DType::Float64 ? given : as(given, DType::Float32));
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
  const Tensor counts = filled({bins}, 0, DType::Int64, x.device());
  const Tensor wide = as(x, DType::Float64);
  const Tensor inside =
      op<"masked_select">(x, op<"logical_and">(op<"ge">(wide, low), op<"le">(wide, high)));
  // The bin is computed in the input's own precision, as PyTorch does.
  double range = high - low;
  if (x.dtype() == DType::Float32) {
    low = static_cast<float>(low);
    range = static_cast<float>(high) - static_cast<float>(low);
  }
  const Tensor part = op<"div">(op<"mul">(op<"sub">(inside, low), bins), range);
  count_at(counts, op<"clamp">(op<"add">(as(part, DType::Int64), 1), Value(), bins), Tensor());
  copy_raw(c.out[0], counts);
}

// Position i comes as often as its count says: where i stands among the counts' running sums.
void repeated(Call& c) {
  const Tensor times = flat(as(c.tensor(0), DType::Int64));
  int64_t total = 0;
  if (times.numel()) {
    if (smallest(times) < 0) {
      const std::vector<int64_t> all = items<int64_t>(fetch(times));
      const int64_t bad = *std::find_if(all.begin(), all.end(), [](int64_t v) { return v < 0; });
      fail(Kind::Value,
           format("repeat_interleave: a count cannot be %lld", static_cast<long long>(bad)));
    }
    const double sum = item(op<"sum">(as(times, DType::Float64)));
    TYCHO_CHECK(Kind::Shape, sum < static_cast<double>(kMostRepeated),
                "repeat_interleave: too many elements");
    total = static_cast<int64_t>(sum);
  }
  if (c.has(1))
    TYCHO_CHECK(Kind::Value, c.integer(1) == total,
                "repeat_interleave: output_size is %lld, but the counts sum to %lld",
                static_cast<long long>(c.integer(1)), static_cast<long long>(total));
  const Device device = times.device();
  if (total == 0) return c.out.push_back(empty({0}, DType::Int64, device));
  const Tensor number = op<"arange">(total, DType::Int64, device);
  c.out.push_back(op<"searchsorted">(op<"cumsum">(times, 0), number, false, true));
}

// The bag of each id: how many bags begin up to it.
void embedding_bags(Call& c) {
  const Tensor offsets = flat(as(c.tensor(0), DType::Int64)), &out = c.out[0];
  const int64_t n = c.integer(1), given = offsets.numel();
  const bool last = c.flag(2);
  TYCHO_CHECK(Kind::Value, given > 0 || n == 0, "embedding_bag: no offsets for %lld ids",
              static_cast<long long>(n));
  if (given == 0) return;
  const std::vector<int64_t> from = items<int64_t>(fetch(offsets));
  const int64_t bags = last ? given - 1 : given;
  for (int64_t b = 0; b < bags; ++b) {
    const int64_t begin = from[static_cast<size_t>(b)],
                  end = b + 1 < given ? from[static_cast<size_t>(b) + 1] : n + 1;
    TYCHO_CHECK(Kind::Value, begin >= 1 && begin <= end && end <= n + 1 && (b > 0 || begin == 1),
                "embedding_bag: offsets count from 1 and grow; offset %lld is %lld for %lld ids",
                static_cast<long long>(b + 1), static_cast<long long>(begin),
                static_cast<long long>(n));
  }
  if (last)
    TYCHO_CHECK(Kind::Value, from.back() == n + 1,
                "embedding_bag: the last offset must be %lld, one past the ids, not %lld",
                static_cast<long long>(n + 1), static_cast<long long>(from.back()));
  if (n == 0) return;
  const Tensor id = op<"arange.start">(1, n + 1, 1, DType::Int64, out.device());
  const Tensor begins = op<"narrow">(offsets, 0, 0, bags);
  copy_raw(out, op<"sub">(op<"searchsorted">(begins, id, false, true), 1));
}

// The first element that is no probability, from 0, or -1.
void first_improbable(Call& c) {
  const Tensor x = flat(c.tensor(0));
  if (x.numel() == 0) return fill_raw(c.out[0], Value(int64_t{-1}));
  const Tensor good = op<"logical_and">(op<"ge">(x, 0), op<"le">(x, 1));
  const auto bad = ops<"min.dim">(as(good, DType::Int64), 0);
  copy_raw(c.out[0], op<"where">(as(bad[0], DType::Bool), -1, op<"sub">(bad[1], 1)));
}

BIND_KERNEL(Cuda, "searchsorted", searchsorted);
BIND_KERNEL(Cuda, "searchsorted.number", searchsorted);
BIND_KERNEL(Cuda, "unique", [](Call& c) { unique(c, false, c.flag(2), c.flag(3), 4); });
BIND_KERNEL(Cuda, "unique_consecutive", [](Call& c) { unique(c, true, c.flag(1), c.flag(2), 3); });
BIND_KERNEL(Cuda, "isin", isin);
BIND_KERNEL(Cuda, "bincount", bincount);
BIND_KERNEL(Cuda, "histc", histc);
BIND_KERNEL(Cuda, "repeat_interleave.counts", repeated);
BIND_KERNEL(Cuda, "embedding_bags", embedding_bags);
BIND_KERNEL(Cuda, "first_improbable", first_improbable);

}  // namespace
}  // namespace tycho::cuda
