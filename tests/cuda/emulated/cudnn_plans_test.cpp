// Plans of the real cuDNN, where it is found, for GPUs that are described in tests/cuda/devices: the
// library's heuristics and finished plans need neither a GPU nor a driver. Every convolution of the op
// table's samples and of the other tests is asked for, and some of a size that networks have.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/cuda/conv_plans.h"
#include "engine/cuda/libraries.h"
#include "engine/cuda/start.h"
#include "engine/tensor/dtype.h"
#include "tests/cuda/emulated/cudnn.h"
#include "tests/cuda/emulated/driver.h"
#include "tests/ops/table.h"

namespace tycho::cuda {
namespace {

constexpr size_t kAnyWorkspace = size_t{1} << 40;

// The real library in the place of the fake one.
class CudaDnnPlans : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "no plans were tried: a sanitizer would tell of what the library leaves behind";
#endif
    // Engines of newer versions are linked to the driver; the toolkit's stub will do.
    if (!dlopen("libcuda.so.1", RTLD_NOW)) dlopen(TYCHO_CUDA_STUB, RTLD_NOW);
    std::string why;
    static Cudnn real;
    if (!fill_cudnn(real, &why)) GTEST_SKIP() << "no plans were tried: " << why;
    set_cudnn(&real);
    try {
      Descriptor(dnn::kDevice);
    } catch (const Refused&) {
      GTEST_SKIP() << "no plans were tried: cuDNN " << library(LibraryId::Cudnn).version
                   << " takes no description of a GPU, 9.8 does";
    }
  }
  void TearDown() override { set_cudnn(&emulated::fake_cudnn); }

  static Descriptor described(const std::string& name) {
    std::ifstream file(std::string(TYCHO_CUDA_DEVICES) + "/" + name + ".json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    Descriptor device(dnn::kDevice);
    device.set(dnn::kDeviceJson, dnn::kOfChar, static_cast<int64_t>(text.size()), text.data())
        .finish();
    return device;
  }
};

std::string text_of(const ConvQuestion& q) {
  constexpr const char* kKinds[] = {"forward", "input", "weight"};
  const ConvShape& s = q.shape;
  std::ostringstream text;
  text << kKinds[q.kind] << " " << dtype_name(static_cast<DType>(q.type)) << " images " << s.images
       << " groups " << s.groups << " in " << s.in << " out " << s.out;
  for (const ConvAxis& a : s.axis)
    text << " [" << a.in << " -> " << a.out << ": kernel " << a.kernel << " stride " << a.stride
         << " dilation " << a.dilation << " padding " << a.front << " " << a.back << "]";
  return text.str();
}

ConvAxis axis(int64_t in, int64_t kernel, int64_t stride, int64_t pad) {
  return {in, (in + 2 * pad - kernel) / stride + 1, kernel, stride, 1, pad, pad};
}
constexpr ConvAxis kNoAxis{1, 1, 1, 1, 1, 0, 0};

const std::pair<const char*, ConvShape> kOfNetworks[] = {
    {"3x3 of 256 channels", {32, 1, 256, 256, {kNoAxis, axis(28, 3, 1, 1), axis(28, 3, 1, 1)}}},
    {"7x7 of a photograph", {32, 1, 3, 64, {kNoAxis, axis(224, 7, 2, 3), axis(224, 7, 2, 3)}}},
    {"1x1", {32, 1, 512, 128, {kNoAxis, axis(28, 1, 1, 0), axis(28, 1, 1, 0)}}},
    {"depthwise", {32, 128, 1, 1, {kNoAxis, axis(56, 3, 1, 1), axis(56, 3, 1, 1)}}},
    {"32 groups", {32, 32, 8, 8, {kNoAxis, axis(28, 3, 2, 1), axis(28, 3, 2, 1)}}},
    {"a signal", {16, 1, 64, 64, {kNoAxis, kNoAxis, axis(16000, 9, 4, 4)}}},
    {"volumes", {4, 1, 32, 64, {axis(16, 3, 1, 1), axis(32, 3, 1, 1), axis(32, 3, 1, 1)}}},
};
constexpr ConvKind kKinds[] = {ConvKind::Forward, ConvKind::Input, ConvKind::Weight};

TEST_F(CudaDnnPlans, ExistForConvolutionsOfNetworksOnEveryKindOfGpu) {
  for (const char* gpu : {"sm_75", "sm_80", "sm_90", "sm_100"}) {
    const Descriptor device = described(gpu);
    for (const auto& [name, shape] : kOfNetworks)
      for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16}) {
        if (type == DType::BFloat16 && std::string(gpu) == "sm_75") continue;
        // The library compiles kernels for these: a second for each.
        if (shape.in == 1 && type != DType::Float32 && std::string(gpu) != "sm_90") continue;
        for (const ConvKind kind : kKinds)
          for (const bool tf32 : {true, false}) {
            if (!tf32 && type != DType::Float32) continue;
            const ConvQuestion q{static_cast<int64_t>(kind),
                                 static_cast<int64_t>(type),
                                 tf32,
                                 !tf32,
                                 {16, 16, 16, 0},
                                 shape};
            EXPECT_EQ(plans_of(q, {nullptr, &device}, 1, size_t{1} << 30).size(), 1u)
                << gpu << ": " << name << ", " << text_of(q);
          }
      }
  }
}

