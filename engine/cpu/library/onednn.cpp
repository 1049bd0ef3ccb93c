// Held primitives of oneDNN: matrix products of bfloat16 (convolutions stand in onednn_conv.cpp).
#include "engine/cpu/library/onednn.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/library/onednn_cache.h"
#include "engine/cpu/library/trust.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

using dnnl::memory;

struct MatmulKey {
  int64_t m, n, k, a_row, a_col, b_row, b_col, c_row;
  bool add, bias;
  bool operator==(const MatmulKey&) const = default;
  size_t hash() const {
    size_t h = add + 2 * bias;
    for (int64_t x : {m, n, k, a_row, a_col, b_row, b_col, c_row}) hash_in(h, x);
    return h;
  }
};

struct HeldMatmul {
  HeldPrimitive primitive;
  memory a, b, c, bias;
  dnnl_exec_arg_t args[kMostArgs];
  int count;
};

HeldMatmul make(const MatmulKey& key) {
  const auto bf16 = memory::data_type::bf16;
  HeldMatmul h;
  const memory::desc a({key.m, key.k}, bf16, memory::dims{key.a_row, key.a_col}),
      b({key.k, key.n}, bf16, memory::dims{key.b_row, key.b_col}),
      c({key.m, key.n}, bf16, memory::dims{key.c_row, 1}),
      bias({1, key.n}, bf16, memory::dims{key.n, 1});
  dnnl::primitive_attr attr = onednn_attr();
  if (key.add) {
    dnnl::post_ops sum;
    sum.append_sum(1.f);
    attr.set_post_ops(sum);
  }
  const auto desc = key.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  h.primitive =
      HeldPrimitive::of<dnnl::matmul>(dnnl::matmul::primitive_desc(desc, attr, onednn_engine()));
  h.a = memory(a, onednn_engine(), nullptr);
  h.b = memory(b, onednn_engine(), nullptr);
  h.c = memory(c, onednn_engine(), nullptr);
  h.bias = memory(bias, onednn_engine(), nullptr);
  h.args[0] = {DNNL_ARG_SRC, h.a.get()};
  h.args[1] = {DNNL_ARG_WEIGHTS, h.b.get()};
  h.args[2] = {DNNL_ARG_DST, h.c.get()};
  h.args[3] = {DNNL_ARG_BIAS, h.bias.get()};
  h.count = key.bias ? 4 : 3;
  return h;
}

// Nobody steps along a size of 1, so its stride may be anything, but oneDNN takes the larger one for
// the distance of rows, or of columns, and refuses to run where they would overlap.
void settle(int64_t rows, int64_t cols, int64_t& row, int64_t& col) {
  if (cols == 1) col = row == 1 ? rows : 1;
  if (rows == 1) row = col == 1 ? cols : 1;
}

void run_here(const Product& p) {
  thread_local HeldCache<MatmulKey, HeldMatmul> cache;
  MatmulKey key{p.m,     p.n,     p.k,     p.a_row, p.a_col,
                p.b_row, p.b_col, p.c_row, p.add,   p.bias != nullptr};
  settle(key.m, key.k, key.a_row, key.a_col);
  settle(key.k, key.n, key.b_row, key.b_col);
  if (key.m == 1) key.c_row = key.n;
  onednn_guard([&] {
    HeldMatmul& h = cache.get(key, make);
    const auto set = [](memory& m, const void* p) {
      dnnl_memory_set_data_handle(m.get(), const_cast<void*>(p));
    };
    set(h.a, p.a);
    set(h.b, p.b);
    set(h.c, p.c);
    if (p.bias) set(h.bias, p.bias);
    onednn_run(h.primitive, h.args, h.count);
  });
}

struct OneThread {
  dnnl::stream stream;
  OneThread(const dnnl::engine& engine) : stream(engine) {
    // Found by name, so that nothing here depends on a compiler's own OpenMP.
    using Set = void (*)(int);
    if (const auto set = reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
  }
};

OneThread& this_thread() {
  static const dnnl::engine engine = [] {
    onednn_in_use();  // limits its instruction sets first
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  thread_local OneThread one(engine);
  return one;
}

}  // namespace

const dnnl::engine& onednn_engine() {
  thread_local const dnnl::engine engine = this_thread().stream.get_engine();
  return engine;
}

void onednn_run(HeldPrimitive& held, dnnl_exec_arg_t (&args)[kMostArgs], int count) {
  const Scratch scratch(held.scratch_bytes);
  if (held.scratch_bytes != 0) {
    dnnl_memory_set_data_handle(held.scratch.get(), scratch.data());
    args[count++] = {DNNL_ARG_SCRATCHPAD, held.scratch.get()};
  }
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(held.primitive.get(), this_thread().stream.get(), count, args),
      "the primitive did not run");
}

// Intel's processors of up to 2025 take four times as long for a product of pairs as for one of float32,
// and twice as long for the same work; AMD's take half.
static bool quick_pairs = [] {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16");
}();
bool pairs_are_quick() { return quick_pairs; }
bool use_pairs(bool use) { return std::exchange(quick_pairs, use); }

