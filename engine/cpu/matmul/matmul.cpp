// matmul, linear and dot on the CPU: tensors of any rank, layout and type brought down to
// products of plain memory (gemm.h).

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/blocks.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/matmul/gemv16.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kFarBytes = 8 << 20;  // of a result that caches do not hold beside others
constexpr int64_t kTiny = 1024;         // numbers of a in a product that is not worth gemm's ways

bool two_bytes(DType t) { return t == DType::BFloat16 || t == DType::Float16; }

// Integers are summed modulo 2^64, which is exact modulo any narrower type's range.
DType computed_in(DType t) {
  if (t == DType::Float32 || t == DType::Float64) return t;
  if (two_bytes(t)) return t;
  return is_floating(t) ? DType::Float32 : DType::Int64;
}

Tensor as_type(const Tensor& t, DType type) {
  if (t.dtype() == type) return t;
  Tensor to = empty_like(t, type);  // as it lies: no need to turn it
  copy_raw(to, t);
  return to;
}

// A stack of matrices: the last two dimensions, with those in front as the batch.
struct Stack {
  Tensor t;
  int64_t rows, cols, row, col;  // sizes and strides
  Sizes batch, step;
};

Stack stack_of(Tensor t, bool vector_is_row) {
  if (two_bytes(t.dtype())) {  // one dimension is to be contiguous, and oneDNN wants no overlaps
    const bool ok = t.rank() < 2 ? t.rank() == 0 || t.stride(0) == 1
                                 : (t.stride(-1) == 1 && t.stride(-2) >= t.size(-1)) ||
                                       (t.stride(-2) == 1 && t.stride(-1) >= t.size(-2));
    if (!ok) {
      Tensor copy = empty(t.shape(), t.dtype(), t.device());
      copy_raw(copy, t);
      t = copy;
    }
  }
  Stack s;
  const int r = t.rank();
  if (r == 1) {
    const int64_t n = t.size(0), step = t.stride(0);
    if (vector_is_row)
      s.rows = 1, s.cols = n, s.row = n * step, s.col = step;
    else
      s.rows = n, s.cols = 1, s.row = step, s.col = 1;
  } else {
    s.rows = t.size(-2), s.cols = t.size(-1), s.row = t.stride(-2), s.col = t.stride(-1);
    // Where a stride is never taken, one is chosen that fits the fast paths.
    if (s.cols == 1) s.col = 1;
    if (s.rows == 1) s.row = s.col == 1 ? s.cols : 1;
    for (int d = 0; d < r - 2; ++d) {
      s.batch.push_back(t.size(d));
      s.step.push_back(t.stride(d));
    }
  }
  s.t = std::move(t);
  return s;
}

// If the batch and the rows of a stack form one long list of rows, makes it one matrix.
bool flatten(Stack& s) {
  int64_t count = s.rows, step = s.row;
  if (s.rows == 1 && s.batch.n) step = s.step[s.batch.n - 1];
  for (int d = s.batch.n - 1; d >= 0; --d) {
    if (s.batch[d] == 1) continue;
    if (count == 1)
      step = s.step[d];
    else if (s.step[d] != count * step)
      return false;
    count *= s.batch[d];
  }
  if (two_bytes(s.t.dtype()) && s.col == 1 && step < s.cols) return false;
  s.rows = count;
  s.row = step;
  s.batch.n = s.step.n = 0;
  return true;
}

// Offsets of each matrix of the result's batch in a stack, broadcast.
std::vector<int64_t> offsets(const Stack& s, const Sizes& batch) {
  const int64_t n = product(batch);
  std::vector<int64_t> at(n);
  int64_t index[kMaxDims] = {}, place = 0, step[kMaxDims];
  const int lead = batch.n - s.batch.n;
  for (int d = 0; d < batch.n; ++d)
    step[d] = d < lead || s.batch[d - lead] == 1 ? 0 : s.step[d - lead];
  for (int64_t i = 0; i < n; ++i) {
    at[i] = place;
    for (int d = batch.n - 1; d >= 0; --d) {
      place += step[d];
      if (++index[d] < batch[d]) break;
      place -= step[d] * batch[d];
      index[d] = 0;
    }
  }
  return at;
}

