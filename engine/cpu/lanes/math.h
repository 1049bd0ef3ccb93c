// Elementwise functions on lanes, with PyTorch's names and special values: the header that rows and
// kernels include.
#pragma once
#include "engine/cpu/lanes/math_basic.h"
#include "engine/cpu/lanes/math_bessel.h"
#include "engine/cpu/lanes/math_erf.h"
#include "engine/cpu/lanes/math_exp.h"
#include "engine/cpu/lanes/math_int.h"
#include "engine/cpu/lanes/math_rare.h"
#include "engine/cpu/lanes/math_trig.h"
