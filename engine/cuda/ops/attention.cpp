// Attention on a device, of heads at any strides: plain 16-bit ones whose rows are read in whole chunks by
// kernels/attention_flash.cu, long ones by products (attention_products.cpp), of the others 16-bit ones
// by tensor cores, where there are some that take them, and all else by plain multiplications
// (kernels/attention.cu).
#include "engine/cuda/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

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
  // Up to 64 columns, and up to 128.
  const char *flash[2] = {}, *flash_query[2] = {}, *flash_key[2] = {};
};
constexpr Kind kKinds[] = {
    {DType::Float16,
     2,
     128,
     "attention_f16",
     "attention_query_f16",
     "attention_key_f16",
     {"attention_flash_f16_64", "attention_flash_f16_128"},
     {"attention_flash_query_f16_64", "attention_flash_query_f16_128"},
     {"attention_flash_key_f16_64", "attention_flash_key_f16_128"}},
    {DType::BFloat16,
     2,
     128,
     "attention_bf16",
     "attention_query_bf16",
     "attention_key_bf16",
     {"attention_flash_bf16_64", "attention_flash_bf16_128"},
     {"attention_flash_query_bf16_64", "attention_flash_query_bf16_128"},
     {"attention_flash_key_bf16_64", "attention_flash_key_bf16_128"}},
    {DType::Float64, 2, 64, "attention_f64", "attention_query_f64", "attention_key_f64"},
    {DType::Float32, 4, 128, "attention_f32", "attention_query_f32", "attention_key_f32"}};

const Kind& kind_of(const Tensor& t) {
  const bool tensor_cores = arch(t.device()) >= 80;
  for (const Kind& kind : kKinds)
    if (kind.memory == t.dtype() && (dtype_size(t.dtype()) != 2 || tensor_cores)) return kind;
  return kKinds[3];
}

