// The size of the processor's last cache, by which kernels know what it cannot hold.
#pragma once
#include <cstdint>

namespace tycho::cpu {

// Bytes of the last cache that a core reaches, which others may share; 32 MB where the processor does
// not say, and between 16 and 128 MB: virtual machines may hide all but the second cache, or show one
// that many share.
int64_t last_cache();

// Whether what is computed is stored past the caches as quickly as into them. On AMD's processors it is
// not: results of 8 to 80 MB took up to half as long again (Zen 4), other than copies and zeros.
bool stores_pass_quickly();

// Are results so large that they go past the caches? They do where a step's inputs and results, and the
// results before, which loops still hold, are together more than the last cache: nothing would be found
// in it again, and what is to be written would be read first. Where less passes than two tensors in
// and one out, the copy that this takes costs more than it saves. `inputs`: whole ones, not those that
// repeat.
bool passes_caches(int64_t bytes, int64_t inputs, int64_t results);

}  // namespace tycho::cpu
