// Attention of bfloat16 as products by tiles (engine/cpu/matmul/tiles.h): nothing is widened, weights
// are rounded to bfloat16 before they meet the values, all sums are in float32 (as PyTorch).
#pragma once
#include "engine/tensor/tensor.h"

namespace tycho {
struct Call;
}

namespace tycho::cpu {

struct AttentionInputs;

bool attention_tiles_pay(const Tensor& query, const Tensor& key, const Tensor& value);
void attention_tiles(const AttentionInputs& in, const Tensor& out, const Tensor& lse);
void attention_tiles_backward(const AttentionInputs& in, const Call& c);

}  // namespace tycho::cpu
