// Samples: the inputs an op declares for the table tests (values, gradients, layouts, devices).
#pragma once
#include <vector>

#include "engine/ops/table/op.h"

namespace tycho {

// Owns what its values point to.
struct Samples {
  struct Item {
    std::vector<Value> args;
    bool differentiable = true;  // check gradients by finite differences at this input
  };
  std::vector<Item> items;

  void add(std::vector<Value> args, bool differentiable = true) {
    items.push_back({std::move(args), differentiable});
  }
  // Tensors with fixed pseudo-random values: normal, in (lo, hi), or integers in [lo, hi].
  Impl* normal(const Sizes& shape, DType dtype = DType::Float32);
  Impl* uniform(const Sizes& shape, double lo, double hi, DType dtype = DType::Float32);
  Impl* integers(const Sizes& shape, int64_t lo, int64_t hi, DType dtype = DType::Int64);
  Impl* mask(const Sizes& shape);
  Impl* of(const Sizes& shape, const std::vector<double>& values, DType dtype = DType::Float32);
  Value list(const std::vector<Impl*>& tensors);  // a list of tensors
  Value ints(const std::vector<int64_t>& values);

 private:
  std::vector<Tensor> tensors_;
  std::vector<std::unique_ptr<std::vector<Tensor>>> lists_;
  std::vector<std::unique_ptr<std::vector<int64_t>>> ints_;
  uint64_t state_ = 42;
  double next();
  Impl* make(const Sizes& shape, DType dtype, double (*value)(Samples&, double, double), double lo,
             double hi);
};

}  // namespace tycho
