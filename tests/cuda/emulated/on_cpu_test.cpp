// Operations that a device has no kernel for: the CPU's runs on copies. There is none today, so that
// kernels are taken away here.
#include <gtest/gtest.h>

#include "engine/cuda/start.h"
#include "engine/ops/table/op.h"
#include "engine/tensor/read.h"
#include "engine/watch/notes.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho {
namespace {

struct WithoutKernel {
  explicit WithoutKernel(const char* op)
      : slot(const_cast<Op*>(find_op(op))->kernel[static_cast<int>(BackendKind::Cuda)]),
        before(slot) {
    slot = nullptr;
  }
  ~WithoutKernel() { slot = before; }
  Kernel& slot;
  const Kernel before;
};

TEST(CudaOnCpu, OperationsWithoutAKernelGiveTheCpusResultsOnTheDevice) {
  cuda::emulated::start();
  cuda::start();
  const Device d{0};
  const WithoutKernel tril("tril"), nonzero("nonzero"), sort("sort");
  const Tensor host = tensor_of({2, 3}, {3, 1, 2, -4, 5, 0}), x = sent(host, d);
  const Tensor lower = op<"tril">(x), expected = op<"tril">(host);
  EXPECT_EQ(lower.device(), d);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(number_at(lower, i), number_at(expected, i));
  const Tensor places = op<"nonzero">(x);  // its size depends on the values
  EXPECT_EQ(places.device(), d);
  EXPECT_EQ(places.size(0), 5);
  const auto sorted = ops<"sort">(x, 1, false);
  const auto sorted_there = ops<"sort">(host, 1, false);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(number_at(sorted[0], i), number_at(sorted_there[0], i));
    EXPECT_EQ(integer_at(sorted[1], i), integer_at(sorted_there[1], i));
  }
}

TEST(CudaOnCpu, ANoteIsOfferedWithTheOperationsName) {
  cuda::emulated::start();
  cuda::start();
  static std::vector<std::string> said;
  said.clear();
  watch::show_note = [](const char* code, const char*, Where,
                        std::initializer_list<watch::NoteValue> values) {
    said.push_back(std::string(code) + " " + values.begin()->value);
  };
  const Tensor x = sent(tensor_of({2, 2}, {3, 1, 2, -4}), Device{0});
  op<"add">(x, x, 1.0);      // a row
  op<"transpose">(x, 0, 1);  // a view
  EXPECT_TRUE(said.empty());
  const WithoutKernel poisson("poisson");
  op<"poisson">(op<"abs">(x));
  EXPECT_EQ(said, std::vector<std::string>{"DEV poisson"});
  watch::show_note = nullptr;
}

}  // namespace
}  // namespace tycho
