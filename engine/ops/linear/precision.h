// How exact products of float32 have to be (torch.set_float32_matmul_precision): devices whose
// libraries have faster products of fewer bits ask this, and CPUs with tiles of bfloat16; other CPUs
// are exact in each case.
#pragma once
#include <atomic>
#include <cstdint>

namespace tycho {

// Highest: all 24 bits; High: TF32, 11 bits, or two numbers of bfloat16, 16; Medium: bfloat16, 8 bits. Sums are float32 in each.
enum class MatmulPrecision : uint8_t { Highest, High, Medium };
extern constinit std::atomic<MatmulPrecision> matmul_precision;

}  // namespace tycho
