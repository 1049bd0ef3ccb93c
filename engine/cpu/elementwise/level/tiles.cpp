// Conversion between memory and tiles, by dtype.
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/lanes/convert.h"
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Small integers whose numbers the lane's type has, and numbers that fit.
template <class T>
void load_narrow(int dtype, void* tile, const void* from, int64_t stride, int64_t n) {
  T* t = static_cast<T*>(tile);
  switch (static_cast<DType>(dtype)) {
    case DType::Bool:
      return load_strided<T, Bool>(t, from, stride, n);
    case DType::UInt8:
      return load_strided<T, uint8_t>(t, from, stride, n);
    case DType::Int8:
      return load_strided<T, int8_t>(t, from, stride, n);
    case DType::Int16:
      return load_strided<T, int16_t>(t, from, stride, n);
    case DType::Int32:
      return load_strided<T, int32_t>(t, from, stride, n);
    default:
      return load_strided<T, int64_t>(t, from, stride, n);
  }
}

template <class F>
TYCHO_INLINE void each_row(char* to, int64_t to_step, const char* from, int64_t from_step,
                           int64_t rows, F f) {
  for (int64_t r = 0; r < rows; r++, to += to_step, from += from_step) f(to, from);
}
template <class T>
void load_each(typename Conversions<T>::Load load, char* to, int64_t to_step, const char* from,
               int64_t from_step, int64_t rows, int64_t n) {
  each_row(to, to_step, from, from_step, rows,
           [&](char* t, const char* f) { load(reinterpret_cast<T*>(t), f, 1, n); });
}
template <class T>
void store_each(typename Conversions<T>::Store store, char* to, int64_t to_step, const char* from,
                int64_t from_step, int64_t rows, int64_t n) {
  each_row(to, to_step, from, from_step, rows,
           [&](char* t, const char* f) { store(t, reinterpret_cast<const T*>(f), 1, n); });
}

// Elements that vectors put side by side first.
void load_beside(int lanes, int dtype, void* tile, const void* from, int64_t stride, int64_t n) {
  constexpr int64_t kPart = 256;
  alignas(64) char raw[kPart * 8];
  const DType lane_type = lane_type_of(static_cast<Lanes>(lanes));
  const int size = dtype_size(static_cast<DType>(dtype)), lane_size = dtype_size(lane_type);
  char* t = static_cast<char*>(tile);
  const char* f = static_cast<const char*>(from);
  if (static_cast<DType>(dtype) == lane_type) return copy_plane(size, t, n, 1, f, 0, stride, 1, n);
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t m = n - i < kPart ? n - i : kPart;
    copy_plane(size, raw, m, 1, f + i * stride * size, 0, stride, 1, m);
    load_tile(lanes, dtype, t + i * lane_size, raw, 1, m);
  }
}

}  // namespace

void load_tile(int lanes, int dtype, void* tile, const void* from, int64_t stride, int64_t n) {
  if ((stride == 2 || stride == -1) && n >= 16)
    return load_beside(lanes, dtype, tile, from, stride, n);
  switch (static_cast<Lanes>(lanes)) {
    case Lanes::F32:
      return load_f32[dtype](static_cast<float*>(tile), from, stride, n);
    case Lanes::F64:
      return load_f64[dtype](static_cast<double*>(tile), from, stride, n);
    case Lanes::I64:
      return load_i64[dtype](static_cast<int64_t*>(tile), from, stride, n);
    case Lanes::Truth:
    case Lanes::U8:
      return load_narrow<uint8_t>(dtype, tile, from, stride, n);
    case Lanes::I8:
      return load_narrow<int8_t>(dtype, tile, from, stride, n);
    case Lanes::I16:
      return load_narrow<int16_t>(dtype, tile, from, stride, n);
    case Lanes::I32:
      return load_narrow<int32_t>(dtype, tile, from, stride, n);
    case Lanes::BF16:
    case Lanes::F16:  // bits, of the lanes' own type
      return load_narrow<int16_t>(static_cast<int>(DType::Int16), tile, from, stride, n);
  }
}

