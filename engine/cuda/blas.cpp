// Products by cuBLASLt: it thinks in columns, so out^T = b^T a^T is what it computes.
#include "engine/cuda/blas.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "engine/base/check.h"
#include "engine/cuda/context.h"
#include "engine/cuda/launch.h"
#include "engine/cuda/libraries.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

std::mutex mutex;  // of all below; plans are used under it, for the bias stands in them
const Blas* replaced = nullptr;

const Blas& blas() {
  if (replaced) return *replaced;
  static Blas table;
  static bool loaded = false;
  if (loaded) return table;
  const auto load = [](auto& function, const char* symbol) {
    std::string why;
    void* const found = library_function(LibraryId::CublasLt, symbol, &why);
    if (!found)
      fail(Kind::Device, "matrix products on cuda need cuBLASLt: " + why,
           library(LibraryId::CublasLt).install);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
#define FUNCTION(name, symbol, args) load(table.name, #symbol);
  TYCHO_BLAS(FUNCTION)
#undef FUNCTION
  loaded = true;
  return table;
}

void check_blas(lt::Status status, const char* what) {
  TYCHO_CHECK(Kind::Device, status == 0, "cuBLASLt: %s failed with status %d", what, status);
}

lt::Handle handle_of(Device device) {
  static std::map<std::pair<const Blas*, int>, lt::Handle> handles;
  lt::Handle& handle = handles[{&blas(), device.number}];
  if (!handle) check_blas(blas().create(&handle), "its start");
  return handle;
}

int data_type(DType t) {
  return t == DType::Float64    ? lt::kReal64
         : t == DType::Float32  ? lt::kReal32
         : t == DType::BFloat16 ? lt::kBrain16
                                : lt::kReal16;
}

// What the library multiplies in: float32 in fewer bits where the user allows it.
int compute_type(const Multiplication& p) {
  if (p.type == DType::Float64) return lt::kCompute64;
  if (p.type != DType::Float32) return lt::kCompute32;
  constexpr int kBy[] = {lt::kCompute32, lt::kCompute32ByTf32, lt::kCompute32By16};
  return kBy[static_cast<int>(p.precision)];
}

// Descriptors of a kind of product, and how the library will compute it.
struct Plan {
  lt::Desc desc = nullptr;
  lt::Layout a = nullptr, b = nullptr, d = nullptr;
  lt::Heuristic chosen{};
  bool none = false;  // there is no way
};

uint32_t epilogue_of(const Multiplication& p) {
  using Then = Multiplication::Then;
  return (p.bias ? lt::kWithBias : 0) +
         (p.then == Then::Relu        ? lt::kWithRelu
          : p.then == Then::Gelu      ? lt::kWithGelu
          : p.then == Then::GeluSlope ? lt::kWithGeluGrad
          : p.then == Then::Sums      ? lt::kWithBiasGrad
                                      : 0) +
         (p.then == Then::Gelu && p.aux ? lt::kWithAux : 0);
}

lt::Layout new_layout(int type, uint64_t rows, uint64_t cols, int64_t ld, int64_t batch,
                      int64_t step) {
  lt::Layout layout = nullptr;
  check_blas(blas().new_layout(&layout, type, rows, cols, ld), "a layout");
  const auto count = static_cast<int32_t>(batch);
  check_blas(blas().set_layout(layout, lt::kBatchCount, &count, sizeof count), "a layout");
  check_blas(blas().set_layout(layout, lt::kBatchStride, &step, sizeof step), "a layout");
  return layout;
}

// A side that lies by rows is, read by columns, its own transpose.
lt::Layout side(const Matrix& m, int type, int64_t rows, int64_t cols, int64_t batch) {
  const auto r = static_cast<uint64_t>(rows), c = static_cast<uint64_t>(cols);
  return m.by_columns ? new_layout(type, r, c, m.ld, batch, m.step)
                      : new_layout(type, c, r, m.ld, batch, m.step);
}

size_t workspace_of(Device device) { return size_t{arch(device) >= 90 ? 32u : 4u} << 20; }

Plan make_plan(Device device, const Multiplication& p, int compute) {
  Plan plan;
  const int type = data_type(p.type), wide = p.type == DType::Float64;
  check_blas(blas().new_desc(&plan.desc, compute, wide ? lt::kReal64 : lt::kReal32), "a product");
  const auto set = [&](int attribute, const auto& value) {
    check_blas(blas().set_desc(plan.desc, attribute, &value, sizeof value), "a product");
  };
  set(lt::kTransA, int32_t{p.b.by_columns ? lt::kTransposed : lt::kNone});
  set(lt::kTransB, int32_t{p.a.by_columns ? lt::kTransposed : lt::kNone});
  if (const uint32_t epilogue = epilogue_of(p)) set(lt::kEpilogue, epilogue);
  if (p.bias) set(lt::kBiasPointer, p.bias);
  if (p.sums) set(lt::kBiasPointer, p.sums);
  if (p.aux) {
    set(lt::kAuxPointer, p.aux);
    set(lt::kAuxLd, p.n);
  }
  plan.a = side(p.b, type, p.k, p.n, p.batch);
  plan.b = side(p.a, type, p.m, p.k, p.batch);
  plan.d = new_layout(p.out_float32 ? lt::kReal32 : type, static_cast<uint64_t>(p.n),
                      static_cast<uint64_t>(p.m), p.out_ld ? p.out_ld : p.n, p.batch,
                      p.out_step ? p.out_step : p.m * p.n);
  lt::Preference preference = nullptr;
  check_blas(blas().new_preference(&preference), "a preference");
  const size_t most = workspace_of(device);
  blas().set_preference(preference, lt::kMaxWorkspace, &most, sizeof most);
  blas().set_preference(preference, lt::kReductionMask, &lt::kReduceInComputeType,
                        sizeof lt::kReduceInComputeType);
  const uint32_t aligned[] = {alignment(p.b.data), alignment(p.a.data), alignment(p.out),
                              alignment(p.out)};
  for (int k = 0; k < 4; ++k)
    blas().set_preference(preference, lt::kAlignA + k, &aligned[k], sizeof aligned[k]);
  int found = 0;
  const lt::Status status = blas().choose(handle_of(device), plan.desc, plan.a, plan.b, plan.d,
                                          plan.d, preference, 1, &plan.chosen, &found);
  blas().end_preference(preference);
  plan.none = status != 0 || found == 0 || plan.chosen.state != 0;
  TYCHO_CHECK(Kind::Device, !plan.none || p.then != Multiplication::Then::Nothing,
              "cuBLASLt has no way to multiply %lld matrices [%lld, %lld] [%lld, %lld] of %s",
              static_cast<long long>(p.batch), static_cast<long long>(p.m),
              static_cast<long long>(p.k), static_cast<long long>(p.k), static_cast<long long>(p.n),
              dtype_name(p.type));
  return plan;
}

auto key_of(Device device, const Multiplication& p, int compute) {
  return std::tuple(&blas(), device.number, static_cast<int>(p.type), compute, p.batch, p.m, p.n,
                    p.k, p.a.by_columns, p.a.ld, p.a.step, alignment(p.a.data), p.b.by_columns,
                    p.b.ld, p.b.step, alignment(p.b.data), alignment(p.out), p.out_ld, p.out_step,
                    p.out_float32, epilogue_of(p), alignment(p.aux));
}

}  // namespace

