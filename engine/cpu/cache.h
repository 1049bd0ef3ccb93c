// The size of the processor's last cache, by which kernels know what it cannot hold.
#pragma once
#include <xmmintrin.h>

#include <cstdint>

namespace tycho::cpu {

// Bytes of the last cache that a core reaches, which others may share; 32 MB where the processor does
// not say, and between 16 and 128 MB: virtual machines may hide all but the second cache, or show one
// that many share.
int64_t last_cache();

// Whether one value, other than 0, is stored past the caches as quickly as into them: on AMD's processors
// it is not.
bool fills_pass_quickly();

// Whether the processor's own instruction for copying strings of bytes (rep movsb) is the quickest way for long
// ones: on AMD's Zen 5 it takes lines without reading them first, and is a fifth quicker from the second cache on.
// On the ones before it is twenty times slower where both sides lie at nearly the same place within a page.
bool copies_strings_quickly();

// Stores past the caches may be seen later than those that follow. Called where others are going to read
// what was written, and not after each piece: on AMD's processors it takes a quarter of a microsecond.
inline void end_stream() { _mm_sfence(); }
// Bytes of memory that are stored together: rows that do not begin and end with lines pass no caches.
constexpr int64_t kLine = 64;

// Are results so large that they go past the caches? They do where a step's inputs and results, and the
// results before, which loops still hold, are together more than the last cache: nothing would be found
// in it again, and what is to be written would be read first. What reads no whole tensor does not pass:
// memory takes it no quicker so. `inputs`: whole ones, not those that repeat. Cores that share a cache
// write to memory no quicker together than one of them does, and to the cache they do: with threads,
// results pass from three times the size on (Zen 4).
bool passes_caches(int64_t bytes, int64_t inputs, int64_t results);

}  // namespace tycho::cpu
