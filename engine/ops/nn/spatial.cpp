// Arguments of convolution and pooling (see spatial.h).
#include "engine/ops/nn/spatial.h"

namespace tycho {

Sizes spread(const char* op, const char* name, const Sizes& given, int spatial, int64_t least,
             Kind kind) {
  TYCHO_CHECK(Kind::Argument, given.n == 1 || given.n == spatial,
              "%s: %s takes one number or %d, not %d", op, name, spatial, given.n);
  Sizes out;
  for (int d = 0; d < spatial; ++d) {
    const int64_t x = given[given.n == 1 ? 0 : d];
    TYCHO_CHECK(kind, x >= least && x < (int64_t{1} << 30), "%s: %s must be %s, not %lld", op, name,
                least ? "at least 1" : "at least 0", static_cast<long long>(x));
    out.push_back(x);
  }
  return out;
}

Sizes repeated(int spatial, int64_t x) {
  Sizes out;
  for (int d = 0; d < spatial; ++d) out.push_back(x);
  return out;
}

void check_images(const char* op, const Tensor& x, int spatial, const char* flat) {
  if (x.rank() == spatial + 2 || x.rank() == spatial + 1) return;
  fail(Kind::Shape,
       format("%s: the input must have %d dimensions (batch, channels, %d spatial) or %d "
              "(without batch), not shape %s",
              op, spatial + 2, spatial, spatial + 1, to_string(x.shape()).c_str()),
       x.rank() == spatial ? flat : "");
}

Images with_batch(const Tensor& x, int spatial) {
  if (x.rank() == spatial + 2) return {x, false};
  Sizes shape = x.shape();
  shape.insert(0, 1);
  return {op<"reshape">(x, shape), true};
}

Tensor Images::back(const Tensor& y) const {
  if (!single) return y;
  Sizes shape = y.shape();
  shape.erase(0);
  return op<"reshape">(y, shape);
}

const Op& add_spatial(const char* name, const char* args, const char* doc, const Help& help,
                      Amp amp, void (*compose)(Call&), void (*samples)(Samples&)) {
  return add_op({.name = name,
                 .args = args,
                 .doc = doc,
                 .where = kFunction | kFunctional,
                 .amp = amp,
                 .see = help.see,
                 .rule = help.rule,
                 .example = help.example,
                 .compose = compose,
                 .samples = samples});
}

}  // namespace tycho
