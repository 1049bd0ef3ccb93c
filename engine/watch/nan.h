// Where a nan comes from: the first operation that made a nan or an infinity from finite numbers,
// in the forward pass or in the backward pass.
#pragma once
#include "engine/watch/values.h"

namespace tycho::watch {

struct NanSource {
  enum Place { Nowhere, Operation, Data, Parameter, Gradient, Unknown } place = Nowhere;
  std::string op;  // the operation (of Data and Parameter: the one that reads it)
  Where where;
  bool infinite = false;  // it made an infinity, and
  std::string then;       // "sub at train.lua:9" made a nan of it
  std::string element;    // "element [2]: input -1"
};

bool all_finite(const Tensor& t);

// In the forward pass. Nowhere when the result is finite; Unknown when the graph does not tell.
NanSource find_nan(const Tensor& root);
// In the gradients of a graph that was not freed.
NanSource find_nan_gradient(const Tensor& root);

}  // namespace tycho::watch
