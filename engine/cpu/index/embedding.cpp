// Kernels of looking rows up by id: embedding, the bags of embedding_bag, one_hot.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/index/index.h"
#include "engine/cpu/index/positions.h"
#include "engine/ops/index/index.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cpu {
namespace {

// Scales the rows of `weight` that are named to a norm of at most `most`, in place.
void shorten_rows(const Tensor& weight, const Positions& at, double most, double p) {
  std::vector<bool> seen(static_cast<size_t>(weight.size(0)));
  for (int64_t i = 0; i < at.n; ++i) {
    if (seen[static_cast<size_t>(at.p[i] - 1)]) continue;
    seen[static_cast<size_t>(at.p[i] - 1)] = true;
    const Tensor row = op<"select">(weight, 0, at.p[i] - 1);
    double norm = 0;
    each_number(fetch(row).get(), [&](double x, int64_t) {
      norm = std::isinf(p) ? std::max(norm, std::fabs(x)) : norm + std::pow(std::fabs(x), p);
    });
    if (!std::isinf(p)) norm = std::pow(norm, 1 / p);
    if (norm > most) op_<"mul">(row, most / (norm + 1e-7));
  }
}

}  // namespace

void embedding(Call& c) {
  const Tensor& weight = c.tensor(1);
  const Positions at = positions("embedding", c.tensor(0), weight.size(0), 0, false);
  if (c.has(3)) shorten_rows(weight, at, c.number(3), c.number(4));
  take_rows(weight, at, c.out[0]);
}

void embedding_bags(Call& c) {
  const Tensor offsets = empty(c.tensor(0).shape(), DType::Int64);
  copy_raw(offsets, c.tensor(0));
  const int64_t n = c.integer(1), given = offsets.numel();
  const bool last = c.flag(2);
  const int64_t* p = offsets.data<int64_t>();
  int64_t* to = c.out[0].data<int64_t>();
  const int64_t bags = last ? given - 1 : given;
  TYCHO_CHECK(Kind::Value, given > 0 || n == 0, "embedding_bag: no offsets for %lld ids",
              static_cast<long long>(n));
  for (int64_t b = 0; b < bags; ++b) {
    const int64_t from = p[b], end = b + 1 < given ? p[b + 1] : n + 1;
    TYCHO_CHECK(Kind::Value, from >= 1 && from <= end && end <= n + 1 && (b > 0 || from == 1),
                "embedding_bag: offsets count from 1 and grow; offset %lld is %lld for %lld ids",
                static_cast<long long>(b + 1), static_cast<long long>(from),
                static_cast<long long>(n));
    std::fill(to + from - 1, to + end - 1, b + 1);
  }
  if (last && given > 0)
    TYCHO_CHECK(Kind::Value, p[given - 1] == n + 1,
                "embedding_bag: the last offset must be %lld, one past the ids, not %lld",
                static_cast<long long>(n + 1), static_cast<long long>(p[given - 1]));
}

void bag_sums(Call& c) {
  constexpr int64_t kMost = 256;  // rows of a bag, so that float32 holds their sum well
  const Tensor &ids = c.tensor(0), &weight = c.tensor(1), &out = c.out[0];
  const DType type = weight.dtype();
  const int64_t n = ids.size(1), width = weight.size(1), row = width * dtype_size(type);
  if ((type != DType::Float32 && type != DType::Float64) || weight.stride(1) != 1 || n > kMost)
    return copy_raw(out, op<"sum">(op<"embedding">(ids, weight), Sizes{1}));
  const Positions at = positions("embedding_bag", ids, weight.size(0), 0, false);
  parallel_for(ids.size(0), std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n * width)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t b = begin; b < end; ++b)
                   level_of::sum_rows(static_cast<int>(type), out.data() + b * row,
                                      static_cast<const void*>(weight.data()), weight.stride(0),
                                      at.p + b * n, n, width);
               });
}

void one_hot(Call& c) {
  const Tensor x = packed(c.tensor(0));
  if (c.out.empty()) {
    const int64_t* p = x.data<int64_t>();
    Sizes shape = x.shape();
    shape.push_back(std::max<int64_t>(0, *std::max_element(p, p + x.numel())));
    c.out.push_back(empty(shape, DType::Int64, x.device()));
  }
  const int64_t n = c.out[0].size(-1);
  const Positions at = positions("one_hot", x, n, -1, false);
  int64_t* to = c.out[0].data<int64_t>();
  parallel_for(at.n, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n)),
               [&](int64_t begin, int64_t end) {
                 std::fill(to + begin * n, to + end * n, 0);
                 for (int64_t i = begin; i < end; ++i) to[i * n + at.p[i] - 1] = 1;
               });
}

BIND_KERNEL(Cpu, "embedding", embedding);
BIND_KERNEL(Cpu, "bag_sums", bag_sums);
BIND_KERNEL(Cpu, "one_hot", one_hot);
BIND_KERNEL(Cpu, "embedding_bags", embedding_bags);

}  // namespace tycho::cpu
