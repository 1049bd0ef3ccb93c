// cuBLASLt without a GPU: descriptors are checked as the library would, and products are work on the
// emulated driver's streams.
#include "engine/cuda/blas.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "engine/cuda/kernels/elements.cuh"
#include "engine/cuda/start.h"
#include "engine/grad/backward.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/linear/precision.h"
#include "engine/ops/table/op.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/same.h"

namespace tycho::cuda {
namespace {

struct FakeLayout {
  int type;
  uint64_t rows, cols;
  int64_t ld;
  int32_t batch = 1;
  int64_t step = 0;
};
struct FakeDesc {
  int compute, scale;
  int32_t trans_a = 0, trans_b = 0;
  uint32_t epilogue = 1;
  const void *bias = nullptr, *aux = nullptr;
  int64_t aux_ld = 0;
};
struct FakePreference {
  size_t workspace = 0;
  uint32_t reductions = 0, aligned[4] = {};
};
struct FakeProduct {
  FakeDesc desc;
  FakeLayout a, b, d;
  const void *pa, *pb;
  void* pd;
  double beta;
  bool loses_nan;
};

constexpr lt::Status kBadValue = 7;

int dtype_of(int type) {
  return type == lt::kReal64   ? kF64
         : type == lt::kReal32 ? kF32
         : type == lt::kReal16 ? kF16
                               : kBF16;
}

template <class T>
lt::Status assign(T& to, const void* value, size_t size) {
  if (size != sizeof to) return kBadValue;
  std::memcpy(&to, value, size);
  return 0;
}

constexpr double kGelu = 0.79788456080286536;

__global__ void fake_blas(FakeProduct p) {
  const int type = dtype_of(p.d.type), type_a = dtype_of(p.a.type), type_b = dtype_of(p.b.type);
  const auto rows = static_cast<int64_t>(p.d.rows), cols = static_cast<int64_t>(p.d.cols);
  const auto depth = static_cast<int64_t>(p.desc.trans_a ? p.a.rows : p.a.cols);
  for (int64_t i = 0; i < p.d.batch; ++i)
    for (int64_t c = 0; c < cols; ++c)
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += load<double>(p.pa, type_a,
                              i * p.a.step + (p.desc.trans_a ? k + r * p.a.ld : r + k * p.a.ld)) *
                 load<double>(p.pb, type_b,
                              i * p.b.step + (p.desc.trans_b ? c + k * p.b.ld : k + c * p.b.ld));
        const uint32_t then = p.desc.epilogue;
        if (then & lt::kWithBias) sum += load<double>(p.desc.bias, type, r);
        const int64_t at = i * p.d.step + r + c * p.d.ld, in_aux = r + c * p.desc.aux_ld;
        if (p.beta != 0) sum += p.beta * load<double>(p.pd, type, at);
        if (then & lt::kWithRelu) sum = sum < 0 || (p.loses_nan && sum != sum) ? 0 : sum;
        if (then & lt::kWithGelu) {
          if (then & lt::kWithAux) store<double>(const_cast<void*>(p.desc.aux), type, in_aux, sum);
          sum *= 0.5 * (1 + std::tanh(kGelu * (sum + 0.044715 * sum * sum * sum)));
        }
        if (then & 64) {
          const double a = load<double>(p.desc.aux, type, in_aux);
          const double t = std::tanh(kGelu * (a + 0.044715 * a * a * a));
          sum *= 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * kGelu * (1 + 3 * 0.044715 * a * a);
        }
        store<double>(p.pd, type, at, sum);
      }
  if (!(p.desc.epilogue & lt::kWithBiasGrad)) return;
  for (int64_t c = 0; c < cols; ++c) {
    double sum = 0;
    for (int64_t k = 0; k < depth; ++k)
      sum += load<double>(p.pb, type_b, p.desc.trans_b ? c + k * p.b.ld : k + c * p.b.ld);
    store<double>(const_cast<void*>(p.desc.bias), type, c, sum);
  }
}
TYCHO_KERNEL(fake_blas)

// Epilogues of the library, with what they need.
bool good_epilogue(const FakeDesc& d, const FakeLayout& o) {
  const uint32_t e = d.epilogue, rest = e & ~lt::kWithBias;
  if (e == 1) return true;
  const bool known = rest == 0 || rest == lt::kWithRelu || rest == lt::kWithGelu ||
                     rest == lt::kWithGelu + lt::kWithAux || e == lt::kWithGeluGrad ||
                     e == lt::kWithBiasGrad;
  const bool aux = e & lt::kWithAux;
  return known && o.type != lt::kReal64 && (rest == 0 || o.batch == 1) &&
         (!(e & (lt::kWithBias + lt::kWithBiasGrad)) || d.bias) &&
         (!aux || (d.aux && reinterpret_cast<uintptr_t>(d.aux) % 16 == 0 && d.aux_ld % 8 == 0 &&
                   d.aux_ld >= static_cast<int64_t>(o.rows)));
}

// As the library refuses: sizes that do not meet, leading dimensions that are too small.
bool fits(const FakeDesc& d, const FakeLayout& a, const FakeLayout& b, const FakeLayout& o) {
  const uint64_t m = d.trans_a ? a.cols : a.rows, k = d.trans_a ? a.rows : a.cols;
  const uint64_t n = d.trans_b ? b.rows : b.cols, k2 = d.trans_b ? b.cols : b.rows;
  const auto tall = [](const FakeLayout& l) { return l.ld >= static_cast<int64_t>(l.rows); };
  const bool wide = o.type == lt::kReal64;
  const bool narrow = a.type == lt::kReal16 || a.type == lt::kBrain16;
  return m == o.rows && n == o.cols && k == k2 && tall(a) && tall(b) && tall(o) &&
         a.batch == o.batch && b.batch == o.batch && a.type == b.type &&
         (a.type == o.type || (narrow && o.type == lt::kReal32)) &&
         (o.type == lt::kReal64 ? d.compute == lt::kCompute64
          : a.type == lt::kReal32
              ? d.compute == lt::kCompute32 || d.compute == lt::kCompute32ByTf32 ||
                    d.compute == lt::kCompute32By16
              : d.compute == lt::kCompute32) &&
         d.scale == (wide ? lt::kReal64 : lt::kReal32) && k > 0 && good_epilogue(d, o);
}

int chosen = 0;                   // how often a plan was asked for
int computed = 0;                 // what the last product was computed in
std::vector<uint32_t> epilogues;  // of all products
bool loses_nan = false;           // in its relu
bool knows_no_epilogue = false;

Blas make_fake() {
  Blas f;
  f.create = [](lt::Handle* h) { return *h = &chosen, 0; };
  f.new_desc = [](lt::Desc* d, int compute, int scale) {
    return *d = new FakeDesc{compute, scale}, 0;
  };
  f.set_desc = [](lt::Desc d, int attribute, const void* value, size_t size) {
    auto& desc = *static_cast<FakeDesc*>(d);
    return attribute == lt::kTransA        ? assign(desc.trans_a, value, size)
           : attribute == lt::kTransB      ? assign(desc.trans_b, value, size)
           : attribute == lt::kEpilogue    ? assign(desc.epilogue, value, size)
           : attribute == lt::kBiasPointer ? assign(desc.bias, value, size)
           : attribute == lt::kAuxPointer  ? assign(desc.aux, value, size)
           : attribute == lt::kAuxLd       ? assign(desc.aux_ld, value, size)
                                           : kBadValue;
  };
  f.end_desc = [](lt::Desc d) { return delete static_cast<FakeDesc*>(d), 0; };
  f.new_layout = [](lt::Layout* l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
    return *l = new FakeLayout{type, rows, cols, ld}, 0;
  };
  f.set_layout = [](lt::Layout l, int attribute, const void* value, size_t size) {
    auto& layout = *static_cast<FakeLayout*>(l);
    return attribute == lt::kBatchCount    ? assign(layout.batch, value, size)
           : attribute == lt::kBatchStride ? assign(layout.step, value, size)
                                           : kBadValue;
  };
  f.end_layout = [](lt::Layout l) { return delete static_cast<FakeLayout*>(l), 0; };
  f.new_preference = [](lt::Preference* p) { return *p = new FakePreference, 0; };
  f.set_preference = [](lt::Preference p, int attribute, const void* value, size_t size) {
    auto& preference = *static_cast<FakePreference*>(p);
    if (attribute == lt::kMaxWorkspace) return assign(preference.workspace, value, size);
    if (attribute == lt::kReductionMask) return assign(preference.reductions, value, size);
    const int side = attribute - lt::kAlignA;
    return side >= 0 && side < 4 ? assign(preference.aligned[side], value, size) : kBadValue;
  };
  f.end_preference = [](lt::Preference p) { return delete static_cast<FakePreference*>(p), 0; };
  f.choose = [](lt::Handle, lt::Desc d, lt::Layout a, lt::Layout b, lt::Layout c, lt::Layout o,
                lt::Preference p, int, lt::Heuristic* h, int* found) {
    ++chosen;
    const auto& preference = *static_cast<FakePreference*>(p);
    const bool plain = static_cast<FakeDesc*>(d)->epilogue == 1 || !knows_no_epilogue;
    const bool good = plain && c == o && preference.workspace >= (4u << 20) &&
                      preference.reductions == 2 &&
                      fits(*static_cast<FakeDesc*>(d), *static_cast<FakeLayout*>(a),
                           *static_cast<FakeLayout*>(b), *static_cast<FakeLayout*>(o));
    *h = {};
    h->workspace = 1024;
    return *found = good, 0;
  };
  f.multiply = [](lt::Handle, lt::Desc d, const void* alpha, const void* a, lt::Layout la,
                  const void* b, lt::Layout lb, const void* beta, const void* c, lt::Layout,
                  void* o, lt::Layout lo, const lt::Algorithm*, void* workspace, size_t size,
                  Stream stream) {
    FakeProduct p{*static_cast<FakeDesc*>(d),
                  *static_cast<FakeLayout*>(la),
                  *static_cast<FakeLayout*>(lb),
                  *static_cast<FakeLayout*>(lo),
                  a,
                  b,
                  o,
                  0,
                  loses_nan};
    const bool wide = p.d.type == lt::kReal64;
    const auto number = [&](const void* x) {
      return wide ? *static_cast<const double*>(x)
                  : static_cast<double>(*static_cast<const float*>(x));
    };
    p.beta = number(beta);
    if (number(alpha) != 1 || c != o || size != 1024 || !workspace || !fits(p.desc, p.a, p.b, p.d))
      return kBadValue;
    computed = p.desc.compute;
    epilogues.push_back(p.desc.epilogue);
    KernelHandle kernel = nullptr;
    driver().find_kernel(&kernel, nullptr, "fake_blas");
    void* arguments[] = {&p};
    return driver().launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  };
  return f;
}

const Blas fake = make_fake();
[[maybe_unused]] const bool is_set = (set_blas(&fake), true);

TEST(CudaBlas, APlanIsAskedForOnceForEachKindOfProduct) {
  emulated::start();
  start();
  const Device d{0};
  const Tensor a = filled({5, 7}, 2, DType::Float32, d), b = filled({7, 3}, 1, DType::Float32, d);
  EXPECT_EQ(number_at(op<"matmul">(a, b), 0), 14);
  const int before = chosen;
  for (int i = 0; i < 4; ++i) op<"matmul">(a, b);
  EXPECT_EQ(chosen, before);
  number_at(op<"matmul">(a, filled({7, 4}, 1, DType::Float32, d)), 0);
  EXPECT_EQ(chosen, before + 1);
}

TEST(CudaBlas, ProductsOfFloat32AreComputedInTheBitsThatAreAllowed) {
  emulated::start();
  start();
  const auto computed_in = [](MatmulPrecision precision, DType type) {
    matmul_precision = precision;
    const Tensor a = filled({2, 3}, 2, type, Device{0}), b = filled({3, 2}, 1, type, Device{0});
    EXPECT_EQ(number_at(op<"matmul">(a, b), 3), 6);
    matmul_precision = MatmulPrecision::Highest;
    return computed;
  };
  const int in32[] = {lt::kCompute32, lt::kCompute32ByTf32, lt::kCompute32By16};
  for (int k = 0; k < 3; ++k) {
    const auto precision = static_cast<MatmulPrecision>(k);
    EXPECT_EQ(computed_in(precision, DType::Float32), in32[k]);
    EXPECT_EQ(computed_in(precision, DType::BFloat16), lt::kCompute32);
    EXPECT_EQ(computed_in(precision, DType::Float64), lt::kCompute64);
  }
}

// A layer and what follows it, on the CPU and on a device, whose products' epilogues are kept.
struct Layer {
  Tensor x, w, b;
  Layer(Device d, DType type, int64_t in = 16, int64_t out = 8)
      : x(sent(mixed_numbers({6, in}, type), d)),
        w(sent(mixed_numbers({out, in}, type, 37), d)),
        b(sent(mixed_numbers({out}, type, 11), d)) {}
  Tensor operator()() const { return op<"linear">(x, w, b); }
};
template <class F>
uint32_t epilogue_after(const F& follow, DType type = DType::BFloat16, int64_t out = 8,
                        Device device = Device{0}) {
  emulated::start();
  start();
  epilogues.clear();
  const Tensor got = fetch(follow(Layer(device, type, 16, out)));
  EXPECT_FALSE(epilogues.empty());
  same_values({got}, {follow(Layer(Device{}, type, 16, out))}, type == DType::Float32 ? 1e-6 : 1e-2,
              "a layer");
  return epilogues.back();
}

TEST(CudaBlas, AnActivationOfATemporaryIsComputedInTheProductsOwnPass) {
  const auto relu = [](const Layer& f) { return fn::relu(f()) * 2; };
  const auto gelu = [](const Layer& f) { return op<"gelu">(f(), "tanh"); };
  for (const DType type : {DType::BFloat16, DType::Float16, DType::Float32})
    EXPECT_EQ(epilogue_after(relu, type), lt::kWithRelu + lt::kWithBias) << dtype_name(type);
  EXPECT_EQ(epilogue_after(relu, DType::Float64), 1u);
  EXPECT_EQ(epilogue_after(relu, DType::BFloat16, 7), lt::kWithRelu + lt::kWithBias);
  EXPECT_EQ(epilogue_after(gelu), lt::kWithGelu + lt::kWithBias);
  EXPECT_EQ(epilogue_after(gelu, DType::Float32), lt::kWithBias);  // exact to more digits
  EXPECT_EQ(epilogue_after(gelu, DType::BFloat16, 7), lt::kWithBias);
  EXPECT_EQ(epilogue_after([](const Layer& f) { return op<"gelu">(f()); }), lt::kWithBias);
  EXPECT_EQ(epilogue_after([](const Layer& f) { return fn::tanh(f()); }), lt::kWithBias);
  EXPECT_EQ(
      epilogue_after([](const Layer& f) { return fn::relu(op<"matmul">(f.x, op<"t">(f.w))); }),
      lt::kWithRelu);
}

TEST(CudaBlas, WhatSomebodyStillHasOfTheProductIsWrittenToo) {
  EXPECT_EQ(epilogue_after([](const Layer& f) {
              const Tensor p = f(), y = fn::relu(p);
              return y + p;
            }),
            lt::kWithBias);
  EXPECT_EQ(epilogue_after([](const Layer& f) {
              const Tensor p = f(), y = op<"gelu">(p, "tanh");
              return op<"cat">(std::vector<Tensor>{y, p}, 0);
            }),
            lt::kWithGelu + lt::kWithAux + lt::kWithBias);
  EXPECT_EQ(epilogue_after([](const Layer& f) {
              const Tensor p = f();
              return (op<"gelu">(p, "tanh") + 1) * p;
            }),
            lt::kWithGelu + lt::kWithAux + lt::kWithBias);
}

TEST(CudaBlas, AProductReadsWhatWasThereWhenItWasAskedFor) {
  EXPECT_EQ(epilogue_after([](const Layer& f) {
              const Tensor p = f();
              op_<"mul">(f.w, 0.5);
              return fn::relu(p);
            }),
            lt::kWithBias);
}

TEST(CudaBlas, ALibraryThatLosesNanOrKnowsNoEpilogueComputesProductsAlone) {
  const auto relu = [](const Layer& f) { return fn::relu(f()); };
  loses_nan = true;
  EXPECT_EQ(epilogue_after(relu, DType::BFloat16, 8, Device{1}), lt::kWithBias);
  loses_nan = false;
  EXPECT_EQ(epilogue_after(relu, DType::BFloat16, 8, Device{1}), lt::kWithBias);  // asked once
  knows_no_epilogue = true;
  EXPECT_EQ(epilogue_after(
                [](const Layer& f) { return op<"gelu">(op<"matmul">(f.x, op<"t">(f.w)), "tanh"); }),
            1u);
  knows_no_epilogue = false;
}

TEST(CudaBlas, GradientsOfLayersTakeTheSlopeOfGeluAndTheSumsForTheBiasInTheirProducts) {
  emulated::start();
  start();
  const auto gradients = [](Device d) {
    const Layer first(d, DType::BFloat16, 16, 8), second(d, DType::BFloat16, 8, 24);
    for (const Tensor& t : {first.x, first.w, first.b, second.w, second.b}) t->requires_grad = true;
    const Tensor y = op<"linear">(op<"gelu">(first(), "tanh"), second.w, second.b);
    epilogues.clear();
    grad::backward({y}, {filled(y.shape(), 0.25, y.dtype(), d)}, {});
    std::vector<Tensor> all;
    for (const Tensor& t : {first.x, first.w, first.b, second.w, second.b})
      all.push_back(extra_of(t.get()).grad);
    return all;
  };
  const auto got = gradients(Device{0});
  const auto count = [](uint32_t e) { return std::count(epilogues.begin(), epilogues.end(), e); };
  EXPECT_EQ(count(lt::kWithBiasGrad), 2);
  EXPECT_EQ(count(lt::kWithGeluGrad), 1);
  same_values(got, gradients(Device{}), 1e-2, "gradients");
}

}  // namespace
}  // namespace tycho::cuda
