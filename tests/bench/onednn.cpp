// The matrix products of the task list on oneDNN alone, primitive and memory objects held: what an
// engine that calls oneDNN can reach before its own overhead. JSON lines, peer "onednn" (weights as
// they are) or "onednn-packed" (weights in the layout oneDNN likes best). Usage: OMP_NUM_THREADS=N
// onednn [TASK PREFIX,...]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <string>

namespace {
using dnnl::memory;
using Type = memory::data_type;

struct Product {
  const char* task;
  Type type;
  int64_t m, k, n;
};
const Product products[] = {
    {"a.mm64", Type::f32, 64, 64, 64},
    {"f.mm_f32.16", Type::f32, 16, 16, 16},
    {"f.mm_f32.32", Type::f32, 32, 32, 32},
    {"f.mm_f32.128", Type::f32, 128, 128, 128},
    {"f.mm_f32.256", Type::f32, 256, 256, 256},
    {"f.mm_f32.512", Type::f32, 512, 512, 512},
    {"f.mm_f32.1024", Type::f32, 1024, 1024, 1024},
    {"f.mm_f32.2048", Type::f32, 2048, 2048, 2048},
    {"f.mm_bf16.1024", Type::bf16, 1024, 1024, 1024},
    {"f.linear", Type::f32, 64, 784, 512},
    {"f.mm_skinny", Type::f32, 8192, 64, 64},
};

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const memory::desc& a,
                                      const memory::desc& b, const memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c};
#else
  return {dnnl::matmul::desc(a, b, c), engine};
#endif
}

void fill(const memory& m, Type type) {
  const size_t n = m.get_desc().get_size() / (type == Type::f32 ? 4 : 2);
  for (size_t i = 0; i < n; i++) {
    const float value = 0.01f * static_cast<float>(i % 7);
    if (type == Type::f32) {
      static_cast<float*>(m.get_data_handle())[i] = value;
    } else {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      static_cast<uint16_t*>(m.get_data_handle())[i] = static_cast<uint16_t>(bits >> 16);
    }
  }
}

void run(dnnl::engine& engine, dnnl::stream& stream, const Product& p, bool packed, int threads) {
  const auto rows = memory::format_tag::ab;
  const memory::desc a({p.m, p.k}, p.type, rows), b({p.k, p.n}, p.type, rows),
      c({p.m, p.n}, p.type, rows);
  const memory::desc any({p.k, p.n}, p.type, memory::format_tag::any);
  const auto described = describe(engine, a, packed ? any : b, c);
  dnnl::matmul product(described);
  memory left(a, engine), plain(b, engine), right(described.weights_desc(), engine), out(c, engine);
  fill(left, p.type);
  fill(plain, p.type);
  dnnl::reorder(plain, right).execute(stream, plain, right);
  stream.wait();

  const double flops = 2.0 * p.m * p.k * p.n;
  const int inner = flops > 1e9 ? 1 : flops > 1e8 ? 4 : flops > 1e6 ? 100 : 5000;
  double best = 1e30;
  for (int sample = 0; sample < 20; sample++) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < inner; i++)
      product.execute(stream,
                      {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, out}});
    stream.wait();
    const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - start;
    best = std::min(best, us.count() / inner);
  }
  std::printf(
      "{\"task\": \"%s\", \"peer\": \"onednn%s\", \"threads\": %d, \"min_us\": %.5g, \"n\": 20, "
      "\"inner\": %d, "
      "\"extra\": {\"gf_s\": %.5g, \"impl\": \"%s\"}}\n",
      p.task, packed ? "-packed" : "", threads, best, inner, flops / best * 1e-3,
      described.impl_info_str());
  std::fflush(stdout);
}

bool chosen(const char* task, const std::string& prefixes) {
  for (size_t at = 0; at < prefixes.size();) {
    const size_t end = std::min(prefixes.find(',', at), prefixes.size());
    if (end > at && std::strncmp(task, prefixes.c_str() + at, end - at) == 0) return true;
    at = end + 1;
  }
  return prefixes.empty();
}
}  // namespace

int main(int argc, char** argv) {
  const char* variable = std::getenv("OMP_NUM_THREADS");
  const std::string prefixes = argc > 1 ? argv[1] : "";
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  for (const Product& p : products) {
    if (!chosen(p.task, prefixes)) continue;
    for (bool packed : {false, true})
      run(engine, stream, p, packed, variable ? std::atoi(variable) : 1);
  }
}