// Rows begin at whole 16 bytes.
bool in_chunks(const Heads& m, const Attention& a) {
  bool whole = m.whole && m.row % 8 == 0 && m.row < int64_t{1} << 28 &&
               reinterpret_cast<uintptr_t>(m.data) % 16 == 0;
  for (int d = 0; d < a.lead_count; ++d) whole = whole && m.lead[d] % 8 == 0;
  return whole;
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
  // Weights are kept with probability 1 - p, by the numbers from counter `first` on.
  void drop(double p, uint64_t seed, uint64_t first) {
    const double keep = 1 - p;
    a.seed = seed;
    a.first = first;
    a.limit = static_cast<uint64_t>(std::ceil(std::ldexp(keep, 32)));
    a.gain = kind.memory == DType::Float64 ? 1 / keep
                                           : static_cast<double>(1 / static_cast<float>(keep));
  }
  // Whether the kernels of whole chunks take them; lengths are 32 bits there.
  bool flashes(std::initializer_list<const Heads*> results) const {
    const auto fits = [](int64_t n) { return n > 0 && n <= 128 && n % 8 == 0; };
    constexpr int64_t kMost = int64_t{1} << 30;
    return attention_limits.flash && kind.flash[0] && !a.mask.data && !a.limit && a.scale > 0 &&
           fits(a.depth) && fits(a.width) && a.queries < kMost && a.keys < kMost &&
           in_chunks(a.q, a) && in_chunks(a.k, a) && in_chunks(a.v, a) &&
           std::all_of(results.begin(), results.end(),
                       [&](const Heads* m) { return in_chunks(*m, a); });
  }
  void flash(Device device) const {
    const bool wide = std::max(a.depth, a.width) > 64;
    launch_warps(device, {"attention_flash", kind.flash[wide]}, heads, a.queries, wide ? 8 : 4);
  }
  void flash_gradients(Device device) const {
    const bool wide = std::max(a.depth, a.width) > 64;
    const int64_t rows = heads * a.queries;
    if (rows)
      cuda::launch(device, {"attention_rows", "attention_deltas_f32"}, {blocks_for(rows, 8)},
                   {32, 8}, 0, a, rows);
    launch_warps(device, {"attention_flash_grad", kind.flash_query[wide]}, heads, a.queries, 4);
    launch_warps(device, {"attention_flash_grad", kind.flash_key[wide]}, heads / a.share, a.keys,
                 4);
  }
  // Of 16 rows each.
  void launch_warps(Device device, KernelRef kernel, int64_t all_heads, int64_t rows,
                    unsigned warps) const {
    const unsigned each = blocks_for(rows, 16 * int64_t{warps});
    if (all_heads && each)
      cuda::launch(device, kernel, {static_cast<unsigned>(all_heads) * each}, {32, warps}, 0, a);
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

void forward(const Call& c, Made& made) {
  made.a.out = made.matrices(c.out[0]);
  made.a.lse = c.out[1].data<void>();
  if (made.flashes({&made.a.out})) return made.flash(c.out[0].device());
  if (goes_by_products(made.a, c.tensor(0)))
    return attention_by_products(made.a, c.tensor(0), c.tensor(1), c.tensor(2), c.out[0]);
  made.launch(c.out[0], made.kind.forward, made.heads, made.a.queries, made.a.width);
}
void forward(Call& c) {
  Made made(c, 0);
  forward(c, made);
}
void forward_with_dropout(Call& c) {
  Made made(c, 0);
  auto* state = c.out[2].data<int64_t>();
  if (c.has(7)) {
    state[0] = c.integer(7);
    state[1] = c.integer(8);
  } else {
    const RandomStream stream = generator_of(c.out[0].device());
    const int64_t weights = made.heads * made.a.queries * made.a.keys;
    state[0] = static_cast<int64_t>(stream.philox->initial_seed());
    state[1] = static_cast<int64_t>(stream.philox->take((weights + 3) / 4));
  }
  made.drop(c.number(6), static_cast<uint64_t>(state[0]), static_cast<uint64_t>(state[1]));
  forward(c, made);
}

void backward(const Call& c, Made& made) {
  const Tensor &dq = c.out[0], &dk = c.out[1], &dv = c.out[2];
  const Tensor lse = packed(c.tensor(8));
  const auto rows = static_cast<size_t>(std::max<int64_t>(1, lse.numel()));
  const Scratch delta(dq.device(), rows * static_cast<size_t>(dtype_size(lse.dtype())));
  Attention& a = made.a;
  a.grad = made.matrices(c.tensor(0));
  a.out = made.matrices(c.tensor(7));
  a.lse = lse.data<void>();
  a.delta = delta.as();
  a.dq = made.matrices(dq);
  a.dk = made.matrices(dk);
  a.dv = made.matrices(dv);
  if (made.flashes({&a.grad, &a.dq, &a.dk, &a.dv})) return made.flash_gradients(dq.device());
  if (goes_by_products(a, c.tensor(1)))
    return attention_grads_by_products(a, c.tensor(1), c.tensor(2), c.tensor(3), c.tensor(0), dq,
                                       dk, dv);
  made.launch(dq, made.kind.query, made.heads, a.queries, a.depth);
  made.launch(dk, made.kind.key, made.heads / a.share, a.keys, std::max(a.depth, a.width));
}
void backward(Call& c) {
  Made made(c, 1);
  backward(c, made);
}
void backward_with_dropout(Call& c) {
  Made made(c, 1);
  made.drop(c.number(9), static_cast<uint64_t>(c.integer(10)),
            static_cast<uint64_t>(c.integer(11)));
  backward(c, made);
}

BIND_KERNEL(Cuda, "dropout_attention", forward_with_dropout);
BIND_KERNEL(Cuda, "dropout_attention_backward", backward_with_dropout);
BIND_KERNEL(Cuda, "fused_attention", forward);
BIND_KERNEL(Cuda, "fused_attention_backward", backward);

}  // namespace
}  // namespace tycho::cuda
