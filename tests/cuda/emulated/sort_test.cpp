// Sorting rows of all lengths, and what follows from it, against the CPU's.
#include "tests/cuda/emulated/same.h"

namespace tycho {
namespace {

std::vector<Tensor> listed(const auto& results) { return {results.begin(), results.end()}; }
void add(std::vector<Tensor>& all, const auto& results) {
  for (const Tensor& t : results) all.push_back(t);
}

TEST(CudaSort, RowsOfAllLengthsKeepTheOrderOfEquals) {
  for (const Sizes& shape : {Sizes{3, 1}, Sizes{7, 5, 2}, Sizes{90, 4}, Sizes{1, 1024},
                             Sizes{1, 1030, 2}, Sizes{1, 2500}})
    for (const DType t : {DType::Float32, DType::Int64}) {
      if (t == DType::Int64 && shape.n > 2) continue;
      same_on_both(
          mixed_numbers(shape, t, 401),
          [](const Tensor& x) {
            std::vector<Tensor> all = listed(ops<"sort">(x, 1, false));
            add(all, ops<"sort">(x, 1, true));
            return all;
          },
          0, to_string(shape).c_str());
    }
}

TEST(CudaSort, EveryTypeHasItsOrder) {
  for (const DType t :
       {DType::Bool, DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64,
        DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
    Tensor x = mixed_numbers({2, 60}, DType::Float64, 90);
    if (is_floating(t)) {
      double* p = x.data<double>();
      p[3] = p[90] = std::nan("");
      p[5] = -0.0;
      p[6] = 0.0;
      p[8] = HUGE_VAL;
      p[9] = p[64] = -HUGE_VAL;
    } else {
      x = op<"mul">(x, 40);
    }
    same_on_both(
        op<"to.dtype">(x, t),
        [](const Tensor& x) {
          std::vector<Tensor> all = listed(ops<"sort">(x, 1, false));
          add(all, ops<"sort">(x, 1, true));
          add(all, ops<"mode">(x, 1));
          return all;
        },
        0, dtype_name(t));
  }
}

TEST(CudaSort, TheFirstOfLongRows) {
  for (const int64_t n : {40, 1100})
    for (const int64_t k : {1, 40})
      for (const DType t : {DType::Float32, DType::Float64})
        same_on_both(
            mixed_numbers({n, 2}, t, 501),
            [&](const Tensor& x) {
              std::vector<Tensor> all = listed(ops<"topk">(x, k, 0, true));
              add(all, ops<"topk">(x, k, 0, false));
              add(all, ops<"kthvalue">(x, k, 0));
              return all;
            },
            0, dtype_name(t));
  same_on_both(mixed_numbers({2500}, DType::Float32),
               [](const Tensor& x) { return listed(ops<"topk">(x, 1100, 0)); });
}

TEST(CudaSort, MediansAndModesOfRowsWithNans) {
  Tensor x = mixed_numbers({6, 9, 2}, DType::Float32, 7);
  float* p = x.data<float>();
  for (const int i : {0, 5, 20, 21}) p[i] = std::nanf("");
  for (int i = 36; i < 54; ++i) p[i] = std::nanf("");
  same_on_both(x, [](const Tensor& x) {
    std::vector<Tensor> all = listed(ops<"median.dim">(x, 1));
    add(all, ops<"nanmedian.dim">(x, 1, true));
    add(all, ops<"mode">(x, 1));
    add(all, ops<"median.dim">(x, 0));
    return all;
  });
  same_on_both(mixed_numbers({8, 5}, DType::Int64, 7),
               [](const Tensor& x) { return listed(ops<"median.dim">(x, 0)); });
}

}  // namespace
}  // namespace tycho
