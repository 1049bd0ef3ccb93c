// Making tensors and reading their layout.
#include "engine/tensor/tensor.h"

#include <cmath>
#include <cstring>

#include "engine/base/fresh.h"
#include "engine/base/pool.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/fresh.h"
#include "engine/tensor/half.h"

namespace tycho {
namespace {

Impl* new_impl() { return new (FreeList<Impl>::take()) Impl; }

void join_inner(Impl* p) {
  p->inner = true;
  p->next_inner = p->storage->inner;
  p->storage->inner = p;
}

void leave_inner(Impl* p) {
  Impl** at = &p->storage->inner;
  while (*at != p) at = &(*at)->next_inner;
  *at = p->next_inner;
}

}  // namespace

void Impl::destroy(Impl* p) {
  if (p->extra) [[unlikely]] {
    if (p->extra->retains_grad && p->node) p->node->forget(p);
    delete p->extra;
  }
  if (p->inner) [[unlikely]]
    leave_inner(p);
  p->~Impl();
  FreeList<Impl>::give(p);
}

void refuse_host(Device device) {
  fail(Kind::Device, "internal: the host reads memory of " + device_name(device));
}

Extra& extra_of(Impl* p) {
  if (!p->extra) p->extra = new Extra;
  return *p->extra;
}

Tensor empty(const Sizes& shape, DType dtype, Device device) {
  for (int i = 0; i < shape.n; ++i)
    TYCHO_CHECK(Kind::Shape, shape[i] >= 0, "a size cannot be negative: %s",
                to_string(shape).c_str());
  const int64_t numel = product(shape);
  Ref<Storage> storage = new_storage(numel * dtype_size(dtype), device);
  Impl* p = new_impl();
  p->dtype = dtype;
  p->device = device;
  p->rank = static_cast<uint8_t>(shape.n);
  p->contiguous = true;
  p->numel = numel;
  p->offset = 0;
  int64_t step = 1;
  for (int i = shape.n - 1; i >= 0; --i) {
    p->shape[i] = shape[i];
    p->stride[i] = step;
    step *= shape[i] > 1 ? shape[i] : 1;
  }
  p->storage = std::move(storage);
  return Tensor(p);
}

namespace {

inline Tensor laid_out_as(const Tensor& like, DType dtype, Ref<Storage> storage) {
  Impl* p = new_impl();
  p->dtype = dtype;
  p->device = like->device;
  p->rank = like->rank;
  p->contiguous = like->contiguous;
  p->numel = like->numel;
  p->offset = 0;
  for (int i = 0; i < p->rank; ++i) {
    p->shape[i] = like->shape[i];
    p->stride[i] = like->stride[i];
    asm("");  // a call of memcpy costs more than a few numbers
  }
  p->storage = std::move(storage);
  if (like->inner) [[unlikely]]
    join_inner(p);
  return Tensor(p);
}

}  // namespace

Tensor empty_like(const Tensor& like, DType dtype) {
  if (!like->contiguous && !is_dense(like.get())) return empty(like.shape(), dtype, like.device());
  return laid_out_as(like, dtype, new_storage(like.numel() * dtype_size(dtype), like.device()));
}

Tensor promised_like(const Tensor& like, DType dtype) {
  return laid_out_as(like, dtype,
                     promised_storage(like.numel() * dtype_size(dtype), like.device()));
}

Tensor empty_strided(const Sizes& shape, const Sizes& stride, DType dtype, Device device) {
  int64_t last = 0;
  const int64_t numel = product(shape);
  for (int i = 0; i < shape.n; ++i) last += (shape[i] - 1) * stride[i];
  Tensor flat = empty({numel ? last + 1 : 0}, dtype, device);
  return alias(flat, shape, stride, 0);
}

Tensor empty_inner(const Sizes& shape, const Sizes& stride, DType dtype, Device device) {
  if (is_contiguous(shape, stride)) return empty(shape, dtype, device);
  const Tensor t = empty_strided(shape, stride, dtype, device);
  join_inner(t.get());
  return t;
}

void move_inner(const Tensor& t, const Tensor& straight) {
  const Ref<Storage> old = t->storage;
  Storage& s = *straight->storage;
  s.version = old->version;
  s.changed_by = old->changed_by;
  s.changed_at = old->changed_at;
  s.passes = old->passes;
  s.stepped = old->stepped;
  for (Impl* p = std::exchange(old->inner, nullptr); p; p = p->next_inner) {
    p->inner = false;
    p->contiguous = true;
    for (int d = 0; d < p->rank; ++d) p->stride[d] = straight->stride[d];
    p->storage = straight->storage;
  }
}

Tensor alias(const Tensor& t, const Sizes& shape, const Sizes& stride, int64_t offset) {
  Impl* p = new_impl();
  p->dtype = t->dtype;
  p->device = t->device;
  p->rank = static_cast<uint8_t>(shape.n);
  p->is_inference = t->is_inference;
  p->offset = offset;
  int64_t numel = 1;
  for (int i = 0; i < shape.n; ++i) {
    p->shape[i] = shape[i];
    p->stride[i] = stride[i];
    numel *= shape[i];
  }
  p->numel = numel;
  p->contiguous = is_contiguous(shape, stride);
  p->storage = t->storage;
  return Tensor(p);
}

Tensor alias(const Tensor& t) {
  Impl* p = new_impl();
  p->dtype = t->dtype;
  p->device = t->device;
  p->rank = t->rank;
  p->is_inference = t->is_inference;
  p->is_number = t->is_number;
  p->offset = t->offset;
  p->numel = t->numel;
  p->contiguous = t->contiguous;
  for (int i = 0; i < p->rank; ++i) {
    p->shape[i] = t->shape[i];
    p->stride[i] = t->stride[i];
    asm("");  // a call of memcpy costs more than a few numbers
  }
  p->storage = t->storage;
  if (t->inner) [[unlikely]]
    join_inner(p);
  return Tensor(p);
}

namespace {
template <class T>
Tensor number(T x, DType dtype) {
  Tensor t = empty(Sizes(), dtype);
  *t.host<T>() = x;
  t->is_number = true;
  return t;
}
}  // namespace

Tensor number_tensor(double x) { return number(x, DType::Float64); }
Tensor number_tensor(int64_t x) { return number(x, DType::Int64); }
Tensor number_tensor(bool x) { return number(x, DType::Bool); }

Tensor tensor_of(const Sizes& shape, const std::vector<double>& values) {
  const Tensor t = empty(shape, DType::Float64);
  std::copy_n(values.begin(), t.numel(), t.host<double>());
  return t;
}

bool holds_fresh_zeros(const Tensor& t) {
  return t.device().is_cpu() && t.numel() > 0 &&
         is_fresh(t.host(), static_cast<size_t>(t.numel() * dtype_size(t.dtype())));
}

namespace {
// Every element of a small CPU tensor.
void fill_host(const Tensor& t, double value) {
  const int64_t n = t.numel();
  if (n == 0) return;  // there may be no memory at all
  const auto fill = [&](auto x) {
    auto* p = t.host<decltype(x)>();
    for (int64_t i = 0; i < n; ++i) p[i] = x;
  };
  if (value == 0 && !std::signbit(value)) {
    std::memset(t.host(), 0, n * dtype_size(t.dtype()));
    return;
  }
  switch (t.dtype()) {
    case DType::Bool:
      fill(static_cast<uint8_t>(value != 0));
      break;
    case DType::UInt8:
      fill(static_cast<uint8_t>(static_cast<int64_t>(value)));
      break;
    case DType::Int8:
      fill(static_cast<int8_t>(static_cast<int64_t>(value)));
      break;
    case DType::Int16:
      fill(static_cast<int16_t>(static_cast<int64_t>(value)));
      break;
    case DType::Int32:
      fill(static_cast<int32_t>(static_cast<int64_t>(value)));
      break;
    case DType::Int64:
      fill(static_cast<int64_t>(value));
      break;
    case DType::Float16:
      fill(to_float16(static_cast<float>(value)));
      break;
    case DType::BFloat16:
      fill(to_bfloat16(static_cast<float>(value)));
      break;
    case DType::Float32:
      fill(static_cast<float>(value));
      break;
    case DType::Float64:
      fill(value);
      break;
  }
}
}  // namespace

Tensor filled(const Sizes& shape, double value, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  constexpr int64_t kFew = 4096;  // more are the backend's, which has threads
  if (device.is_cpu() && t.numel() <= kFew) {
    fill_host(t, value);
  } else if (t.numel() && !shapes_only) {
    const Tensor one = filled(Sizes(), value, dtype);
    backend_of(device).fill(t, one.host());
  }
  return t;
}

bool is_contiguous(const Sizes& shape, const Sizes& stride) {
  int64_t step = 1;
  bool fits = true;
  for (int i = shape.n - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    fits &= shape[i] == 1 || stride[i] == step;
    step *= shape[i];
  }
  return fits;
}

bool is_dense(const Impl* t) {
  if (t->contiguous) return true;
  // Take the dimensions by ascending stride; each must step over exactly what came before.
  bool taken[kMaxDims] = {};
  int64_t step = 1;
  for (int k = 0; k < t->rank; ++k) {
    int next = -1;
    for (int i = 0; i < t->rank; ++i)
      if (!taken[i] && t->shape[i] != 1 && (next < 0 || t->stride[i] < t->stride[next])) next = i;
    if (next < 0) break;
    if (t->stride[next] != step) return false;
    taken[next] = true;
    step *= t->shape[next];
  }
  return true;
}

bool overlaps_itself(const Impl* t) {
  if (t->contiguous || t->numel <= 1) return false;
  bool taken[kMaxDims] = {};
  int64_t reach = 0;  // the farthest place of the dimensions taken so far
  for (int k = 0; k < t->rank; ++k) {
    int next = -1;
    for (int i = 0; i < t->rank; ++i)
      if (!taken[i] && t->shape[i] != 1 && (next < 0 || t->stride[i] < t->stride[next])) next = i;
    if (next < 0) break;
    if (t->stride[next] <= reach) return true;
    taken[next] = true;
    reach += (t->shape[next] - 1) * t->stride[next];
  }
  return false;
}

std::string describe(const Tensor& t) {
  std::string text = std::string(dtype_name(t.dtype())) + " " + to_string(t.shape());
  if (!t.device().is_cpu()) text += " on " + device_name(t.device());
  return text;
}

}  // namespace tycho
