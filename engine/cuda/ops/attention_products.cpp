// Attention by products: S = Q K^T of some heads and a piece of their queries, whose scores the L2 cache
// holds, weights from the rows of S (kernels/attention_rows.cu), and O = P V. The gradient takes S
// again, G V^T, and has three products of what the rows make of them. Queries of a group, which share
// keys, come one after the other, for they add to the same gradients.
#include <algorithm>

#include "engine/cuda/blas.h"
#include "engine/cuda/ops/attention.h"
#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/linear/precision.h"
#include "engine/tensor/backend.h"

namespace tycho::cuda {

AttentionLimits attention_limits{true, int64_t{1} << 18, int64_t{32} << 20, 512};

namespace {

// Row-major matrices that lie one behind the other, for each head of the queries or of the keys.
struct Stack {
  Tensor memory;
  bool of_keys;
  int64_t rows, cols;
  Stack(const Tensor& like, DType type, bool keys)
      : memory(like.dtype() == type && like.contiguous()
                   ? like
                   : empty(like.shape(), type, like.device())),
        of_keys(keys),
        rows(like.size(-2)),
        cols(like.size(-1)) {}
  static Stack of(const Tensor& t, DType type, bool keys) {
    const Stack s(t, type, keys);
    if (s.memory.get() != t.get()) copy_raw(s.memory, t);
    return s;
  }
  static Stack zeros(const Tensor& like, DType type, bool keys) {
    const Stack s(like, type, keys);
    const int64_t zero = 0;
    backend_of(like.device()).fill(s.memory, &zero);
    return s;
  }
  void finish(const Tensor& to) const {
    if (memory.get() != to.get()) copy_raw(to, memory);
  }
};

#define ATTENTION_KERNELS(what)                                       \
  {                                                                   \
    {"attention_" what "_f16", "attention_plain_" what "_f16"},       \
        {"attention_" what "_bf16", "attention_plain_" what "_bf16"}, \
        {"attention_" what "_f32", "attention_plain_" what "_f32"}, { \
      "attention_" what "_f64", "attention_plain_" what "_f64"        \
    }                                                                 \
  }
constexpr const char* kRowWeights[4][2] = ATTENTION_KERNELS("weights");
constexpr const char* kRowSlopes[4][2] = ATTENTION_KERNELS("slopes");
#undef ATTENTION_KERNELS

class ScorePieces {
 public:
  ScorePieces(const Attention& a, const Tensor& q, const Tensor& k, const Tensor& v)
      : device_(q.device()),
        type_(q.dtype()),
        lanes_(type_ == DType::Float64 ? type_ : DType::Float32),
        q_(Stack::of(q, type_, false)),
        k_(Stack::of(k, type_, true)),
        v_(Stack::of(v, type_, true)) {
    r_.a = a;
    r_.head_step = a.share;
    for (int d = 0; d < a.lead_count; ++d) heads_ *= a.lead[d];
    heads_ /= a.share;
  }

  void forward(const Tensor& out) {
    const Stack o(out, type_, false);
    each_piece(1, [&] {
      scores(r_.scores, q_, k_);
      rows(kRowWeights);
      weigh(o, r_.weights, v_);
    });
    o.finish(out);
  }

  void backward(const Tensor& g, const Tensor& dq, const Tensor& dk, const Tensor& dv) {
    const Stack grad = Stack::of(g, type_, false), to_q(dq, type_, false),
                to_k = Stack::zeros(dk, lanes_, true), to_v = Stack::zeros(dv, lanes_, true);
    const int64_t all = heads_ * r_.a.share * r_.a.queries;
    launch(device_, {"attention_rows", by_lanes("attention_deltas_f32", "attention_deltas_f64")},
           {blocks_for(all, 8)}, {32, 8}, 0, r_.a, all);
    each_piece(2, [&] {
      scores(r_.scores, q_, k_);
      scores(r_.grads, grad, v_);
      rows(kRowSlopes);
      add(to_v, r_.weights, grad);
      add(to_k, r_.slopes, q_);
      weigh(to_q, r_.slopes, k_);
    });
    to_q.finish(dq);
    to_k.finish(dk);
    to_v.finish(dv);
  }

