// Asking the processor for its caches (see cache.h).
#include "engine/cpu/cache.h"

#include <cpuid.h>

#include <algorithm>

#include "engine/base/parallel.h"

namespace tycho::cpu {
namespace {

// Intel's leaf 4 and AMD's 0x8000001D describe the caches in one format, the last one last. (What sysconf
// says is the sum over all cores of some processors.)
int64_t described(unsigned leaf) {
  int64_t bytes = 0;
  unsigned a, b, c, d;
  for (unsigned i = 0; i < 8 && __get_cpuid_count(leaf, i, &a, &b, &c, &d) && (a & 31); ++i) {
    const int64_t ways = (b >> 22) + 1, parts = (b >> 12 & 1023) + 1, line = (b & 4095) + 1;
    bytes = ways * parts * line * (int64_t{c} + 1);
  }
  return bytes;
}

}  // namespace

int64_t last_cache() {
  static const int64_t bytes = [] {
    // A virtual machine shows the whole of a cache that it shares: of 260 MB, 128 could be had.
    const int64_t shown = std::max(described(4), described(0x8000001D));
    constexpr int64_t kLeast = int64_t{16} << 20, kMost = int64_t{128} << 20;
    return shown ? std::clamp(shown, kLeast, kMost) : 2 * kLeast;
  }();
  return bytes;
}

bool fills_pass_quickly() {
  static const bool quickly = !__builtin_cpu_is("amd");
  return quickly;
}

bool copies_strings_quickly() {
  static const bool quickly = [] {
    unsigned a, b, c, d;
    return __builtin_cpu_is("amd") && __get_cpuid(1, &a, &b, &c, &d) &&
           (a >> 8 & 15) + (a >> 20 & 255) >= 26;  // the family
  }();
  return quickly;
}

bool passes_caches(int64_t bytes, int64_t inputs, int64_t results) {
  const int64_t held = get_num_threads() > 1 ? 3 * last_cache() : last_cache();
  return inputs + results > 1 && bytes * (inputs + 2 * results) > held;
}

}  // namespace tycho::cpu
