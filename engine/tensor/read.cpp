// One element of memory as a number, whatever its type.
#include "engine/tensor/read.h"

#include "engine/tensor/backend.h"
#include "engine/tensor/half.h"

namespace tycho {

double number_of(DType dtype, const void* p) {
  switch (dtype) {
    case DType::Bool:
      return *static_cast<const uint8_t*>(p) != 0;
    case DType::UInt8:
      return *static_cast<const uint8_t*>(p);
    case DType::Int8:
      return *static_cast<const int8_t*>(p);
    case DType::Int16:
      return *static_cast<const int16_t*>(p);
    case DType::Int32:
      return *static_cast<const int32_t*>(p);
    case DType::Int64:
      return static_cast<double>(*static_cast<const int64_t*>(p));
    case DType::Float16:
      return from_float16(*static_cast<const uint16_t*>(p));
    case DType::BFloat16:
      return from_bfloat16(*static_cast<const uint16_t*>(p));
    case DType::Float32:
      return *static_cast<const float*>(p);
    case DType::Float64:
      return *static_cast<const double*>(p);
  }
  return 0;
}

namespace {
// One element, in the host's memory.
struct Element {
  alignas(8) char bytes[8];
  Element(const Impl* t, int64_t i) {
    const int size = dtype_size(t->dtype);
    backend_of(t->device).use(t, false);
    backend_of(t->device).read(t->device, bytes, t->data() + place_of(t, i) * size, size);
  }
};
}  // namespace

double number_on_device(const Impl* t, int64_t i) {
  return number_of(t->dtype, Element(t, i).bytes);
}
int64_t integer_on_device(const Impl* t, int64_t i) {
  return integer_of(t->dtype, Element(t, i).bytes);
}

int64_t integer_of(DType dtype, const void* p) {
  if (dtype == DType::Int64) return *static_cast<const int64_t*>(p);
  const double x = number_of(dtype, p);
  if (!(x > -9.2e18 && x < 9.2e18)) return INT64_MIN;
  return static_cast<int64_t>(x);
}

}  // namespace tycho
