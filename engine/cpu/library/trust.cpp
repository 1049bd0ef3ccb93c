// The table of what oneDNN is not trusted with, the limit of its instruction sets, and where LAPACK
// comes from.
#include "engine/cpu/library/trust.h"

#include <dnnl.h>
#include <strings.h>

#include <cstdlib>
#include <string>

#include "engine/base/check.h"

namespace tycho::cpu {
namespace {

// --- Versions ---
// The bug-fix releases of 2.6 share their kernels; 2.6.3 (Debian 12) is what the tests ran on.
// Other versions have other kernels: run the tests in guard mode before adding one here.
constexpr int kMajor = 2, kMinor = 6;

// --- Instruction sets ---
// Our own kernels are better below AVX-512. With AMX, 2.6.3 gave wrong numbers and invalid accesses
// in bfloat16 convolutions of few output channels and strides (x [1, 112, 88, 154], w [1, 112, 3,
// 5], stride 4; x [1, 40, 47, 69], w [2, 40, 2, 5], stride 4); with avx512_core_bf16 they are
// right.
constexpr int kLeast = dnnl_cpu_isa_avx512_core, kMost = dnnl_cpu_isa_avx512_core_bf16;

struct Instructions {
  int value;
  const char* name;
};
constexpr Instructions kInstructions[] = {
    // rising; for reports
    {dnnl_cpu_isa_avx512_core, "avx512_core"},
    {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
    {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
    {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
};

// --- Shapes ---
struct Refusal {
  Primitive primitive;
  const char* why;
  bool (*shape)(const Asked&);
};

bool single_taps(const Window& w) {
  return w.kernel[0] == 1 && w.kernel[1] == 1 && w.kernel[2] == 1;
}
bool strided(const Window& w) { return w.stride[0] != 1 || w.stride[1] != 1 || w.stride[2] != 1; }

// A tap that lies on the image for no position of the window.
bool some_tap_sees_nothing(const Window& w) {
  for (int d = 0; d < 3; ++d)
    for (int64_t k = 0; k < w.kernel[d]; ++k) {
      bool sees = false;
      for (int64_t o = 0; o < w.out[d] && !sees; ++o) {
        const int64_t at = o * w.stride[d] - w.pad[d] + k * w.dilation[d];
        sees = at >= 0 && at < w.in[d];
      }
      if (!sees) return true;
    }
  return false;
}

const Refusal kRefusals[] = {
    // jit_bf16_1x1 sums over pairs of the result's channels: with an odd number of them, of long
    // images some gradients have the size of the largest and nothing to do with what they should be.
    {Primitive::ConvolutionInput, "its sums over an odd number of bfloat16 channels are wrong",
     [](const Asked& a) {
       return a.dtype == DType::BFloat16 && single_taps(*a.window) && a.out_channels % 2 != 0;
     }},
    // jit_avx512_common_1x1_convolution.cpp and its AVX2 sister: single taps with strides are
    // gathered into a workspace of pixels * channels numbers per thread, but the pixels' places in
    // it are counted in blocks of channels (`rtus_space + sp * jcp.ic_block`), 16 or 8 wide.
    {Primitive::ConvolutionWeight, "its workspace for strided single taps is too small",
     [](const Asked& a) {
       return single_taps(*a.window) && strided(*a.window) && a.window->channels < 16;
     }},
    // jit_avx512_core_bf16_conv_kernel.cpp, compute_oh_step_common: behind a block of
    // channels that is not full, the step to the next row of a dilated kernel is added twice.
    {Primitive::ConvolutionWeight, "its steps between rows of a dilated kernel are wrong",
     [](const Asked& a) {
       return a.dtype == DType::BFloat16 && a.window->dilation[1] > 1 &&
              a.window->channels / a.groups % 16 != 0;
     }},
    // compute_od_loop_common in the same file, and the same walk in jit_avx512_common_conv_kernel.cpp:
    // from a window that begins in the padding in front it steps to one that ends behind the last
    // plane as if all of its taps still lay inside.
    {Primitive::ConvolutionWeight, "it leaves volumes whose windows reach over both ends",
     [](const Asked& a) {
       const Window& w = *a.window;
       const int64_t reach = (w.kernel[0] - 1) * w.dilation[0] + 1;
       return w.pad[0] > 0 && (w.stride[0] > 1 || reach > w.in[0]);
     }},
    // Again the same file: gradients of such taps stay as the memory was, instead of zero.
    {Primitive::ConvolutionWeight, "it does not write the gradient of taps that see no pixel",
     [](const Asked& a) { return some_tap_sees_nothing(*a.window); }},
};

// ----

// A lower limit that the user set stays; what oneDNN does not know, it ignores.
bool user_limit_is_lower() {
  const char* wanted = nullptr;
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (wanted == nullptr || *wanted == '\0') wanted = std::getenv(name);
  if (wanted == nullptr) return false;
  for (const char* lower :
       {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_BF16"})
    if (strcasecmp(wanted, lower) == 0) return true;
  return false;
}

const char* why_not_at_all() {
  if (!user_limit_is_lower() &&
      dnnl_set_max_cpu_isa(static_cast<dnnl_cpu_isa_t>(kMost)) != dnnl_success)
    return "its instruction sets cannot be limited any more";
  const dnnl_version_t* const v = dnnl_version();
  if (v->major != kMajor || v->minor != kMinor) return "this version was not tested";
  const int isa = dnnl_get_effective_cpu_isa();
  if ((isa & kLeast) != kLeast || (isa & ~kMost) != 0) return "its instruction set is not trusted";
  return nullptr;
}

}  // namespace

const char* why_not_onednn(const Asked& a) {
  static const char* const at_all = why_not_at_all();
  if (at_all != nullptr) return at_all;
  for (const Refusal& r : kRefusals)
    if (r.primitive == a.primitive && r.shape(a)) return r.why;
  return nullptr;
}

const char* onednn_in_use() {
  static const std::string text = [] {
    const char* const no = why_not_onednn({Primitive::Product, DType::BFloat16});
    const dnnl_version_t* const v = dnnl_version();
    const int isa = dnnl_get_effective_cpu_isa();
    const char* name = "less than avx512_core";
    for (const auto& [value, known] : kInstructions)
      if ((isa & value) == value) name = known;
    return format("oneDNN %d.%d.%d with %s%s%s", v->major, v->minor, v->patch, name,
                  no ? ", not used: " : "", no ? no : "");
  }();
  return text.c_str();
}

// Any version: the interface is decades old, and the random tests (with OpenBLAS 0.3.21) found no
// fault. OpenBLAS brings a LAPACK of its own; the reference one comes with whatever BLAS there is.
const char* const kLapackLibraries[] = {"libopenblas.so.0", "liblapack.so.3", nullptr};

}  // namespace tycho::cpu
