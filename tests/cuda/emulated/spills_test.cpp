// What ptxas said when the kernels were compiled: none spills registers or keeps a stack.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

namespace {

TEST(CudaKernelFiles, NoneSpillsRegistersOrKeepsAStack) {
  const std::regex wrong("([1-9][0-9]* bytes stack frame|[1-9][0-9]* bytes spill)");
  int kernels = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(TYCHO_FATBINS, none)) {
    if (entry.path().extension() != ".txt") continue;
    std::ifstream file(entry.path());
    std::string kernel;
    for (std::string line; std::getline(file, line);) {
      if (line.find("Compiling entry function") != std::string::npos) {
        kernel = line;
        ++kernels;
      }
      EXPECT_FALSE(std::regex_search(line, wrong)) << kernel << ": " << line;
    }
  }
  if (kernels == 0) GTEST_SKIP() << "built without the CUDA toolkit";
  EXPECT_GT(kernels, 50);
}

}  // namespace