// Many matrices of few rows meet one b: worth a copy that makes them one matrix.
bool worth_a_copy(const Stack& a, const Stack& b) {
  return a.rows < 64 && b.cols >= 8 && product(a.batch) > 1;
}

// Products [from, to) of small matrices of two-byte numbers without gaps that have few terms: widened, and
// rounded again, some matrices at a time. False where another way is better.
bool few_terms16(const Product& p, const int64_t* a_at, const int64_t* b_at, int64_t from,
                 int64_t to) {
  constexpr int64_t kRoom = 4096;
  const int64_t terms = level() == Level::v4 ? 8 : 16;
  const auto dense = [](int64_t rows, int64_t cols, int64_t row, int64_t col) {
    return (col == 1 && row == cols) || (row == 1 && col == rows);
  };
  const int64_t na = p.m * p.k, nb = p.k * p.n, nc = p.m * p.n;
  if (!two_bytes(p.dtype) || p.bias || p.k > terms || na > kTiny ||
      std::max({na, nb, nc}) > kRoom || !dense(p.m, p.k, p.a_row, p.a_col) ||
      !dense(p.k, p.n, p.b_row, p.b_col))
    return false;
  alignas(64) float a[kRoom], b[kRoom], c[kRoom];
  constexpr int64_t kMost = 64;
  int64_t at[2][kMost];
  const int64_t most = std::min(kMost, kRoom / std::max({na, nb, nc}));
  const int lanes = static_cast<int>(Lanes::F32), dtype = static_cast<int>(p.dtype);
  const auto widen = [&](const void* all, const int64_t* places, int64_t first, int64_t count,
                         int64_t n, float* to_floats) {
    for (int64_t i = 0; i < count; ++i)
      level_of::load_tile(lanes, dtype, to_floats + i * n,
                          static_cast<const uint16_t*>(all) + places[first + i], 1, n);
  };
  for (int64_t i = from; i < to; i += most) {
    const int64_t count = std::min(most, to - i);
    widen(p.a, a_at, i, count, na, a);
    widen(p.b, b_at, i, count, nb, b);
    for (int64_t k = 0; k < count; ++k) at[0][k] = k * na, at[1][k] = k * nb;
    const TinyProducts t{DType::Float32, count, p.m,     p.n,     p.k,     a,       b,      c,
                         at[0],          at[1], p.a_row, p.a_col, p.b_row, p.b_col, nullptr};
    if (!level_of::tiny_products(&t)) {
      Product q = p;
      q.dtype = DType::Float32, q.alone = true;
      for (int64_t k = 0; k < count; ++k) {
        q.a = a + at[0][k], q.b = b + at[1][k], q.c = c + k * nc;
        gemm(q);
      }
    }
    level_of::store_tile(lanes, dtype, static_cast<uint16_t*>(p.c) + i * nc, c, 1, count * nc);
  }
  return true;
}

