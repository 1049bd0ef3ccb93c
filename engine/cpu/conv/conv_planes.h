// The gradient of an input of few channels under steps, from a result of many (a transposed convolution
// that ends in an image or a line): one product reads the result's gradient as it lies, once, and gives a plane of
// sums for each tap, which fold adds up.
#pragma once
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {

// Of `convolution_input`; false where its shape is not one for that.
bool conv_planes_input(Call& c);

}  // namespace tycho::cpu
