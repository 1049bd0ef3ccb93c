// ctc_loss on a device where the sample does not go: sequences of different lengths, repeated labels,
// none at all, such as have no way, and labels that are no class.
#include "tests/cuda/emulated/same.h"

namespace tycho {
namespace {

constexpr int64_t kSteps = 9, kClasses = 5;

Tensor log_probs(int64_t n, DType t) {
  return op<"log_softmax">(op<"mul">(mixed_numbers({kSteps, n, kClasses}, t), 3.0), 2);
}
Tensor numbers(const Sizes& shape, std::initializer_list<int64_t> values) {
  const Tensor t = empty(shape, DType::Int64);
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  return t;
}

TEST(CudaCtc, SequencesOfAnyLengthsGiveTheCpusLossesAndGradients) {
  // Repeats, no labels, more labels than steps, no steps, no steps and no labels, the blank itself.
  const Tensor lengths = numbers({6}, {4, 0, 5, 2, 0, 3}), steps = numbers({6}, {9, 7, 4, 0, 0, 8});
  const Tensor lines = numbers({6, 5}, {2, 2, 3, 2, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 2,
                                        2, 4, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 5, 1, 1});
  const Tensor joined = numbers({14}, {2, 2, 3, 2, 2, 3, 4, 5, 2, 2, 4, 2, 1, 5});
  for (const DType t : {DType::Float32, DType::Float64})
    for (const bool zero_infinity : {false, true})
      for (const Tensor& targets : {lines, joined})
        same_made(
            [&](Device d) {
              const auto there = [&](const Tensor& x) { return d.is_cpu() ? x : sent(x, d); };
              const auto y = ops<"_ctc">(there(log_probs(6, t)), there(targets), there(steps),
                                         there(lengths), 0, zero_infinity);
              return std::vector<Tensor>{y[0], y[1]};
            },
            t == DType::Float32 ? 1e-5 : 1e-12);
}

TEST(CudaCtc, ALabelThatIsNoClassIsNamed) {
  cuda::emulated::start();
  cuda::start();
  const Device d{0};
  try {
    ops<"_ctc">(sent(log_probs(2, DType::Float32), d), sent(numbers({2, 2}, {2, 3, 4, 6}), d),
                sent(numbers({2}, {9, 9}), d), sent(numbers({2}, {2, 2}), d), 0, false);
    FAIL() << "nothing was raised";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Kind::Index);
    EXPECT_EQ(e.text, "ctc_loss: label 2 of sequence 2 is 6; classes go from 1 to 5");
  }
}

}  // namespace
}  // namespace tycho