TEST_F(CudaDnnPlans, AddABiasInTheConvolutionsOwnPass) {
  for (const char* gpu : {"sm_75", "sm_80", "sm_90", "sm_100"}) {
    const Descriptor device = described(gpu);
    for (const auto& [name, shape] : kOfNetworks)
      for (const DType type : {DType::Float16, DType::BFloat16, DType::Float32}) {
        if (type == DType::BFloat16 && std::string(gpu) == "sm_75") continue;
        const ConvQuestion q{0, static_cast<int64_t>(type), true, false, {16, 16, 16, 16}, shape};
        EXPECT_EQ(plans_of(q, {nullptr, &device}, 1, size_t{1} << 30).size(), 1u)
            << gpu << ": " << name << ", " << text_of(q);
      }
  }
}

TEST_F(CudaDnnPlans, TakeAddressesWithAndWithoutAWorkspace) {
  for (const uintptr_t workspace : {0, 4096}) {
    void* const addresses[] = {reinterpret_cast<void*>(256), reinterpret_cast<void*>(512),
                               reinterpret_cast<void*>(768)};
    const int64_t uids[] = {kUidX, kUidW, kUidY};
    Descriptor pack(dnn::kPack);
    pack.set(dnn::kPackUids, dnn::kOfInt64, 3, uids);
    pack.set(dnn::kPackPointers, dnn::kOfPointer, 3, addresses);
    pack.set_pointer(dnn::kPackWorkspace, dnn::kOfPointer, reinterpret_cast<void*>(workspace));
    EXPECT_NO_THROW(pack.finish());
  }
}

TEST_F(CudaDnnPlans, ExistForEveryConvolutionThatTheTestsAskedFor) {
  set_cudnn(&emulated::fake_cudnn);
  emulated::start();
  start();
  for (const Op* op : optest::tested_ops()) {
    if (std::string_view(op->name).substr(0, 4) != "conv") continue;
    const optest::OpSamples samples(*op);
    for (const auto& item : samples.items)
      for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64})
        optest::with_gradients(*op, optest::mapped(item.args, [&](const Tensor& t) {
          return optest::on_device(optest::floating_as(t, type), Device{0});
        }));
  }
  SetUp();
  const std::vector<ConvQuestion> questions = questions_asked();
  EXPECT_GT(questions.size(), 50u);
  const Descriptor device = described("sm_90");
  for (const ConvQuestion& q : questions)
    if (!q.aligned[3]) {  // a bias is added afterwards where it has to be
      EXPECT_FALSE(plans_of(q, {nullptr, &device}, 1, kAnyWorkspace).empty()) << text_of(q);
    }
}

}  // namespace
}  // namespace tycho::cuda
