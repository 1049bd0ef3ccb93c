// Conversion between memory and tiles, by dtype.
#include "engine/cpu/level/convert.h"
#include "engine/cpu/rows.h"

namespace tycho::cpu::TYCHO_LEVEL {

void load_tile(int lanes, int dtype, void* tile, const void* from, int64_t stride, int64_t n) {
  switch (static_cast<Lanes>(lanes)) {
    case Lanes::F32:
      return load_f32[dtype](static_cast<float*>(tile), from, stride, n);
    case Lanes::F64:
      return load_f64[dtype](static_cast<double*>(tile), from, stride, n);
    case Lanes::I64:
      return load_i64[dtype](static_cast<int64_t*>(tile), from, stride, n);
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
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
