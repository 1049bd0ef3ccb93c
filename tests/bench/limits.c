// What this machine can do at most, as JSON lines {task "limit.NAME", peer "limit", threads,
// min_us, extra}: memory bandwidth per footprint and arithmetic peaks. tests/bench/run compiles it
// for the CPU at hand (gcc -O3 -fopenmp -march=...) and turns flops and bytes of a task into the
// least time it can take. Usage: limits THREADS. Each figure is the best of several repeats,
// because other work may share the cores.
#define _GNU_SOURCE
#include <immintrin.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifdef __AVX512F__
enum { WIDTH = 64 };
#elif defined(__AVX__)
enum { WIDTH = 32 };
#else
enum { WIDTH = 16 };
#endif
typedef float F __attribute__((vector_size(WIDTH)));
typedef double D __attribute__((vector_size(WIDTH)));
enum { FLOATS = WIDTH / 4, DOUBLES = WIDTH / 8, CHAINS = 12 };

static int threads;
static volatile float sink;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static void line(const char* name, double us, const char* unit, double value) {
  printf(
      "{\"task\": \"limit.%s\", \"peer\": \"limit\", \"threads\": %d, \"min_us\": %.5g, \"extra\": "
      "{\"%s\": %.5g}}\n",
      name, threads, us, unit, value);
}

// Past the caches, stores that do not read the line first are the best a result can do.
static inline void stream(float* p, F v) {
#ifdef __AVX512F__
  _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX__)
  _mm256_stream_ps(p, (__m256)v);
#else
  _mm_stream_ps(p, (__m128)v);
#endif
}

// This thread's part of n floats, in whole vectors.
static void part(size_t n, size_t* from, size_t* to) {
  const size_t step = 16 * FLOATS, blocks = n / step, me = (size_t)omp_get_thread_num();
  *from = blocks * me / (size_t)threads * step;
  *to = blocks * (me + 1) / (size_t)threads * step;
}

static void add(const float* a, const float* b, float* c, size_t n, int past_cache) {
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    size_t from, to;
    part(n, &from, &to);
    if (past_cache)
      for (size_t i = from; i < to; i += FLOATS)
        stream(c + i, *(const F*)(a + i) + *(const F*)(b + i));
    else
      for (size_t i = from; i < to; i += FLOATS)
        *(F*)(c + i) = *(const F*)(a + i) + *(const F*)(b + i);
  }
}

static void read_all(const float* a, size_t n) {
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    size_t from, to;
    part(n, &from, &to);
    F sum[8] = {};
    for (size_t i = from; i < to; i += 8 * FLOATS)
      for (int k = 0; k < 8; k++) sum[k] += *(const F*)(a + i + k * FLOATS);
    F all = sum[0];
    for (int k = 1; k < 8; k++) all += sum[k];
    sink = all[0];
  }
}

// Independent chains of multiply-adds that stay in registers: enough of them to hide the latency.
#define PEAK(name, V, scalar)                                            \
  static void name(long rounds) {                                        \
    _Pragma("omp parallel num_threads(threads) if (threads > 1)") {      \
      V x[CHAINS], m = (V){} + (scalar)0.999, s = (V){} + (scalar)0.001; \
      for (int k = 0; k < CHAINS; k++) x[k] = (V){} + (scalar)k;         \
      for (long r = 0; r < rounds; r++)                                  \
        for (int k = 0; k < CHAINS; k++) x[k] = x[k] * m + s;            \
      V all = x[0];                                                      \
      for (int k = 1; k < CHAINS; k++) all += x[k];                      \
      sink = (float)all[0];                                              \
    }                                                                    \
  }
PEAK(fma_f32, F, float)
PEAK(fma_f64, D, double)

#ifdef __AVX512BF16__
static void dot_bf16(long rounds) {
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    __m512 x[CHAINS];
    const __m512bh small = (__m512bh)_mm512_set1_epi32(0x3a003a00);
    for (int k = 0; k < CHAINS; k++) x[k] = _mm512_set1_ps((float)k);
    for (long r = 0; r < rounds; r++)
      for (int k = 0; k < CHAINS; k++) x[k] = _mm512_dpbf16_ps(x[k], small, small);
    for (int k = 1; k < CHAINS; k++) x[0] = _mm512_add_ps(x[0], x[k]);
    sink = _mm512_reduce_add_ps(x[0]);
  }
}
#endif

// Arrays at different distances from a 2 MB border, so that they do not fight for the same cache
// sets.
static float* array(size_t n, int k) {
  const size_t huge = 1 << 21, bytes = (n * 4 + (1 << 20) + huge - 1) / huge * huge;
  float* p = aligned_alloc(huge, bytes);
  if (!p) exit(1);
  madvise(p, bytes, MADV_HUGEPAGE);
  for (size_t i = 0; i < bytes / 4; i++) p[i] = 1.0f;
  return p + k * 1040;
}

#define BEST(out, repeats, inner, call)           \
  double out = 1e30;                              \
  for (int r_ = 0; r_ < (repeats); r_++) {        \
    const double t_ = now_us();                   \
    for (int i_ = 0; i_ < (inner); i_++) call;    \
    const double us_ = (now_us() - t_) / (inner); \
    if (us_ < out) out = us_;                     \
  }

int main(int argc, char** argv) {
  threads = argc > 1 ? atoi(argv[1]) : 1;
  if (threads < 1) return 2;
  const size_t most = 20000000;  // three arrays of 80 MB: past the last cache of most machines
  float *a = array(most, 0), *b = array(most, 1), *c = array(most, 2);
  const struct {
    const char* name;
    size_t n;
    int repeats, inner, past_cache;
  } adds[] = {{"add_1e4", 10000, 300, 200, 0},
              {"add_1e5", 100000, 300, 20, 0},
              {"add_1e6", 1000000, 100, 4, 0},
              {"add_1e7", 10000000, 30, 1, 1},
              {"add_2e7", 20000000, 30, 1, 1}};
  for (size_t k = 0; k < sizeof adds / sizeof *adds; k++) {
    BEST(us, adds[k].repeats, adds[k].inner, add(a, b, c, adds[k].n, adds[k].past_cache));
    line(adds[k].name, us, "GB_s", adds[k].n * 12 / us * 1e-3);
  }
  {
    BEST(us, 30, 1, read_all(a, 10000000));
    line("read_1e7", us, "GB_s", 4e7 / us * 1e-3);
  }
  const long rounds = 1000000;
  {
    BEST(us, 8, 1, fma_f32(rounds));
    line("fma_f32", us, "GF_s", 2.0 * rounds * CHAINS * FLOATS * threads / us * 1e-3);
  }
  {
    BEST(us, 8, 1, fma_f64(rounds));
    line("fma_f64", us, "GF_s", 2.0 * rounds * CHAINS * DOUBLES * threads / us * 1e-3);
  }
#ifdef __AVX512BF16__
  BEST(us, 8, 1, dot_bf16(rounds));
  line("dot_bf16", us, "GF_s", 2.0 * rounds * CHAINS * 32 * threads / us * 1e-3);
#endif
  return 0;
}