 private:
  const char* by_lanes(const char* f32, const char* f64) const {
    return lanes_ == DType::Float64 ? f64 : f32;
  }
  // Walks over the queries, and over the heads of which a piece holds some, with memory for so many
  // matrices in lanes, and in the type.
  template <class F>
  void each_piece(int matrices, F&& f) {
    const Attention& a = r_.a;
    const int64_t most = std::min(attention_limits.piece_rows, a.queries);
    int64_t elements = 0;
    const auto each = [&](auto&& visit) {
      for (r_.first = 0; r_.first < a.queries; r_.first += most) {
        r_.rows = static_cast<int32_t>(std::min(most, a.queries - r_.first));
        r_.seen = a.causal ? std::min(a.keys, r_.first + r_.rows) : a.keys;
        r_.pitch = (r_.seen + 7) / 8 * 8;
        visit(heads_at_once(matrices));
      }
    };
    each([&](int64_t n) { elements = std::max(elements, n * r_.rows * r_.pitch); });
    const auto wide = static_cast<size_t>(elements * dtype_size(lanes_)),
               narrow = static_cast<size_t>(elements * dtype_size(type_));
    const bool two = matrices == 2;
    const Scratch memory(device_, (wide + narrow) * (two ? 2 : 1));
    r_.scores = memory.as<char>();
    r_.weights = memory.as<char>() + wide;
    if (two) {
      r_.grads = memory.as<char>() + wide + narrow;
      r_.slopes = memory.as<char>() + 2 * wide + narrow;
    }
    each([&](int64_t n) {
      for (int64_t group = 0; group < a.share; ++group)
        for (head_ = 0; head_ < heads_; head_ += n) {
          count_ = std::min(n, heads_ - head_);
          r_.head = head_ * a.share + group;
          f();
        }
    });
  }
  // As many in each, as far as that goes: products are planned for each size.
  int64_t heads_at_once(int matrices) const {
    const int64_t bytes = matrices * r_.rows * r_.pitch * dtype_size(lanes_);
    const int64_t most = std::clamp<int64_t>(attention_limits.piece_bytes / bytes, 1, heads_);
    const int64_t pieces = (heads_ + most - 1) / most;
    return (heads_ + pieces - 1) / pieces;
  }

  void rows(const char* const (&kernels)[4][2]) const {
    const bool plain = !r_.a.mask.data && !r_.a.limit;
    const int64_t keys_of_warp = plain ? 512 : 256;  // that its registers hold
    const int of = type_ == DType::Float16    ? 0
                   : type_ == DType::BFloat16 ? 1
                   : type_ == DType::Float32  ? 2
                                              : 3;
    const auto warps = std::clamp<int64_t>((r_.seen + keys_of_warp - 1) / keys_of_warp, 1, 16);
    launch(device_, {"attention_rows", kernels[of][plain]},
           {static_cast<unsigned>(count_ * r_.rows)}, {32, static_cast<unsigned>(warps)}, 0, r_);
  }

  // The piece's part of a stack.
  Matrix side(const Stack& s, bool by_columns) const {
    return {place(s), by_columns, s.cols, step(s)};
  }
  char* place(const Stack& s) const {
    const int64_t row = s.of_keys ? head_ * s.rows : r_.head * s.rows + r_.first;
    return s.memory.data<char>() + row * s.cols * dtype_size(s.memory.dtype());
  }
  int64_t step(const Stack& s) const { return (s.of_keys ? 1 : r_.a.share) * s.rows * s.cols; }
  Matrix piece(const void* matrix, bool by_columns) const {
    return {matrix, by_columns, r_.pitch, r_.rows * r_.pitch};
  }
  Multiplication product(int64_t m, int64_t n, int64_t k) const {
    Multiplication p{};
    p.type = type_;
    p.precision = matmul_precision.load(std::memory_order_relaxed);
    p.batch = count_;
    p.m = m, p.n = n, p.k = k;
    return p;
  }
  void scores(void* to, const Stack& x, const Stack& y) const {
    Multiplication p = product(r_.rows, r_.seen, x.cols);
    p.a = side(x, false);
    p.b = side(y, true);
    p.out = to;
    p.out_ld = r_.pitch, p.out_step = r_.rows * r_.pitch;
    p.out_float32 = lanes_ != type_;
    multiply(device_, p);
  }
  void weigh(const Stack& to, const void* weights, const Stack& x) const {
    Multiplication p = product(r_.rows, x.cols, r_.seen);
    p.a = piece(weights, false);
    p.b = side(x, false);
    p.out = place(to);
    p.out_ld = to.cols, p.out_step = step(to);
    multiply(device_, p);
  }
  void add(const Stack& to, const void* weights, const Stack& x) const {
    Multiplication p = product(r_.seen, x.cols, r_.rows);
    p.a = piece(weights, true);
    p.b = side(x, false);
    p.out = place(to);
    p.out_ld = to.cols, p.out_step = step(to);
    p.out_float32 = lanes_ != type_;
    p.add = true;
    multiply(device_, p);
  }

  Device device_;
  DType type_, lanes_;
  Stack q_, k_, v_;
  AttentionRows r_{};
  int64_t heads_ = 1, head_ = 0, count_ = 0;  // heads of keys; the piece's
};

}  // namespace

bool goes_by_products(const Attention& a, const Tensor& q) {
  const bool known = dtype_size(q.dtype()) != 2 || arch(q.device()) >= 80;
  return known && q.numel() > 0 && a.width > 0 && a.keys > 0 &&
         a.queries * a.keys >= attention_limits.least_scores;
}

void attention_by_products(const Attention& a, const Tensor& q, const Tensor& k, const Tensor& v,
                           const Tensor& out) {
  ScorePieces(a, q, k, v).forward(out);
}

void attention_grads_by_products(const Attention& a, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const Tensor& g, const Tensor& dq,
                                 const Tensor& dk, const Tensor& dv) {
  ScorePieces(a, q, k, v).backward(g, dq, dk, dv);
}

}  // namespace tycho::cuda
