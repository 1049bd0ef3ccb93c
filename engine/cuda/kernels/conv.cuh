// A convolution's shape and memory, as the host hands them to conv.cu and to cuDNN. Images have their
// channels side by side, [images, in.., channels]; weights are [channels of the result, kernel.., in].
#pragma once
#include <stdint.h>

namespace tycho::cuda {

struct ConvAxis {
  int64_t in, out, kernel, stride, dilation, front, back;  // front and back: padding
};

// Three spatial axes; those that are not there are in front and have size 1.
struct ConvShape {
  int64_t images, groups, in, out;  // `in` and `out`: the channels of one group
  ConvAxis axis[3];
};

struct ConvCall {
  ConvShape shape;
  void *x, *w, *y;
  void* made;     // windows, or parts of a sum
  int32_t dtype;  // of x, w and y
  // Windows [first, first + count) of the result's rows, which are images x positions; or parts.
  int64_t first, count;
};

}  // namespace tycho::cuda
