// The kernels of scan.cpp, defined in cpu/.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho::cpu {

// self, dim; in the result's type. From the end when `reverse`.
void cumsum(Call& c, bool reverse);
void cumprod(Call& c);
void logcumsumexp(Call& c, bool reverse);
void cummax(Call& c);  // values and 1-based positions
void cummin(Call& c);
void cumprod_backward(Call& c);  // gradient, self, dim

}  // namespace tycho::cpu
