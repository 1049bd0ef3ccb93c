// Autocast: inside torch.autocast(device, {dtype=...}), apply casts the floating inputs of an op by
// the op's class (Amp in ops/table/op.h): `Low` ops to the region's type, `F32` ops to float32,
// `Widest` ops to the widest of their inputs. Casts of leaves (weights) are kept until the region
// ends.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho::amp {

struct Region {
  bool cpu = false, cuda = false;
  DType cpu_dtype = DType::BFloat16, cuda_dtype = DType::Float16;
  bool cache = true;
};
Region current();
void set(const Region& r);  // also tells apply (mode.autocast); drops kept casts when all is off
void clear_cache();
void cast(Call& c);

}  // namespace tycho::amp
