// Masks, searches and counts on the device, on more elements and odder ones than samples have.
#include "tests/cuda/emulated/same.h"

namespace tycho {
namespace {

std::vector<Tensor> listed(const auto& results) { return {results.begin(), results.end()}; }

TEST(CudaFind, WhatAMaskNames) {
  for (const DType t : {DType::Bool, DType::BFloat16, DType::Float32, DType::Int64}) {
    const Tensor x = mixed_numbers({3, 150}, t, 5);
    same_on_both(x, [](const Tensor& x) {
      const Tensor mask = op<"gt">(x, 0);
      std::vector<Tensor> all = listed(ops<"nonzero">(x, true));
      for (const Tensor& r : listed(ops<"nonzero">(x, false))) all.push_back(r);
      for (const Tensor& r : listed(ops<"index.mask">(mask))) all.push_back(r);
      all.push_back(op<"masked_select">(x, mask));
      const Tensor turned = op<"transpose">(x, 0, 1);
      all.push_back(op<"masked_scatter">(turned, op<"gt">(turned, 0), op<"reshape">(x, Sizes{-1})));
      return all;
    });
  }
  same_on_both(empty({0, 4}, DType::Float32), [](const Tensor& x) {
    return std::vector<Tensor>{ops<"nonzero">(x, false)[0], op<"masked_select">(x, op<"gt">(x, 0))};
  });
}

TEST(CudaFind, TooFewElementsForAMaskAreAnError) {
  same_on_both(mixed_numbers({9}, DType::Float32), [](const Tensor& x) {
    EXPECT_THROW(op<"masked_scatter">(x, op<"ge">(x, -2), op<"narrow">(x, 0, 0, 8)), Error);
    return std::vector<Tensor>{x};
  });
}

TEST(CudaFind, DistinctElementsAndSlices) {
  Tensor x = mixed_numbers({60, 4}, DType::Float32, 3);
  x.data<float>()[7] = x.data<float>()[19] = std::nanf("");
  x.data<float>()[8] = -0.0f;
  for (const DType t : {DType::Float32, DType::Float64, DType::BFloat16})
    same_on_both(op<"to.dtype">(x, t), [](const Tensor& x) {
      std::vector<Tensor> all = listed(ops<"unique">(x, true, true, true));
      for (const Tensor& r : listed(ops<"unique">(x, true, true, true, 0))) all.push_back(r);
      for (const Tensor& r : listed(ops<"unique">(x, true, true, true, 1))) all.push_back(r);
      for (const Tensor& r : listed(ops<"unique_consecutive">(x, true, true))) all.push_back(r);
      for (const Tensor& r : listed(ops<"unique_consecutive">(x, true, true, 0))) all.push_back(r);
      return all;
    });
  same_on_both(empty({0}, DType::Int64),
               [](const Tensor& x) { return listed(ops<"unique">(x, true, true, true)); });
}

TEST(CudaFind, SearchesAndCounts) {
  const Tensor x = mixed_numbers({900}, DType::Float32, 77);
  same_on_both(x, [](const Tensor& x) {
    const Tensor whole = op<"to.dtype">(op<"mul">(x, 5), DType::Int64), counts = op<"abs">(whole);
    const Tensor few = op<"narrow">(x, 0, 0, 20), lines = op<"reshape">(x, Sizes{3, 300});
    const Tensor sorted = ops<"sort">(lines, 1)[0], order = op<"argsort">(few, 0);
    return std::vector<Tensor>{op<"searchsorted">(sorted, lines),
                               op<"searchsorted">(sorted, lines, true, true),
                               op<"searchsorted">(few, x, false, false, Value(), order),
                               op<"searchsorted.number">(op<"select">(sorted, 0, 0), 0.25),
                               op<"isin">(x, few),
                               op<"isin">(x, few, false, true),
                               op<"isin">(whole, 2),
                               op<"bincount">(counts),
                               op<"bincount">(counts, op<"abs">(x), 12),
                               op<"histc">(x, 10),
                               op<"histc">(x, 7, -0.1, 0.7),
                               op<"repeat_interleave.counts">(counts)};
  });
}

TEST(CudaFind, NumbersThatCannotBeCountedAreNamed) {
  same_on_both(mixed_numbers({20}, DType::Int64), [](const Tensor& x) {
    EXPECT_THROW(op<"bincount">(x), Error);
    EXPECT_THROW(op<"repeat_interleave.counts">(x), Error);
    return std::vector<Tensor>{x};
  });
  for (const float bad : {0.5f, 1.5f, -0.1f, std::nanf("")}) {
    const Tensor x = op<"abs">(mixed_numbers({300}, DType::Float32));
    x.data<float>()[277] = bad;
    same_on_both(x, [](const Tensor& x) { return std::vector<Tensor>{op<"first_improbable">(x)}; });
  }
}

TEST(CudaFind, ProductsOfTheOthers) {
  const Tensor x = mixed_numbers({3, 9, 5}, DType::Float32);
  x.data<float>()[3] = x.data<float>()[40] = 0;
  same_on_both(
      x,
      [](const Tensor& x) {
        return std::vector<Tensor>{op<"prod_of_others">(x, 1), op<"prod_of_others">(x, -1),
                                   op<"cumprod_backward">(x, op<"to.dtype">(x, DType::Float64), 1)};
      },
      1e-6);
}

}  // namespace
}  // namespace tycho
