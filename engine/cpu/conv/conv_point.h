// Convolutions of a single tap: every pixel's channels times a matrix. Images are read as they lie,
// whatever their layout; nothing is turned or copied first.
#pragma once
#include "engine/cpu/conv/conv.h"
#include "engine/tensor/tensor.h"

namespace tycho::cpu {

// Whether results are sums over the channels of one pixel each.
bool single_tap(const Convolution& c);
// False where pixels are not equally far from each other.
bool pixels_of(const Tensor& x, Pixels* p);
// `p` is of so many images, of which the window may have made more: of their planes, `plane` pixels
// each. Brings the two together.
void match_images(Convolution* c, int64_t images, int64_t plane, Pixels* p);
// Whether a product that reads `from` is better than turning the images first.
bool single_tap_product_pays(const Convolution& c, const Pixels& from);
// The result from the input, or with `back` the input's gradient from the result's. `to` lies with
// channels last; `w_out` and `w_in` are the weight's steps.
void single_tap_product(const Convolution& c, bool back, const Pixels& from, const void* w,
                        int64_t w_out, int64_t w_in, const void* bias, void* to);

// The gradient of the weight of few channels of the result, from planes of pixels: y is [images, out_channels, pixels],
// w [out_channels, channels].
bool single_tap_weight_pays(const Convolution& c, const Pixels& x);
void single_tap_weight(const Convolution& c, const void* y, const Pixels& x, void* w);

}  // namespace tycho::cpu