void store_tile(int lanes, int dtype, void* to, const void* tile, int64_t stride, int64_t n) {
  switch (static_cast<Lanes>(lanes)) {
    case Lanes::F32:
      return store_f32[dtype](to, static_cast<const float*>(tile), stride, n);
    case Lanes::F64:
      return store_f64[dtype](to, static_cast<const double*>(tile), stride, n);
    case Lanes::I64:
      return store_i64[dtype](to, static_cast<const int64_t*>(tile), stride, n);
    case Lanes::I32:
      return store_i32[dtype](to, static_cast<const int32_t*>(tile), stride, n);
    default:  // as they are
      return copy_strided(dtype_size(lane_type_of(static_cast<Lanes>(lanes))),
                          static_cast<char*>(to), stride, static_cast<const char*>(tile), 1, n);
  }
}

void load_rows(int lanes, int dtype, char* to, int64_t to_step, const char* from, int64_t from_step,
               int64_t rows, int64_t n) {
  switch (static_cast<Lanes>(lanes)) {
    case Lanes::F32:
      return load_each<float>(load_f32[dtype], to, to_step, from, from_step, rows, n);
    case Lanes::F64:
      return load_each<double>(load_f64[dtype], to, to_step, from, from_step, rows, n);
    case Lanes::I64:
      return load_each<int64_t>(load_i64[dtype], to, to_step, from, from_step, rows, n);
    default:
      each_row(to, to_step, from, from_step, rows,
               [&](char* t, const char* f) { load_tile(lanes, dtype, t, f, 1, n); });
  }
}

void store_rows(int lanes, int dtype, char* to, int64_t to_step, const char* from,
                int64_t from_step, int64_t rows, int64_t n) {
  switch (static_cast<Lanes>(lanes)) {
    case Lanes::F32:
      return store_each<float>(store_f32[dtype], to, to_step, from, from_step, rows, n);
    case Lanes::F64:
      return store_each<double>(store_f64[dtype], to, to_step, from, from_step, rows, n);
    case Lanes::I64:
      return store_each<int64_t>(store_i64[dtype], to, to_step, from, from_step, rows, n);
    case Lanes::I32:
      return store_each<int32_t>(store_i32[dtype], to, to_step, from, from_step, rows, n);
    default:
      each_row(to, to_step, from, from_step, rows,
               [&](char* t, const char* f) { store_tile(lanes, dtype, t, f, 1, n); });
  }
}

void ramp_f64(double* to, double start, double step, double first, double by, int64_t n) {
  using V = F64::V;
  double positions[F64::size];
  for (int j = 0; j < F64::size; j++) positions[j] = first + by * j;
  V at = F64::load(positions).v;
  const V more = F64(by * F64::size).v, steps = F64(step).v, from = F64(start).v;
  const auto next = [&] {
    V x = at * steps;
    asm("" : "+v"(x));  // or it would be part of a fused multiplication at some levels
    at += more;
    return x + from;
  };
  int64_t i = 0;
  for (; i + F64::size <= n; i += F64::size) {
    const V x = next();
    memcpy(to + i, &x, sizeof x);
  }
  const V x = next();
  memcpy(to + i, &x, static_cast<size_t>(n - i) * sizeof(double));
}

void ramp_i64(int64_t* to, int64_t start, int64_t step, int64_t n) {
  using V = Raw<int64_t>::Bits;
  const uint64_t from = static_cast<uint64_t>(start), by = static_cast<uint64_t>(step);
  uint64_t numbers[I64::size];
  for (uint64_t j = 0; j < I64::size; j++) numbers[j] = from + by * j;
  V at;
  memcpy(&at, numbers, sizeof at);
  const V more = V{} + by * I64::size;
  int64_t i = 0;
  for (; i + I64::size <= n; i += I64::size, at += more) memcpy(to + i, &at, sizeof at);
  const V last = at;
  memcpy(to + i, &last, static_cast<size_t>(n - i) * sizeof(int64_t));
}

}  // namespace tycho::cpu::TYCHO_LEVEL
