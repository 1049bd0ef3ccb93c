// What the normalisations share: checks, and gradients in plain operations.
#pragma once
#include "engine/grad/node.h"

namespace tycho::norms {

DType wide(DType t);  // what statistics are kept in
void check_floating(const Tensor& x, const char* name);
void check_samples(const Tensor& x, const char* name);
// Raises unless `t`, where it is given, has one number for each channel.
void check_channels(const Tensor& t, const char* op_name, const char* name, int64_t channels);

// A forward pass: y, and the mean and 1 / deviation of what is normalised. A backward pass: the
// gradients of input, weight and bias. The two are kept in the type that is computed in.
void result_and_two(Call& c, const Tensor& result, const Sizes& each);

// y = (x - mean) * rstd * w + b with statistics over the dims `dims` of x seen in a shape where w
// is [.., 1, ..]: the gradients of x, w and b.
struct Plain {
  Sizes shape, weight, dims;  // of the view
  double eps;
  bool centred;
  Tensor x, w, b;

  Plain(const Tensor& self, const Tensor& g, const Tensor& gain, const Sizes& shape,
        const Sizes& weight, const Sizes& dims, double eps, bool centred, const Sizes& w_shape);
};
void set(Backward& b, const Plain& p, int weight, int bias);
void set(Backward& b, const SmallVec<Tensor, 2>& grads, int weight, int bias);

Tensor constant(const Tensor& t);  // a saved result, without its graph

}  // namespace tycho::norms
