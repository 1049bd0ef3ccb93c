// Attention on a device, of heads at any strides: 16-bit ones go to tensor cores, where there are
// some that take them, all others to plain multiplications (kernels/attention.cu).
#include "engine/cuda/kernels/attention.cuh"

#include <algorithm>
#include <cmath>

#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/random/random.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

struct Kind {
  DType memory;  // what lies in packs of so many elements
  int64_t pack;
  int64_t wide;  // columns that a block sums up
  const char *forward, *query, *key;
};
constexpr Kind kKinds[] = {
    {DType::Float16, 2, 128, "attention_f16", "attention_query_f16", "attention_key_f16"},
    {DType::BFloat16, 2, 128, "attention_bf16", "attention_query_bf16", "attention_key_bf16"},
    {DType::Float64, 2, 64, "attention_f64", "attention_query_f64", "attention_key_f64"},
    {DType::Float32, 4, 128, "attention_f32", "attention_query_f32", "attention_key_f32"}};

const Kind& kind_of(const Tensor& t) {
  const bool tensor_cores = arch(t.device()) >= 80;
  for (const Kind& kind : kKinds)
    if (kind.memory == t.dtype() && (dtype_size(t.dtype()) != 2 || tensor_cores)) return kind;
  return kKinds[3];
}

class Made {
 public:
  // query, key, value, attn_mask, is_causal and scale stand from argument `first` on.
  Made(const Call& c, int first) : kind(kind_of(c.tensor(first))) {
    const Tensor &q = c.tensor(first), &k = c.tensor(first + 1);
    a.lead_count = q.rank() - 2;
    for (int d = 0; d < a.lead_count; ++d) heads *= a.lead[d] = q.size(d);
    a.share = a.lead_count && k.size(-3) ? std::max<int64_t>(1, q.size(-3) / k.size(-3)) : 1;
    a.queries = q.size(-2);
    a.keys = k.size(-2);
    a.depth = q.size(-1);
    a.width = c.tensor(first + 2).size(-1);
    a.causal = c.flag(first + 4);
    a.scale = a.depth ? c.number(first + 5) : 0;  // not 1 / sqrt(0): scores of nothing are 0
    a.q = matrices(q);
    a.k = matrices(k);
    a.v = matrices(c.tensor(first + 2));
    if (c.tensor(first + 3)) a.mask = matrices(c.tensor(first + 3));
  }
  Heads matrices(const Tensor& t) const {
    Heads m{};
    m.data = t.data<void>();
    m.dtype = number_of(t);
    const int missing = a.lead_count + 2 - t.rank();
    bool whole = t.dtype() == kind.memory && (t.size(-1) == 1 || t.stride(-1) == 1);
    const auto step = [&](int d) {
      if (t.size(d) == 1) return int64_t{0};
      whole = whole && t.stride(d) % kind.pack == 0;
      return t.stride(d);
    };
    for (int d = 0; d < a.lead_count; ++d) m.lead[d] = d < missing ? 0 : step(d - missing);
    m.row = step(-2);
    m.col = t.size(-1) == 1 ? 0 : t.stride(-1);
    const auto bytes = static_cast<uintptr_t>(kind.pack * dtype_size(t.dtype()));
    m.whole = whole && reinterpret_cast<uintptr_t>(m.data) % bytes == 0;
    return m;
  }
  void launch(const Tensor& t, const char* kernel, int64_t all_heads, int64_t rows,
              int64_t columns) const {
    const int64_t blocks = all_heads * ((rows + kAttentionRows - 1) / kAttentionRows);
    if (blocks == 0) return;
    cuda::launch(t.device(), {"attention", kernel},
                 {static_cast<unsigned>(blocks), std::max(1u, blocks_for(columns, kind.wide))},
                 {32, 4}, 0, a);
  }

  const Kind& kind;
  Attention a{};
  int64_t heads = 1;
};

void forward(Call& c) {
  const Tensor &out = c.out[0], &lse = c.out[1];
  Made made(c, 0);
  made.a.out = made.matrices(out);
  made.a.lse = lse.data<void>();
  made.launch(out, made.kind.forward, made.heads, made.a.queries, made.a.width);
}

void backward(Call& c) {
  Made made(c, 1);
  const Tensor &dq = c.out[0], &dk = c.out[1], &dv = c.out[2];
  const Tensor lse = packed(c.tensor(8));
  const Scratch delta(dq.device(), static_cast<size_t>(std::max<int64_t>(1, lse.numel()) *
                                                       dtype_size(lse.dtype())));
  Attention& a = made.a;
  a.grad = made.matrices(c.tensor(0));
  a.out = made.matrices(c.tensor(7));
  a.lse = lse.data<void>();
  a.delta = delta.as();
  a.dq = made.matrices(dq);
  a.dk = made.matrices(dk);
  a.dv = made.matrices(dv);
  made.launch(dq, made.kind.query, made.heads, a.queries, a.depth);
  made.launch(dk, made.kind.key, made.heads / a.share, a.keys, std::max(a.depth, a.width));
}

BIND_KERNEL(Cuda, "fused_attention", forward);
BIND_KERNEL(Cuda, "fused_attention_backward", backward);

}  // namespace
}  // namespace tycho::cuda