uint32_t alignment(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return static_cast<uint32_t>(std::min<uintptr_t>(256, address & (~address + 1)));
}

void set_blas(const Blas* table) {
  const std::lock_guard lock(mutex);
  replaced = table;
}

bool multiply(Device device, const Multiplication& p) {
  const Stream stream = stream_of(device);
  const std::lock_guard lock(mutex);
  const int compute = compute_type(p);
  const auto key = key_of(device, p, compute);
  static auto* plans = new std::map<decltype(key_of(device, p, 0)), Plan>;  // as the program lives
  Plan& plan = (*plans)[key];
  if (!plan.d) plan = make_plan(device, p, compute);
  if (plan.none) return false;
  const auto point = [&](int attribute, const void* to) {
    if (to) check_blas(blas().set_desc(plan.desc, attribute, &to, sizeof to), "a bias");
  };
  point(lt::kBiasPointer, p.bias ? p.bias : p.sums);
  point(lt::kAuxPointer, p.aux);
  const Scratch workspace(device, plan.chosen.workspace);
  const float one = 1, beta = p.add ? 1 : 0;
  const double one64 = 1, beta64 = static_cast<double>(beta);
  const bool wide = p.type == DType::Float64;
  check_blas(blas().multiply(handle_of(device), plan.desc,
                             wide ? static_cast<const void*>(&one64) : &one, p.b.data, plan.a,
                             p.a.data, plan.b, wide ? static_cast<const void*>(&beta64) : &beta,
                             p.out, plan.d, p.out, plan.d, &plan.chosen.algorithm, workspace.as(),
                             plan.chosen.workspace, stream),
             "a matrix product");
  return true;
}

bool relu_keeps_nan(Device device, DType type) {
  static std::mutex known_mutex;
  static std::map<std::tuple<const Blas*, int, DType>, bool> known;
  const std::lock_guard lock(known_mutex);
  const Blas* table;
  {
    const std::lock_guard inner(mutex);
    table = &blas();
  }
  const auto [it, fresh] = known.try_emplace({table, device.number, type}, false);
  if (!fresh) return it->second;
  constexpr int64_t kSide = 8;
  const Tensor a = filled({kSide, kSide}, std::nan(""), type, device),
               y = filled({kSide, kSide}, 1, type, device);
  Multiplication p{};
  p.type = type;
  p.precision = matmul_precision.load(std::memory_order_relaxed);
  p.batch = 1, p.m = p.n = p.k = kSide;
  p.a = p.b = {a.data(), false, kSide, 0};
  p.out = y.data();
  p.then = Multiplication::Then::Relu;
  it->second = multiply(device, p) && std::isnan(number_at(y, 0));
  return it->second;
}

}  // namespace tycho::cuda
