// Every elementwise row is compiled by NVRTC, CUDA's compiler at run time, which needs no GPU: the
// scalar level of the lanes is all that it gets, and no headers of its own.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace {

// What the test needs of NVRTC's interface.
struct Nvrtc {
  void* library = nullptr;
  int (*create)(void** program, const char* source, const char* name, int headers,
                const char* const* texts, const char* const* names) = nullptr;
  int (*compile)(void* program, int options, const char* const* option) = nullptr;
  int (*log_size)(void* program, size_t* size) = nullptr;
  int (*log)(void* program, char* text) = nullptr;
  int (*ptx_size)(void* program, size_t* size) = nullptr;
  int (*ptx)(void* program, char* text) = nullptr;
  int (*destroy)(void** program) = nullptr;

  Nvrtc() {
    for (const char* folder : {"", "/usr/local/cuda/lib64/"})
      for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12"})
        if (!library) library = dlopen((std::string(folder) + file).c_str(), RTLD_NOW);
    if (!library) return;
    find(create, "nvrtcCreateProgram");
    find(compile, "nvrtcCompileProgram");
    find(log_size, "nvrtcGetProgramLogSize");
    find(log, "nvrtcGetProgramLog");
    find(ptx_size, "nvrtcGetPTXSize");
    find(ptx, "nvrtcGetPTX");
    find(destroy, "nvrtcDestroyProgram");
  }
  template <class F>
  void find(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
  }
};

constexpr const char* kSource = R"(
#define TYCHO_LEVEL scalar
#define TYCHO_LEVEL_scalar 1
#include "engine/cpu/elementwise/level/row_values.h"

namespace tycho::cpu::scalar {
namespace {

template <class T>
T stored(Lane<T> x) {
  return x.v;
}
template <class T>
bool stored(Mask<T> x) {
  return x.m;
}
template <class Value, LevelType type, class T>
void run(const T* a, const T* b, const T* c, const T* d, T* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  using L = Lane<T>;
  if constexpr (L::integral ? has_ints(type) : has_floats(type))
    y[i] = stored(Value::value(L(a[i]), L(b[i]), L(c[i]), L(d[i])));
}

}  // namespace

#define KERNEL(lanes, T, name, type)                                                              \
  extern "C" __global__ void lanes##_##name(const T* a, const T* b, const T* c, const T* d, T* y) { \
    run<Value_##name, LevelType::type>(a, b, c, d, y);                                            \
  }
#define ROW(name, operands, args, type, ...) \
  KERNEL(f32, float, name, type) KERNEL(f64, double, name, type) KERNEL(i64, int64_t, name, type)
#include "engine/ops/elementwise/elementwise.def"

}  // namespace tycho::cpu::scalar
)";

// The rows whose float lanes compute in double on the CPU too.
const std::set<std::string> kThroughDouble = {
    "pow",           "hypot",         "erfc", "erfinv", "lgamma",
    "digamma",       "polygamma_row", "i0",   "i1",     "standard_gamma_grad",
    "dirichlet_grad"};

TEST(CudaRows, AreAllCompiledByNvrtcWithFloatsInFloat) {
  const Nvrtc rtc;
  if (!rtc.library) GTEST_SKIP() << "there is no NVRTC (libnvrtc.so.13 or .12) on this machine";
  void* program = nullptr;
  ASSERT_EQ(rtc.create(&program, kSource, "rows.cu", 0, nullptr, nullptr), 0);
  const char* options[] = {"--std=c++20", "--gpu-architecture=compute_80", "--fmad=false",
                           "-default-device", "-I" TYCHO_SOURCE_DIR};
  const int status = rtc.compile(program, std::size(options), options);
  size_t size = 0;
  rtc.log_size(program, &size);
  std::string log(size, '\0');
  rtc.log(program, log.data());
  ASSERT_EQ(status, 0) << log;

  rtc.ptx_size(program, &size);
  std::string ptx(size, '\0');
  rtc.ptx(program, ptx.data());
  rtc.destroy(&program);
  const std::string begin = ".visible .entry ";
  std::vector<size_t> entries;
  for (size_t at = 0; (at = ptx.find(begin, at)) != std::string::npos; at += begin.size())
    entries.push_back(at);
  EXPECT_GT(entries.size(), 300u);
  entries.push_back(ptx.size());
  for (size_t k = 0; k + 1 < entries.size(); ++k) {
    const std::string body = ptx.substr(entries[k], entries[k + 1] - entries[k]);
    const std::string name = body.substr(begin.size(), body.find('(') - begin.size());
    if (name.starts_with("f32_") && !kThroughDouble.contains(name.substr(4))) {
      EXPECT_EQ(body.find(".f64"), std::string::npos) << name << " computes in double";
    }
  }
}

}  // namespace