void multiply(const Tensor& out, Stack a, Stack b, const void* bias) {
  Product p;
  p.dtype = out.dtype();
  const int size = dtype_size(p.dtype);
  Sizes batch = out.shape();
  batch.n = std::max(a.batch.n, b.batch.n);
  if (batch.n && product(b.batch) == 1) {
    bool flat = flatten(a);
    if (!flat && worth_a_copy(a, b)) {
      a = stack_of(packed(a.t), true);
      flat = flatten(a);
    }
    if (flat) batch.n = 0;
  }
  p.m = a.rows, p.n = b.cols, p.k = a.cols;
  p.a = a.t.data(), p.a_row = a.row, p.a_col = a.col;
  p.b = b.t.data(), p.b_row = b.row, p.b_col = b.col;
  p.c = out.data(), p.c_row = b.cols;
  p.bias = bias;
  p.far = out.numel() * size >= kFarBytes;
  if (batch.n == 0) return gemm(p);
  const std::vector<int64_t> a_at = offsets(a, batch), b_at = offsets(b, batch);
  const int64_t count = static_cast<int64_t>(a_at.size());
  const int64_t work = std::max<int64_t>(1, p.m * p.n * p.k), each = p.m * p.n;
  // What a thread has to do at least: short rows fill no lane, and numbers come and go.
  const int64_t lanes_work = (p.m * p.k + p.m + p.k) * (blocks(p.n, 16) * 16) + 8 * p.m * p.k;
  // Whole matrices to threads where there are enough of them; large ones are split inside.
  const int64_t spread = work < (int64_t{1} << 26) && count >= 2 * get_num_threads();
  const bool tiny = is_floating(p.dtype) && dtype_size(p.dtype) >= 4 && p.m * p.k <= kTiny;
  const auto run = [&](int64_t from, int64_t to) {
    if (few_terms16(p, a_at.data(), b_at.data(), from, to)) return;
    if (tiny) {
      const TinyProducts t{p.dtype,
                           to - from,
                           p.m,
                           p.n,
                           p.k,
                           p.a,
                           p.b,
                           static_cast<char*>(p.c) + from * each * size,
                           a_at.data() + from,
                           b_at.data() + from,
                           p.a_row,
                           p.a_col,
                           p.b_row,
                           p.b_col,
                           bias};
      if (level_of::tiny_products(&t)) return;
    }
    Product q = p;
    q.alone = spread;
    for (int64_t i = from; i < to; ++i) {
      q.a = static_cast<const char*>(p.a) + a_at[i] * size;
      q.b = static_cast<const char*>(p.b) + b_at[i] * size;
      q.c = static_cast<char*>(p.c) + i * each * size;
      gemm(q);
    }
  };
  if (spread)
    parallel_for(count, std::max<int64_t>(1, (int64_t{1} << 19) / lanes_work), run);
  else
    run(0, count);
}

}  // namespace

// No element of t lies farther from zero than this.
double bound(const Tensor& t, bool look) {
  const double type = std::ldexp(1.0, 8 * dtype_size(t.dtype()) - (t.dtype() != DType::UInt8));
  if (!look) return type;
  return std::max(-item<double>(op<"amin">(t)), item<double>(op<"amax">(t)));
}

// Integers are multiplied as floating point numbers where no sum can leave what those hold exactly:
// by their types, or by their values, which are usually small.
DType integers_in(const Tensor& x, const Tensor& y, int64_t depth) {
  for (const bool look : {false, true}) {
    const double most = bound(x, look) * bound(y, look) * static_cast<double>(depth);
    if (most <= 0x1p24) return DType::Float32;
    if (most <= 0x1p53 && (look || dtype_size(x.dtype()) == 1)) return DType::Float64;
  }
  return DType::Int64;
}

// The same for a product: numbers of two bytes are widened once where there is little to do,
// and so do floating point numbers for integers.
DType computed_in(DType t, const Tensor& x, const Tensor& y, int64_t columns) {
  const DType type = computed_in(t);
  if (!two_bytes(type) && type != DType::Int64) return type;
  const int64_t depth = x.size(-1);
  int64_t rows = x.rank() > 1 ? x.size(-2) : 1;
  if (y.rank() <= 2 && depth > 0) rows = x.numel() / depth;
  const bool vectors = std::min(rows, columns) < 2;
  const int64_t work = rows * columns * depth;
  if (type == DType::Int64)
    return (vectors && t == type) || work < 1 << 15 ? type : integers_in(x, y, depth);
  return (!vectors && work >= 4096) || (depth > 3 && x.numel() + y.numel() > 1 << 19)
             ? type
             : DType::Float32;
}

Stack turned_over(Stack s) {
  std::swap(s.rows, s.cols);
  std::swap(s.row, s.col);
  return s;
}

Tensor with_bias(const Tensor& y, const Tensor& bias) {
  return bias ? op<"add">(y, as_type(bias, DType::Float32)) : y;
}