bool pairs_pay(const Product& p) {
  // Few rows are a matter of reading b, which is sooner read as it lies.
  const int64_t few = p.b_col == 1 ? 4 : 1;
  return pairs_are_quick() && p.dtype == DType::BFloat16 && p.m > few && level() == Level::v4 &&
         trusts_onednn({Primitive::Product, DType::BFloat16});
}

// Of operands with gaps between their lines oneDNN makes the result in another way, which takes up to four
// times as long: copies without gaps are quicker, but of a b that is much for its few rows of a.
static bool has_gaps(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  if (rows == 1 || cols == 1) return (rows == 1 ? col : row) != 1;
  return row != 1 ? row != cols : col != rows;
}
static void close_gaps(const void*& data, int64_t rows, int64_t cols, int64_t& row, int64_t& col,
                       char* to) {
  const bool turned = row == 1 && col != 1 && cols > 1;
  if (turned) std::swap(rows, cols), std::swap(row, col);
  level_of::copy_plane(2, to, cols, int64_t{1}, static_cast<const char*>(data), row, col, rows,
                       cols);
  data = to, row = cols, col = 1;
  if (turned) std::swap(row, col);
}

// Few rows: parts of the columns go to the threads. The parts are the same for any number of threads: how
// oneDNN adds up terms may depend on their size. Each has a result without gaps, or oneDNN would copy all
// of a turned b.
constexpr int64_t kFewRows = 32, kColumns = 512, kFewColumns = 128;
static void by_columns(const Product& p) {
  const int64_t columns = p.n >= 2 * kColumns ? kColumns : ((p.n + 1) / 2 + 63) / 64 * 64;
  parallel_for((p.n + columns - 1) / columns, 1, [&](int64_t from, int64_t to) {
    const Scratch room(static_cast<size_t>(p.m * columns) * 2);
    for (int64_t part = from; part < to; ++part) {
      Product q = p;
      const int64_t j = part * columns;
      q.n = q.c_row = std::min(columns, p.n - j);
      q.b = static_cast<const char*>(p.b) + j * p.b_col * 2;
      q.c = room.data();
      if (p.bias) q.bias = static_cast<const char*>(p.bias) + j * 2;
      const auto copy = [&](char* to, int64_t to_row, const char* from, int64_t from_row) {
        level_of::copy_plane(2, to, to_row, int64_t{1}, from, from_row, int64_t{1}, q.m, q.n);
      };
      char* const c = static_cast<char*>(p.c) + j * 2;
      if (p.add) copy(room.data(), q.n, c, p.c_row);
      run_here(q);
      copy(c, p.c_row, room.data(), q.n);
    }
  });
}

void gemm_bf16(const Product& p) {
  const bool gaps_a = has_gaps(p.m, p.k, p.a_row, p.a_col),
             gaps_b = has_gaps(p.k, p.n, p.b_row, p.b_col) && std::min(p.k, p.n) <= p.m;
  const int64_t size_a = gaps_a ? p.m * p.k : 0, copied = size_a + (gaps_b ? p.k * p.n : 0);
  if (copied > 0) {
    const Scratch room(static_cast<size_t>(copied) * 2);
    Product q = p;
    if (gaps_a) close_gaps(q.a, p.m, p.k, q.a_row, q.a_col, room.data());
    if (gaps_b) close_gaps(q.b, p.k, p.n, q.b_row, q.b_col, room.data() + size_a * 2);
    return gemm_bf16(q);
  }
  const int64_t work = p.m * p.n * p.k;
  if (p.m <= kFewRows && p.n >= kFewColumns && work >= 1 << 22) return by_columns(p);
  const int threads = p.alone || work < (1 << 22) ? 1 : get_num_threads();
  // Blocks of rows for the threads, and of at most some 20 ms, so that an interrupt is seen soon.
  int64_t rows = p.m;
  if (threads > 1) rows = std::max<int64_t>(32, (p.m + 2 * threads - 1) / (2 * threads));
  const int64_t most = std::max<int64_t>(32, (int64_t{1} << 31) / std::max<int64_t>(1, p.n * p.k));
  rows = (std::min(rows, most) + 31) / 32 * 32;
  if (rows >= p.m) return run_here(p);
  const auto part = [&](int64_t from, int64_t to) {
    for (int64_t chunk = from; chunk < to; ++chunk) {
      Product q = p;
      const int64_t i = chunk * rows;
      q.m = std::min(rows, p.m - i);
      q.a = static_cast<const char*>(p.a) + i * p.a_row * 2;
      q.c = static_cast<char*>(p.c) + i * p.c_row * 2;
      run_here(q);
    }
  };
  const int64_t chunks = (p.m + rows - 1) / rows;
  if (threads > 1) return parallel_for(chunks, 1, part);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    if (!p.alone) check_interrupt();
    part(chunk, chunk + 1);
  }
}

}  // namespace tycho::cpu
