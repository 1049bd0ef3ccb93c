// The rows of reduce.def as operations: arguments, shape rule, gradient and samples follow from the
// row; the kernels are made in cpu/reduce/reduce.cpp.
#include <cstring>
#include <deque>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/reduce/reduce.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/flops.h"
#include "engine/ops/table/gradient_text.h"
#include "engine/ops/table/mentions.h"
#include "engine/ops/table/samples.h"

namespace tycho {

DType sum_type(const Tensor& x) { return is_floating(x.dtype()) ? x.dtype() : DType::Int64; }

DType mean_type(const Call& c, const char* name, int dtype_arg) {
  const DType t = c.dtype(dtype_arg, c.tensor(0).dtype());
  if (!is_floating(t))
    fail(Kind::DType,
         format("%s: a mean is of floating point numbers, not of %s", name, dtype_name(t)),
         format("x:float():%s()", name));
  return t;
}

namespace {

// Samples that more is known of than the shapes.
void dims_samples(Samples& s) {
  s.add({s.normal({3, 4})});
  s.add({s.normal({3, 4}), s.ints({0})});
  s.add({s.normal({2, 3, 4}), s.ints({0, 2}), true});
  s.add({s.normal({2, 3, 4}), s.ints({-1})});
  s.add({s.normal({})});
  s.add({s.normal({2, 0}), s.ints({1})});
}
void sum_samples(Samples& s) {
  dims_samples(s);
  s.add({s.integers({3, 4}, -5, 5, DType::Int32), s.ints({1})});
  s.add({s.mask({3, 4})});
}
void prod_samples(Samples& s) {
  dims_samples(s);
  s.add({s.of({2, 3}, {1, 0, 2, 0, 0, 3}), s.ints({1})});
  s.add({s.of({2, 2}, {2, 0, 3, 1})});
  s.add({s.integers({2, 3}, -3, 3), s.ints({0})});
}
void nan_samples(Samples& s) {
  dims_samples(s);
  s.add({s.of({2, 2}, {1, __builtin_nan(""), 3, 4}), s.ints({0})}, false);
}
void extreme_samples(Samples& s) {
  s.add({s.normal({3, 4})});
  s.add({s.normal({3, 4}), s.ints({0})});
  s.add({s.normal({2, 3, 4}), s.ints({0, 2}), true});
  s.add({s.normal({})});
  s.add({s.integers({3, 4}, -9, 9), s.ints({1})});
  s.add({s.of({2, 3}, {1, __builtin_nan(""), 3, 2, 5, -1}), s.ints({1})}, false);
}
void truth_samples(Samples& s) {
  s.add({s.mask({3, 4})});
  s.add({s.mask({3, 4}), s.ints({0})});
  s.add({s.integers({2, 3, 4}, 0, 1), s.ints({0, 2}), true});
  s.add({s.normal({3})});
  s.add({s.mask({0, 2}), s.ints({0})});
}
void count_samples(Samples& s) {
  s.add({s.integers({3, 4}, 0, 2)});
  s.add({s.integers({2, 3, 4}, 0, 2), s.ints({0, 2})});
}

// The last column: what most rows leave out.
struct ReductionMore {
  const char* args = nullptr;  // where they are not the usual ones
  uint8_t where = kFunction | kMethod;
  const char *see = "", *example = "";
  void (*samples)(Samples&) = dims_samples;
};

constexpr bool has_dtype(Result r) { return r == Result::Sum || r == Result::Mean; }

template <Result type>
void shape(Call& c) {
  const Tensor& x = c.tensor(0);
  DType t = x.dtype();
  if (type == Result::Sum) t = c.dtype(3, sum_type(x));
  if (type == Result::Mean) t = mean_type(c, c.op->name, 3);
  if (type == Result::Count) t = DType::Int64;
  if (type == Result::Truth && t != DType::UInt8) t = DType::Bool;
  if (type == Result::Element) check_not_empty(c.op->name, x, dim_bits(c, 1, x.rank()));
  add_reduced(c, 1, c.flag(2), t);
}

double depth_of(const Sizes& shape, uint32_t bits) {
  double n = 1;
  for (int d = 0; d < shape.n; ++d)
    if (bits >> d & 1) n *= static_cast<double>(shape[d]);
  return n;
}

struct None {
  operator Tensor() const { return {}; }
};
[[maybe_unused]] constexpr None none;

#define REDUCTION(name, lanes, value, combine, finish, type, amp, doc, grad, ...)           \
  [[maybe_unused]] void grad_##name(Backward& row) {                                        \
    constexpr bool reads_x = mentions(#grad, 'x'), reads_y = mentions(#grad, 'y');          \
    const Sizes size = row.shape(0);                                                        \
    const uint32_t bits = dims_of(row, 1, size.n);                                          \
    [[maybe_unused]] const double n = depth_of(size, bits);                                 \
    [[maybe_unused]] const Tensor g = unreduce(row.g(), size, bits);                        \
    [[maybe_unused]] const Tensor x = reads_x ? row.in(0) : Tensor();                       \
    [[maybe_unused]] const Tensor y = reads_y ? unreduce(row.out(), size, bits) : Tensor(); \
    const Tensor result = grad;                                                             \
    row.set(0, result.shape() == size ? result : op<"expand">(result, size));               \
  }                                                                                         \
  constexpr ReductionMore more_##name = {__VA_ARGS__};
#include "engine/ops/reduce/reduce.def"

void add(const char* name, Result type, void (*shape)(Call&), Amp amp, const char* doc,
         void (*grad)(Backward&), const char* saves, const ReductionMore& more) {
  Op o{.name = name, .args = more.args, .doc = doc};
  if (!more.args)
    o.args = has_dtype(type) ? "self, dim: dims?, keepdim: bool = false, dtype: dtype?"
                             : "self, dim: dims?, keepdim: bool = false";
  o.where = more.where;
  o.amp = amp;
  o.differentiable = grad != nullptr;
  o.saves = saves;
  o.see = more.see;
  o.rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])";
  o.example = more.example;
  o.shape = shape;
  o.grad = grad;
  o.samples = more.samples;
  if (has_dtype(type)) o.flops = one_per_element;
  add_op(std::move(o), "engine/ops/reduce/reduce.def");
}

consteval const char* saves(const char* grad) {
  const bool x = mentions(grad, 'x'), y = mentions(grad, 'y');
  return x && y ? "self, out" : x ? "self" : y ? "out" : "";
}

const bool added = [] {
  static std::deque<BatchRule> batches;
#define REDUCTION(name, lanes, value, combine, finish, type, amp, doc, grad, ...) \
  add(#name, Result::type, shape<Result::type>, Amp::amp, doc,                    \
      is_word(#grad, "none") ? nullptr : grad_##name, saves(#grad), more_##name); \
  batches.emplace_back(#name, by_dims);
#include "engine/ops/reduce/reduce.def"
  return true;
}();

struct GradientText {
  const char *name, *text;
};

}  // namespace

const char* reduction_gradient(const char* op) {
  static constexpr GradientText texts[] = {
#define REDUCTION(name, lanes, value, combine, finish, type, amp, doc, grad, ...) {#name, #grad},
#include "engine/ops/reduce/reduce.def"
  };
  for (const GradientText& t : texts)
    if (!std::strcmp(t.name, op)) return t.text;
  return nullptr;
}

}  // namespace tycho
