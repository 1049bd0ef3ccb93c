// The module as it travels in the program.
#include "engine/base/module.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace tycho {
namespace {

TEST(CudaModule, OpensAndSaysThatThereIsNoDriverWhereThereIsNone) {
  if (!has_module("cuda")) GTEST_SKIP() << "built without the CUDA toolkit";
  std::string why;
  const auto start = reinterpret_cast<int (*)(std::string*)>(
      module_symbol("cuda", "tycho_cuda_start", &why));
  ASSERT_NE(start, nullptr) << why;
  if (dlopen("libcuda.so.1", RTLD_NOW)) GTEST_SKIP() << "this machine has a driver";
  EXPECT_EQ(start(&why), 0);
  EXPECT_NE(why.find("no NVIDIA driver"), std::string::npos) << why;
}

}  // namespace
}  // namespace tycho
