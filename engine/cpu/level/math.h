// Elementwise functions on lanes, with PyTorch's names and special values: the header that rows and
// kernels include.
#pragma once
#include "engine/cpu/level/math_basic.h"
#include "engine/cpu/level/math_erf.h"
#include "engine/cpu/level/math_exp.h"
#include "engine/cpu/level/math_int.h"
#include "engine/cpu/level/math_rare.h"
#include "engine/cpu/level/math_trig.h"