// Matrices of two-byte numbers times a vector each, or all times one, into out. False where another
// way is better: a matrix must be laid out first, its rows (or columns, if those are contiguous)
// are short, or one matrix meets many vectors.
bool multiply16(const Tensor& out, Stack matrix, const Tensor& vectors, bool vector_is_row,
                const Tensor& bias) {
  constexpr int64_t kShortColumn = 8;
  if (matrix.cols == 0 || (matrix.row != 1 && matrix.col != 1)) return false;
  const Tensor lying = packed(vectors);
  const Stack vector = stack_of(lying, vector_is_row);
  if (product(vector.batch) == 1 && matrix.batch.n) flatten(matrix);
  Sizes batch = out.shape();
  batch.n = matrix.batch.n;
  const int64_t m = matrix.rows, k = matrix.cols, count = product(batch),
                shortest = count == 1 ? 5 : 32;
  if (count * m != out.numel() || (matrix.col == 1 ? k < shortest : m < kShortColumn)) return false;
  const Tensor y = empty({out.numel()}, DType::Float32);
  const bool float16 = out.dtype() == DType::Float16;
  const auto* const a = matrix.t.data<uint16_t>();
  const auto* const x = lying.data<uint16_t>();
  if (count == 1) {
    gemv16({m, k, a, matrix.row, matrix.col, x, y.data<float>(), float16});
  } else {
    const std::vector<int64_t> a_at = offsets(matrix, batch), x_at = offsets(vector, batch);
    const auto run = [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i)
        gemv16({m, k, a + a_at[i], matrix.row, matrix.col, x + x_at[i], y.data<float>() + i * m,
                float16, true});
    };
    parallel_for(count, std::max<int64_t>(1, (1 << 16) / (m * k)), run);
  }
  copy_raw(out, op<"reshape">(with_bias(y, bias), out.shape()));
  return true;
}

// A large matrix of two-byte numbers with rows of one piece times two to four vectors, the rows of
// `vectors`: it is read once. `out` [vectors, rows of the matrix]; false where another way is better.
bool multiply16_few(const Tensor& out, const Stack& matrix, const Tensor& vectors,
                    const Tensor& bias = Tensor()) {
  constexpr int64_t kShort = 32, kLarge = 1 << 18;
  const int64_t count = vectors.size(0), m = matrix.rows, k = matrix.cols;
  if (count < 2 || count > kMostVectors16 || matrix.col != 1 || k < kShort || m * k < kLarge)
    return false;
  const Tensor lying = packed(vectors), y = empty({count, m}, DType::Float32);
  gemv16({m, k, matrix.t.data<uint16_t>(), matrix.row, 1, lying.data<uint16_t>(), y.data<float>(),
          out.dtype() == DType::Float16, false, static_cast<int>(count)});
  copy_raw(out, with_bias(y, bias));
  return true;
}

void dot(Call& c) {
  const DType type = two_bytes(c.out[0].dtype()) ? DType::Float32 : computed_in(c.out[0].dtype());
  const DType given = c.tensor(0).dtype();
  const bool half = two_bytes(given);  // summed in float32 as it lies
  const DType as = half ? given : type;
  const Tensor x = packed(as_type(c.tensor(0), as)), y = packed(as_type(c.tensor(1), as));
  const int kind = type == DType::Float32 ? 0 : type == DType::Float64 ? 1 : 2;
  const int size = dtype_size(type);
  // Partial sums of fixed chunks, added in order: the same result with any number of threads.
  constexpr int64_t kChunk = 65536;
  const int64_t n = x.numel(), chunks = std::max<int64_t>(1, (n + kChunk - 1) / kChunk);
  Tensor parts = empty({chunks}, type);
  const auto run = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to && half; ++i)
      parts.data<float>()[i] =
          level_of::dot16_part(given == DType::Float16, std::min(kChunk, n - i * kChunk),
                               x.data<uint16_t>() + i * kChunk, y.data<uint16_t>() + i * kChunk);
    for (int64_t i = from; i < to && !half; ++i)
      level_of::dot_part(kind, std::min(kChunk, n - i * kChunk),
                         static_cast<const void*>(x.data() + i * kChunk * size),
                         static_cast<const void*>(y.data() + i * kChunk * size),
                         static_cast<void*>(parts.data() + i * size));
  };
  parallel_for(chunks, 1, run);
  Tensor sum = empty(Sizes(), type);
  if (type == DType::Int64) {
    uint64_t s = 0;
    for (int64_t i = 0; i < chunks; ++i) s += static_cast<uint64_t>(parts.data<int64_t>()[i]);
    *sum.data<int64_t>() = static_cast<int64_t>(s);
  } else if (type == DType::Float64) {
    double s = 0;
    for (int64_t i = 0; i < chunks; ++i) s += parts.data<double>()[i];
    *sum.data<double>() = s;
  } else {
    double s = 0;
    for (int64_t i = 0; i < chunks; ++i) s += parts.data<float>()[i];
    *sum.data<float>() = static_cast<float>(s);
  }
  copy_raw(c.out[0], sum);
}

