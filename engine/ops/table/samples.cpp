// Sample inputs with fixed pseudo-random values, independent of the user's generator.
#include "engine/ops/table/samples.h"

#include <cmath>

#include "engine/ops/table/apply.h"

namespace tycho {

double Samples::next() {  // splitmix64, in (0, 1)
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (static_cast<double>((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

Impl* Samples::make(const Sizes& shape, DType dtype, double (*value)(Samples&, double, double),
                    double lo, double hi) {
  std::vector<double> values(static_cast<size_t>(product(shape)));
  for (double& x : values) x = value(*this, lo, hi);
  Tensor cast = empty(shape, dtype);
  copy_raw(cast, tensor_of(shape, values));
  tensors_.push_back(cast);
  return cast.get();
}

Impl* Samples::normal(const Sizes& shape, DType dtype) {
  return make(
      shape, dtype,
      [](Samples& s, double, double) {
        return std::sqrt(-2 * std::log(s.next())) * std::cos(2 * M_PI * s.next());
      },
      0, 1);
}

Impl* Samples::uniform(const Sizes& shape, double lo, double hi, DType dtype) {
  return make(
      shape, dtype, [](Samples& s, double a, double b) { return a + (b - a) * s.next(); }, lo, hi);
}

Impl* Samples::integers(const Sizes& shape, int64_t lo, int64_t hi, DType dtype) {
  return make(
      shape, dtype,
      [](Samples& s, double a, double b) { return a + std::floor((b - a + 1) * s.next()); },
      static_cast<double>(lo), static_cast<double>(hi));
}

Impl* Samples::mask(const Sizes& shape) { return integers(shape, 0, 1, DType::Bool); }

Impl* Samples::of(const Sizes& shape, const std::vector<double>& values, DType dtype) {
  std::vector<double> all(static_cast<size_t>(product(shape)));
  for (size_t i = 0; i < all.size(); ++i) all[i] = values[i % values.size()];
  Tensor cast = empty(shape, dtype);
  copy_raw(cast, tensor_of(shape, all));
  tensors_.push_back(cast);
  return cast.get();
}

Value Samples::list(const std::vector<Impl*>& tensors) {
  auto v = std::make_unique<std::vector<Tensor>>();
  for (Impl* t : tensors) v->push_back(Tensor(t));
  lists_.push_back(std::move(v));
  return Value(*lists_.back());
}

Value Samples::ints(const std::vector<int64_t>& values) {
  ints_.push_back(std::make_unique<std::vector<int64_t>>(values));
  return Value(*ints_.back());
}

}  // namespace tycho
