// The machine's own driver in the place of the emulated one: the same tests on a GPU, with the kernels
// that nvcc compiled. tests/cuda/run_all builds and runs this.
#include "tests/cuda/emulated/driver.h"

#include <cstdio>
#include <cstdlib>

#include "engine/base/module.h"
#include "engine/cuda/nccl.h"
#include "engine/ops/nn/conv.h"
#include "engine/tensor/device.h"
#include "tests/cuda/emulated/nccl_on_cpu.h"

namespace tycho::cuda {

TYCHO_MODULE_EXPORT int tycho_cuda_start(std::string* why);  // engine/cuda/module

namespace emulated {

const bool kReal = true;

void start(const Options&) {
  static const bool started = [] {
    convolution_settings.allow_tf32 = false;  // results are compared with the CPU's
    std::string why;
    if (tycho_cuda_start(&why) > 0) return true;
    std::fprintf(stderr, "there is no GPU to use: %s\n", why.c_str());
    std::exit(77);
  }();
  (void)started;
}

Held held() { return {}; }
const Nccl& nccl_on_cpu() { return nccl_library(); }
int nccl_comms() { return 0; }
std::atomic<int> programs_run{0};

}  // namespace emulated
}  // namespace tycho::cuda
