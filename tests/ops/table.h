// What the table tests share: every op of the op table, its samples, ways to copy a sample's
// tensors into other types, layouts and devices, and comparison with a readable difference.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/ops/table/op.h"
#include "engine/ops/table/samples.h"

namespace tycho {
inline void PrintTo(const Op* op, std::ostream* out) { *out << op->name; }  // for GoogleTest
}  // namespace tycho

namespace tycho::optest {

// The arguments of one call, with everything they point to.
struct Args {
  std::vector<Value> values;
  std::vector<Tensor> tensors;  // all tensors in order, those of lists too
  std::vector<std::unique_ptr<std::vector<Tensor>>> lists;
};
using Map = std::function<Tensor(const Tensor&)>;
Args mapped(const std::vector<Value>& values, const Map& map);

// Calls the op on the arguments, trailing ones defaulted; random numbers begin at one seed.
std::vector<Tensor> call(const Op& op, const Args& args, bool inplace = false);
// The same with `to` as its out=.
void call(const Op& op, const Args& args, const Tensor& to);
// The results, and the gradients of their sum.
std::vector<Tensor> with_gradients(const Op& op, const Args& args);
// The same by the op's composition, for ops that have a kernel too.
std::vector<Tensor> call_composition(const Op& op, const Args& args);

// Copies: row-major, in another floating type, on another device, with another layout.
Tensor copied(const Tensor& t);
Tensor converted(const Tensor& t, DType dtype);
Tensor floating_as(const Tensor& t, DType dtype);  // other types stay
Tensor on_device(const Tensor& t, Device device);
// Views into a larger block: behind an offset, without gaps; row-major with padded rows; every
// second element of each dimension; strides in reversed order with gaps; the same without gaps and
// offset; and no view, but the inner layout of tensor/tensor.h: the channels last, a matrix by columns.
enum class Layout { Offset, Padded, Steps, Reversed, Turned, Inner };
constexpr Layout kViews[] = {Layout::Offset, Layout::Padded, Layout::Steps, Layout::Reversed,
                             Layout::Turned};
const char* layout_name(Layout layout);
// What the block holds beside the view is never to be read: nan, or bytes that no position, class
// or truth value has.
Tensor laid_out(const Tensor& t, Layout layout);
// Whether the block still holds that beside the view.
bool gaps_intact(const Tensor& view);
Tensor stretched(const Tensor& t, int d = 0);  // the first slice of one dimension, all over it

// The same call with every dimension larger by a common factor, as far as `most` elements allow:
// floats in the range of the sample's, other types drawn from the sample's values. The op may
// refuse it (shapes given by numbers do not follow).
Args enlarged(const std::vector<Value>& values, int64_t most);

std::vector<double> doubles(const Tensor& t);
// How the two differ, or "": shapes, and values beyond tolerance * (1 + largest expected value).
// A negative tolerance asks for the same bits. Types are compared when `types`.
std::string difference(const Tensor& got, const Tensor& want, double tolerance, bool types = true);
std::string difference(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                       double tolerance, bool types = true);

std::string describe(const std::vector<Value>& values);  // "(float32 [3, 4], 1, {1, 2})"

// A fixed weight in (0.5, 1.5) for element i of output or input k.
double weight(size_t k, int64_t i);
Tensor weights_like(const Tensor& t, size_t k);

// The op's own samples; rows without any get defaults by their signature.
struct OpSamples {
  explicit OpSamples(const Op& op);
  std::vector<Samples::Item> items;

 private:
  Samples samples_;
};

// Every op, but not PyTorch's second names for one.
std::vector<const Op*> tested_ops();

// Puts back what a test changed of the process: threads, level, autocast, gradient mode, and bounds
// the memory that a test may take.
struct Restore {
  Restore();
  ~Restore();

 private:
  int threads_;
  int level_;
};

// One test per op: TEST_P(OfEveryOp, IsASentence) { for (auto& item : samples()) ... }.
class EveryOp : public testing::TestWithParam<const Op*> {
 protected:
  const Op& op() const { return *GetParam(); }
  // Ops that speak about memory itself, not about values.
  bool reads_memory() const;
  // Ops whose results are memory as it lies.
  bool gives_any_values() const;
  // view refuses what its memory cannot show.
  bool refuses(const Error& e) const {
    return e.kind == Kind::Shape && (op().view || std::string(op().name).starts_with("view"));
  }
  // Ops that only other ops call, with arguments they have checked: not to be given wrong ones.
  bool trusts_its_caller() const { return op().where == kHidden; }
  // Counts a sample that a test cannot run on. What a suite skips is bounded: see
  // TearDownTestSuite.
  static void skip(const std::string& why);
  static void TearDownTestSuite();
  // Runs body(item) for each sample, naming op and sample in what fails.
  void each_sample(const std::function<void(const Samples::Item&)>& body);
  Restore restore_;
};
std::string test_name(const testing::TestParamInfo<const Op*>& info);

#define TYCHO_EVERY_OP(Suite) \
  INSTANTIATE_TEST_SUITE_P(, Suite, testing::ValuesIn(tested_ops()), test_name)

}  // namespace tycho::optest
