// What convolution and pooling have in common: inputs [batch, channels, spatial ..] in one to three
// spatial dimensions, with or without the batch; arguments that hold one number or one for each.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

// Strides, paddings and the like: one number counts for every spatial dimension.
Sizes spread(const char* op, const char* name, const Sizes& given, int spatial, int64_t least,
             Kind kind = Kind::Value);
// The same number for every spatial dimension.
Sizes repeated(int spatial, int64_t x);

// The input with a batch; a single image gets a batch of one.
struct Images {
  Tensor x;
  bool single;
  Tensor back(const Tensor& y) const;  // the result, without that batch
};
// Raises Kind::Shape unless x is one of both; with one dimension too few, the hint is `flat`.
void check_images(const char* op, const Tensor& x, int spatial, const char* flat = "");
Images with_batch(const Tensor& x, int spatial);

// One public operation of a family in one, two and three dimensions.
struct Help {
  const char *see, *rule, *example;
};
const Op& add_spatial(const char* name, const char* args, const char* doc, const Help& help,
                      Amp amp, void (*compose)(Call&), void (*samples)(Samples&));

}  // namespace tycho
