// Checking index tensors: every value is looked at before anything is read or written by it.
#include <atomic>

#include "engine/base/parallel.h"
#include "engine/cpu/index/index.h"
#include "engine/ops/index/index.h"
#include "engine/ops/table/apply.h"

namespace tycho {
namespace {

[[noreturn]] void fail_at(const char* op, const Tensor& index, int64_t at, int64_t value,
                          int64_t size, int dim, bool negative) {
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
  if (value == 0) fail(Kind::Index, text + ": positions count from 1");
  text += dim >= 0 ? format(" is out of range for dimension %d with size %lld", dim + 1,
                            static_cast<long long>(size))
                   : format(" is out of range for %lld", static_cast<long long>(size));
  if (size > 0) {
    text += format(" (1..%lld", static_cast<long long>(size));
    text += negative ? format(", or -%lld..-1)", static_cast<long long>(size)) : ")";
  }
  fail(Kind::Index, text);
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
  if (!has_values(t)) {  // only shapes are computed
    out.hold = t;
    out.p = p;
    return out;
  }
  std::atomic<bool> odd{false};
  parallel_for(out.n, 1 << 15, [&](int64_t begin, int64_t end) {
    if (cpu::level_of::any_outside(p + begin, end - begin, size))
      odd.store(true, std::memory_order_relaxed);
  });
  if (odd) {
    for (int64_t i = 0; i < out.n; ++i) {
      const bool below = negative && p[i] < 0 && p[i] >= -size;
      if (!below && (p[i] < 1 || p[i] > size)) fail_at(op, index, i, p[i], size, dim, negative);
    }
    Tensor wrapped = empty(index.shape(), DType::Int64, index.device());
    int64_t* w = wrapped.data<int64_t>();
    for (int64_t i = 0; i < out.n; ++i) w[i] = p[i] < 0 ? p[i] + size + 1 : p[i];
    t = wrapped;
    p = w;
  }
  out.hold = t;
  out.p = p;
  return out;
}

}  // namespace tycho
