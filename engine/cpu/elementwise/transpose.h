// Matrices copied transposed, in small tiles that stay in registers and full cache lines.
#pragma once
#include "engine/cpu/level.h"

// to[j * rows + i] = from[i * cols + j], for `count` matrices one behind the other. `size` is 4 or
// 8 bytes an element.
TYCHO_LEVELS(void, transpose,
             (int size, int64_t count, int64_t rows, int64_t cols, const void* from, void* to))
