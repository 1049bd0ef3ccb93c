// The search for NVIDIA's libraries and driver, on fakes (tests/cuda/fakes): what is found where, and
// what is said of the rest.
#include "engine/cuda/libraries.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/check.h"
#include "engine/cuda/doctor.h"
#include "engine/cuda/driver.h"
#include "engine/cuda/start.h"
#include "engine/tensor/backend.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho::cuda {
namespace {

namespace fs = std::filesystem;

struct CudaLibraries : testing::Test {
  std::string home = fs::temp_directory_path() / ("tycho_libraries_" + std::to_string(getpid()));

  CudaLibraries() { fs::create_directories(home); }
  ~CudaLibraries() override { fs::remove_all(home); }

  void put(const std::string& path) {
    fs::create_directories(fs::path(home + "/" + path).parent_path());
    fs::copy_file(TYCHO_FAKE_VERSIONS, home + "/" + path);
  }
  FoundLibrary found(LibraryId id, const char* version) {
    setenv("FAKE_VERSION", version, 1);
    return find_library(id, {home});
  }
};

TEST_F(CudaLibraries, AreFoundInToolkitsAndPythonEnvironments) {
  put("lib64/libnvrtc.so.12");
  const FoundLibrary nvrtc = found(LibraryId::Nvrtc, "12.4");
  EXPECT_NE(nvrtc.handle, nullptr) << nvrtc.why;
  EXPECT_EQ(nvrtc.version, "12.4");
  EXPECT_EQ(nvrtc.path, home + "/lib64/libnvrtc.so.12");
  put("lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
  EXPECT_EQ(found(LibraryId::Cudnn, "9.19").version, "9.19");
  put("nvidia/nccl/lib/libnccl.so.2");
  EXPECT_EQ(found(LibraryId::Nccl, "2.28").version, "2.28");
}

TEST_F(CudaLibraries, SayWhatIsMissingTooOldOrDamagedAndWhatToInstall) {
  FoundLibrary cudnn = found(LibraryId::Cudnn, "8.9");
  EXPECT_EQ(cudnn.why, "cuDNN is not on this machine (libcudnn.so.9)");
  EXPECT_NE(cudnn.install.find("pip install nvidia-cudnn-cu13"), std::string::npos);
  put("libcudnn.so.9");
  cudnn = found(LibraryId::Cudnn, "8.9");
  EXPECT_EQ(cudnn.handle, nullptr);
  EXPECT_EQ(cudnn.why, "cuDNN 8.9 is too old (" + home + "/libcudnn.so.9): 9.0 or newer is needed");
  std::ofstream(home + "/libnccl.so.2") << "this is no library";
  const FoundLibrary nccl = found(LibraryId::Nccl, "2.28");
  EXPECT_EQ(nccl.handle, nullptr);
  EXPECT_NE(nccl.why.find("NCCL cannot be loaded: " + home + "/libnccl.so.2"), std::string::npos)
      << nccl.why;
}

TEST_F(CudaLibraries, ATooOldOneIsPassedOverForANewerOneElsewhere) {
  put("old/libnvrtc.so.13");
  fs::create_directories(home + "/new");
  fs::copy_file(TYCHO_FAKE_NVRTC, home + "/new/libnvrtc.so.12");
  setenv("FAKE_VERSION", "11.8", 1);
  EXPECT_EQ(find_library(LibraryId::Nvrtc, {home + "/old"}).handle, nullptr);
  setenv("FAKE_NVRTC_VERSION", "12.1", 1);
  const FoundLibrary nvrtc = find_library(LibraryId::Nvrtc, {home + "/old", home + "/new"});
  EXPECT_EQ(nvrtc.path, home + "/new/libnvrtc.so.12") << nvrtc.why;
  EXPECT_EQ(nvrtc.version, "12.1");
}

TEST_F(CudaLibraries, OneThatIsCutOffIsToldAndNeverOpened) {
  for (const uintmax_t bytes : {0, 3, 16, 63, 64, 100, 500, 4096, 9000, 12000}) {
    put("libnvrtc.so.13");
    const std::string path = home + "/libnvrtc.so.13";
    fs::resize_file(path, std::min(bytes, fs::file_size(path) - 1));
    const FoundLibrary nvrtc = found(LibraryId::Nvrtc, "13.0");
    if (nvrtc.handle) continue;  // what was cut off is read by nobody
    EXPECT_NE(nvrtc.why.find("NVRTC cannot be loaded: " + path), std::string::npos) << nvrtc.why;
    fs::remove(path);
  }
  fs::create_directories(home + "/libnvrtc.so.13");
  EXPECT_EQ(found(LibraryId::Nvrtc, "13.0").handle, nullptr);
}

TEST_F(CudaLibraries, AnOlderDriverGetsLibrariesOfItsOwnCuda) {
  struct Before {
    Before() { driver_cuda = 12040; }
    ~Before() { driver_cuda = 0; }
  } before;
  fs::create_directories(home + "/lib");
  fs::copy_file(TYCHO_FAKE_NVRTC, home + "/lib/libnvrtc.so.13");
  setenv("FAKE_NVRTC_VERSION", "13.0", 1);
  FoundLibrary nvrtc = found(LibraryId::Nvrtc, "13.0");
  EXPECT_EQ(nvrtc.handle, nullptr);
  EXPECT_EQ(nvrtc.why, "NVRTC 13.0 is too new for the driver, which is for CUDA 12.4 (" + home +
                           "/lib/libnvrtc.so.13)");
  EXPECT_NE(nvrtc.install.find("pip install nvidia-cuda-nvrtc-cu12,"), std::string::npos);
  EXPECT_NE(found(LibraryId::Cudnn, "9.1").install.find("nvidia-cudnn-cu12,"), std::string::npos);
  put("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  unsetenv("FAKE_NVRTC_VERSION");
  EXPECT_EQ(found(LibraryId::Nvrtc, "12.9").path, home + "/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
}

TEST_F(CudaLibraries, ADriverThatIsMissingTooOldOrLacksFunctionsIsToldInASentence) {
  Driver d;
  std::string why;
  EXPECT_FALSE(fill_driver(d, "libno_such_driver.so.1", &why));
  EXPECT_EQ(why, "there is no NVIDIA driver on this machine (libno_such_driver.so.1)");
  put("libcuda.so.1");
  const std::string path = home + "/libcuda.so.1";
  setenv("FAKE_VERSION", "11.4", 1);
  EXPECT_FALSE(fill_driver(d, path.c_str(), &why));
  EXPECT_EQ(why,
            "the NVIDIA driver is too old: it is for CUDA 11.4, and CUDA 12.0 or newer is needed; "
            "install a driver of version 525 or newer");
  setenv("FAKE_VERSION", "12.4", 1);
  toolkit_version = 13020;
  EXPECT_FALSE(fill_driver(d, path.c_str(), &why));
  EXPECT_NE(why.find("and CUDA 13.0 or newer is needed; install a driver of version 580"),
            std::string::npos)
      << why;
  toolkit_version = 0;
  EXPECT_FALSE(fill_driver(d, path.c_str(), &why));
  EXPECT_EQ(why, "the NVIDIA driver (for CUDA 12.4) has no cuInit: install a newer one");
  for (const double part : {0.1, 0.4, 0.6}) {
    const std::string cut = home + "/cut_off.so";
    fs::copy_file(TYCHO_FAKE_VERSIONS, cut, fs::copy_options::overwrite_existing);
    fs::resize_file(cut, static_cast<uintmax_t>(part * static_cast<double>(fs::file_size(cut))));
    EXPECT_FALSE(fill_driver(d, cut.c_str(), &why));
    EXPECT_EQ(why, "the NVIDIA driver cannot be loaded: " + cut + " is cut off; install it anew");
  }
  std::ofstream(home + "/damaged.so") << "this is no library";
  EXPECT_FALSE(fill_driver(d, (home + "/damaged.so").c_str(), &why));
  EXPECT_NE(why.find("the NVIDIA driver cannot be loaded: "), std::string::npos) << why;
}

TEST_F(CudaLibraries, TheToolkitsStubHasEveryFunctionOfTheTable) {
  const std::string stub = TYCHO_CUDA_STUB;
  if (stub.empty() || !fs::exists(stub)) GTEST_SKIP() << "there is no CUDA toolkit";
  Driver d;
  std::string why;
  EXPECT_FALSE(fill_driver(d, stub.c_str(), &why));  // it stands for a driver at link time only
  EXPECT_EQ(why.find(" has no "), std::string::npos) << why;
#define TYCHO_CALL(here, there, parameters) EXPECT_NE(d.here, nullptr) << #there;
  TYCHO_CUDA_DRIVER(TYCHO_CALL)
#undef TYCHO_CALL
}

TEST_F(CudaLibraries, AGpuThatIsTooOldIsRefusedAndTheOthersWork) {
  emulated::Options options;
  options.devices = 4;
  options.old_device = 3;
  emulated::start(options);
  cuda::start();
  try {
    empty({2}, DType::Float32, Device{3});
    FAIL() << "an old GPU was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Kind::Device);
    EXPECT_EQ(
        e.text,
        "cuda:3 is too old: it has compute capability 6.1, and 7.5 (Turing) or newer is needed");
    EXPECT_EQ(e.hint.find("device = \"cuda:0\""), 0) << e.hint;
  }
  EXPECT_EQ(empty({2}, DType::Float32, Device{0}).numel(), 2);
  options.devices = 1;
  options.old_device = 0;
  emulated::start(options);
  EXPECT_EQ(cuda::start(), 0);  // programs go on with the CPU
}

TEST_F(CudaLibraries, TheDoctorHasARowForEachAndSaysWhatToDo) {
  setenv("XDG_CACHE_HOME", home.c_str(), 1);
  const std::vector<DoctorRow> rows = examine();
  std::string names;
  for (const DoctorRow& row : rows) {
    names += row.name + " ";
    EXPECT_FALSE(row.found.empty()) << row.name;
    const bool missing = row.found.find("is not on this machine") != std::string::npos;
    EXPECT_TRUE(!missing || !row.mend.empty()) << row.name;
  }
  for (const char* name : {"driver", "NVRTC", "cuBLASLt", "cuDNN", "cuSOLVER", "NCCL", "cache"})
    EXPECT_NE(names.find(name), std::string::npos) << names;
  EXPECT_EQ(rows.back().found, home + "/tycho, 0 kernels, 0.0 MB");
  EXPECT_EQ(names.find("CUDA home"), std::string::npos);
  setenv("TYCHO_CUDA_HOME", (home + "/nowhere").c_str(), 1);
  const DoctorRow row = examine().end()[-2];
  EXPECT_EQ(row.name, "CUDA home");
  EXPECT_EQ(row.found, home + "/nowhere (TYCHO_CUDA_HOME): No such file or directory");
  EXPECT_FALSE(row.mend.empty());
  unsetenv("TYCHO_CUDA_HOME");
}

}  // namespace
}  // namespace tycho::cuda
