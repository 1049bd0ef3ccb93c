// Which of cuDNN's ways a convolution takes: by a script's settings, once for each kind, another one
// where the first cannot run.
#include "tests/cuda/emulated/cudnn.h"

#include <gtest/gtest.h>

#include "engine/cuda/conv.h"
#include "engine/cuda/start.h"
#include "engine/ops/nn/conv.h"
#include "engine/ops/table/op.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho::cuda {
namespace {

using emulated::cudnn_state;

class CudaDnn : public testing::Test {
 protected:
  CudaDnn() {
    emulated::start();
    start();
    cudnn_state = {};
  }
  ~CudaDnn() override {
    cudnn_state = {};
    convolution_settings.benchmark = convolution_settings.deterministic = false;
    convolution_settings.allow_tf32 = convolution_settings.enabled = true;
    convolution_settings.benchmark_limit = 10;
  }
  // Images of a size that no other test asks for: its plan is not known yet.
  static void convolve(int64_t size, DType type = DType::Float32) {
    const Device d{0};
    const Tensor x = filled({1, 2, size, size}, 2, type, d), w = filled({3, 2, 2, 2}, 1, type, d);
    const Tensor y =
        op<"convolution">(x, w, Value(), Sizes{1, 1}, Sizes{0, 0, 0, 0}, Sizes{1, 1}, 1);
    EXPECT_EQ(number_at(y, 3), 16);
  }
};

TEST_F(CudaDnn, APlanIsMadeOnceForEachKindOfConvolution) {
  convolve(21);
  EXPECT_EQ(cudnn_state.graphs, 1);
  for (int i = 0; i < 3; ++i) convolve(21);
  EXPECT_EQ(cudnn_state.graphs, 1);
  EXPECT_EQ(cudnn_state.runs, 4);
  convolve(22);
  convolve(21, DType::BFloat16);
  EXPECT_EQ(cudnn_state.graphs, 3);
}

TEST_F(CudaDnn, SettingsSayWhichEnginesMayCompute) {
  convolve(23);
  EXPECT_EQ(cudnn_state.engine, emulated::kOnTensorCores);
  convolution_settings.allow_tf32 = false;
  convolve(23);
  EXPECT_EQ(cudnn_state.engine, emulated::kByAtomics);
  convolve(23, DType::Float16);  // tensor cores lose nothing of these
  EXPECT_EQ(cudnn_state.engine, emulated::kOnTensorCores);
  convolution_settings.deterministic = true;
  convolve(23);
  EXPECT_EQ(cudnn_state.engine, emulated::kPlain);
  const int before = cudnn_state.runs;
  convolution_settings.enabled = false;
  convolve(23);
  EXPECT_EQ(cudnn_state.runs, before);
}

TEST_F(CudaDnn, AnEngineOfTheFallbackComputesWhereNoOtherIsNamed) {
  cudnn_state.refuses_mode_a = true;
  convolve(24);
  EXPECT_EQ(cudnn_state.engine, emulated::kLast);
}

TEST_F(CudaDnn, AWayThatCannotRunIsLeftToOwnKernels) {
  cudnn_state.fails_to_run = true;
  convolve(25);
  convolve(25);
  EXPECT_EQ(cudnn_state.runs, 0);
  EXPECT_EQ(cudnn_state.graphs, 1);
}

TEST_F(CudaDnn, ABiasIsAddedInTheSamePassWhereThereIsAWayAndAfterItElse) {
  const Device d{0};
  const auto with_bias = [&](int64_t size, DType type) {
    const Tensor x = filled({2, 2, size, size}, 2, type, d), w = filled({3, 2, 2, 2}, 1, type, d);
    const Tensor bias = op<"arange">(3, type, d);
    const Tensor y = op<"convolution">(x, w, bias, Sizes{1, 1}, Sizes{0, 0, 0, 0}, Sizes{1, 1}, 1);
    for (int64_t k = 0; k < 3; ++k)
      EXPECT_EQ(number_at(op<"select">(op<"select">(y, 0, 1), 0, k), 5),
                16 + static_cast<double>(k));
  };
  for (const DType type : {DType::Float16, DType::BFloat16, DType::Float32}) {
    const int before = cudnn_state.added;
    with_bias(29, type);
    with_bias(29, type);
    EXPECT_EQ(cudnn_state.added, before + 2) << dtype_name(type);
  }
  const int added = cudnn_state.added;
  with_bias(29, DType::Float64);
  cudnn_state.adds_no_bias = true;
  with_bias(30, DType::BFloat16);
  with_bias(30, DType::BFloat16);
  EXPECT_EQ(cudnn_state.added, added);
}

TEST_F(CudaDnn, ABenchmarkRunsAllThatAreAllowedAndKeepsOne) {
  convolution_settings.benchmark = true;
  cudnn_state.fails_to_run = true;
  convolve(26);
  EXPECT_EQ(cudnn_state.engine, emulated::kLast);  // the only one that ran
  EXPECT_EQ(cudnn_state.runs, 5);                  // a first time, three in time, and the result
  cudnn_state.fails_to_run = false;
  convolve(27);
  EXPECT_EQ(cudnn_state.runs, 5 + 4 * 4 + 1);
  convolve(27);
  EXPECT_EQ(cudnn_state.runs, 5 + 4 * 4 + 2);
  EXPECT_EQ(cudnn_state.graphs, 2);
}

TEST_F(CudaDnn, ABenchmarkTimesNoMoreThanItsLimit) {
  convolution_settings.benchmark = true;
  convolution_settings.benchmark_limit = 2;
  convolve(29);
  EXPECT_EQ(cudnn_state.runs, 2 * 4 + 1);
  convolution_settings.benchmark_limit = 0;  // all
  convolve(29);
  EXPECT_EQ(cudnn_state.runs, 2 * 4 + 1 + 4 * 4 + 1);
}

TEST_F(CudaDnn, WorkGoesToTheStreamInUse) {
  const Device d{0};
  Backend& gpu = backend_of(d);
  const StreamId other = gpu.new_stream(d);
  set_current_stream(d, other);
  convolve(28);
  set_current_stream(d, 0);
  convolve(28);
  gpu.release_stream(d, other);
  EXPECT_EQ(cudnn_state.runs, 2);
}

}  // namespace
}  // namespace tycho::cuda