void matmul(Call& c) {
  const Tensor &x = c.tensor(0), &y = c.tensor(1), &out = c.out[0];
  if (out.numel() == 0) return;
  if (x.rank() == 1 && y.rank() == 1) return dot(c);
  if (two_bytes(out.dtype())) {
    const bool column = y.rank() == 1 || y.size(-1) == 1, row = x.rank() == 1 || x.size(-2) == 1;
    if (column && x.rank() >= 2 && multiply16(out, stack_of(x, true), y, false, Tensor())) return;
    if (row && y.rank() >= 2 && multiply16(out, turned_over(stack_of(y, false)), x, true, Tensor()))
      return;
    if (x.rank() == 2 && y.rank() == 2 &&
        (multiply16_few(out, turned_over(stack_of(y, false)), x) ||
         multiply16_few(op<"transpose">(out, 0, 1), stack_of(x, true), op<"transpose">(y, 0, 1))))
      return;
  }
  const DType type = computed_in(out.dtype(), x, y, y.rank() > 1 ? y.size(-1) : 1);
  Tensor result = out.dtype() == type ? out : empty(out.shape(), type, out.device());
  multiply(result, stack_of(as_type(x, type), true), stack_of(as_type(y, type), false), nullptr);
  if (out.dtype() != type) copy_raw(out, result);
}

void linear(Call& c) {
  const Tensor &x = c.tensor(0), &w = c.tensor(1), &bias = c.tensor(2), &out = c.out[0];
  if (out.numel() == 0) return;
  if (two_bytes(out.dtype()) && x.numel() == x.size(-1) &&
      multiply16(out, stack_of(w, true), op<"reshape">(x, Sizes{x.numel()}), false, bias))
    return;
  if (two_bytes(out.dtype()) && x.numel() && x.numel() <= kMostVectors16 * x.size(-1)) {
    const Tensor lines = op<"reshape">(out, Sizes{-1, out.size(-1)});
    if (multiply16_few(lines, stack_of(w, true), op<"reshape">(x, Sizes{-1, x.size(-1)}), bias))
      return;
  }
  const DType type = computed_in(out.dtype(), x, w, w.size(0));
  Tensor result = out.dtype() == type ? out : empty(out.shape(), type, out.device());
  Stack a = stack_of(as_type(x, type), true), b = turned_over(stack_of(as_type(w, type), true));
  Tensor begin;
  if (bias) begin = packed(as_type(bias, type));
  multiply(result, a, b, bias ? begin.data() : nullptr);
  if (out.dtype() != type) copy_raw(out, result);
}

BIND_KERNEL(Cpu, "matmul", matmul);
BIND_KERNEL(Cpu, "mm", matmul);
BIND_KERNEL(Cpu, "bmm", matmul);
BIND_KERNEL(Cpu, "mv", matmul);
BIND_KERNEL(Cpu, "dot", dot);
BIND_KERNEL(Cpu, "vdot", dot);
BIND_KERNEL(Cpu, "linear", linear);

}  // namespace tycho::cpu
