// Reading a tensor's values in C++. A position is the element's place in the view's own row-major
// order, from 0, whatever its strides and offset: number_at(x, 3) of x:t() is what x:t():flatten()
// holds fourth. What walks memory itself reads through number_of.
#pragma once
#include <type_traits>
#include <vector>

#include "engine/tensor/tensor.h"

namespace tycho {

// The tensor itself when it lies on the CPU, else a row-major copy there. No graph.
Tensor fetch(const Tensor& t);
// A row-major copy on another device. No graph.
Tensor sent(const Tensor& t, Device device);

// Where element `i` of the view lies, in elements from the view's first one.
inline int64_t place_of(const Impl* t, int64_t i) {
  if (t->contiguous || i == 0) return i;
  int64_t place = 0;
  for (int d = t->rank - 1; d >= 0 && i; --d) {
    place += i % t->shape[d] * t->stride[d];
    i /= t->shape[d];
  }
  return place;
}

// The element at an address as a number.
double number_of(DType dtype, const void* element);
int64_t integer_of(DType dtype, const void* element);  // INT64_MIN for what int64 cannot hold

// The view's element `i` as a number. On a device each costs a copy and a wait: what reads many
// fetches the tensor first (backend.h).
double number_on_device(const Impl* t, int64_t i);
int64_t integer_on_device(const Impl* t, int64_t i);
inline double number_at(const Impl* t, int64_t i) {
  if (!t->device.is_cpu()) [[unlikely]]
    return number_on_device(t, i);
  return number_of(t->dtype, t->host() + place_of(t, i) * dtype_size(t->dtype));
}
inline int64_t integer_at(const Impl* t, int64_t i) {
  if (!t->device.is_cpu()) [[unlikely]]
    return integer_on_device(t, i);
  return integer_of(t->dtype, t->host() + place_of(t, i) * dtype_size(t->dtype));
}
inline double number_at(const Tensor& t, int64_t i) { return number_at(t.get(), i); }
inline int64_t integer_at(const Tensor& t, int64_t i) { return integer_at(t.get(), i); }

// The value of a tensor of one element.
template <class T = double>
T item(const Tensor& t) {
  TYCHO_CHECK(Kind::Shape, t.numel() == 1, "a tensor of shape %s is not one number",
              to_string(t.shape()).c_str());
  if constexpr (std::is_same_v<T, bool>)
    return number_at(t, 0) != 0;
  else if constexpr (std::is_same_v<T, int64_t>)
    return integer_at(t, 0);
  else
    return static_cast<T>(number_at(t, 0));
}

// The values of a short list, such as the places to cut at.
template <class T>
std::vector<T> items(const Tensor& t) {
  std::vector<T> values;
  for (int64_t i = 0; i < t.numel(); ++i)
    values.push_back(std::is_same_v<T, int64_t> ? static_cast<T>(integer_at(t, i))
                                                : static_cast<T>(number_at(t, i)));
  return values;
}

// Calls f(x, i) for every element in the view's order; for floating types.
template <class F>
void each_number(const Impl* t, F&& f) {
  const int bytes = dtype_size(t->dtype);
  const char* p = t->host();
  int64_t index[kMaxDims] = {};
  for (int64_t i = 0; i < t->numel; ++i) {
    f(number_of(t->dtype, p), i);
    if (t->contiguous) {
      p += bytes;
      continue;
    }
    for (int d = t->rank - 1; d >= 0; --d) {
      p += t->stride[d] * bytes;
      if (++index[d] < t->shape[d]) break;
      p -= t->stride[d] * t->shape[d] * bytes;
      index[d] = 0;
    }
  }
}

}  // namespace tycho
