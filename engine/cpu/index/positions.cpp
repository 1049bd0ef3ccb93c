// Checking index tensors: every value is looked at before anything is read or written by it.
#include "engine/cpu/index/positions.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/index/index.h"
#include "engine/ops/index/index.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// `largest`: of all values of the index.
[[noreturn]] void fail_at(const char* op, const Tensor& index, int64_t at, int64_t value,
                          int64_t size, int dim, bool negative, int64_t largest) {
  const std::string_view full = op;
  std::string text(full.substr(0, full.find('.')));
  text += format(": index %lld", static_cast<long long>(value));
  if (index.rank() == 1) {
    text += format(" at position %lld", static_cast<long long>(at + 1));
  } else if (index.rank() > 1) {
    Sizes where;
    for (int d = 0; d < index.rank(); ++d) where.push_back(0);
    for (int d = index.rank() - 1; d >= 0; --d) {
      where[d] = at % index.size(d) + 1;
      at /= index.size(d);
    }
    text += " at position " + to_string(where);
  }
  if (value == 0) {
    text += ": positions count from 1";
    if (largest >= size)  // counting from 1 would not do
      text += format("; the largest is %lld, and there are %lld", static_cast<long long>(largest),
                     static_cast<long long>(size));
    fail(Kind::Index, text);
  }
  text += dim >= 0 ? format(" is out of range for dimension %d with size %lld", dim + 1,
                            static_cast<long long>(size))
                   : format(" is out of range for %lld", static_cast<long long>(size));
  if (size > 0) {
    text += format(" (1..%lld", static_cast<long long>(size));
    text += negative ? format(", or -%lld..-1)", static_cast<long long>(size)) : ")";
  }
  fail(Kind::Index, text);
}

bool any_odd(const int64_t* p, int64_t n, int64_t size) {
  std::atomic<bool> odd{false};
  parallel_for(n, 1 << 15, [&](int64_t begin, int64_t end) {
    if (level_of::any_outside(p + begin, end - begin, size))
      odd.store(true, std::memory_order_relaxed);
  });
  return odd;
}

// Writes positions from 1, where they are not all so.
void wrap(const char* op, const Tensor& index, const int64_t* p, int64_t* to, int64_t size, int dim,
          bool negative) {
  for (int64_t i = 0; i < index.numel(); ++i) {
    const bool below = negative && p[i] < 0 && p[i] >= -size;
    if (!below && (p[i] < 1 || p[i] > size))
      fail_at(op, index, i, p[i], size, dim, negative, *std::max_element(p, p + index.numel()));
  }
  for (int64_t i = 0; i < index.numel(); ++i) to[i] = p[i] < 0 ? p[i] + size + 1 : p[i];
}

}  // namespace

Positions positions(const char* op, const Tensor& index, int64_t size, int dim, bool negative) {
  Positions out;
  out.n = index.numel();
  Tensor t = index;
  if (index.dtype() != DType::Int64 || !index.contiguous()) {
    t = empty(index.shape(), DType::Int64, index.device());
    copy_raw(t, index);
  }
  const int64_t* p = t.data<int64_t>();
  if (any_odd(p, out.n, size)) {
    Tensor wrapped = empty(index.shape(), DType::Int64, index.device());
    wrap(op, index, p, wrapped.data<int64_t>(), size, dim, negative);
    t = wrapped;
    p = wrapped.data<int64_t>();
  }
  out.hold = t;
  out.p = p;
  return out;
}

void wrapped_positions(Call& c) {
  const Tensor &index = c.tensor(0), &out = c.out[0];
  int64_t* p = out.data<int64_t>();
  const int64_t size = c.integer(1);
  std::atomic<bool> odd{false};
  if (index.dtype() == DType::Int64 && index.contiguous()) {  // looked at and copied in one pass
    const int64_t* from = index.data<int64_t>();
    parallel_for(out.numel(), 1 << 15, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin, n; i < end; i += n) {
        n = std::min<int64_t>(end - i, 2048);
        if (level_of::any_outside(from + i, n, size)) odd.store(true, std::memory_order_relaxed);
        std::memcpy(p + i, from + i, static_cast<size_t>(n) * sizeof(int64_t));
      }
    });
  } else {
    copy_raw(out, index);
    odd = any_odd(p, out.numel(), size);
  }
  if (odd) wrap("take_along_dim", index, p, p, size, static_cast<int>(c.integer(2)), true);
}

BIND_KERNEL(Cpu, "wrapped_positions", wrapped_positions);

}  // namespace tycho::cpu
