// Optimiser steps on a device: every rule changes many tensors, of several types and layouts, as the
// CPU does.
#include <gtest/gtest.h>

#include "engine/cuda/start.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho {
namespace {

constexpr Device kDevice{0};
using List = std::vector<Tensor>;

// 45 tensors: more than one launch takes.
List made(Device device, uint64_t seed, double low) {
  List all;
  for (int k = 0; k < 45; ++k) {
    const int64_t n = k == 3 ? 9000 : 1 + k;
    const DType t = k % 9 == 5 ? DType::Float64 : k % 9 == 7 ? DType::BFloat16 : DType::Float32;
    const Tensor x = empty({n}, DType::Float64);
    for (int64_t i = 0; i < n; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      x.data<double>()[i] = low + double(seed >> 40) * 0x1p-24 * (1 - low);
    }
    Tensor y = empty({n}, t, device);
    if (k % 4 == 1) y = alias(empty({2 * n}, t, device), {n}, {2}, 0);
    copy_raw(y, x);
    all.push_back(y);
  }
  return all;
}

struct CudaOptim : testing::Test {
  CudaOptim() {
    cuda::emulated::start();
    cuda::start();
  }
  // step(lists) on both; all lists are compared afterwards.
  template <class F>
  void same(const char* what, F&& step) {
    std::vector<List> host, there;
    for (uint64_t k = 0; k < 5; ++k) {
      host.push_back(made(Device{}, k + 1, k < 2 ? -1 : 0.1));
      there.push_back(made(kDevice, k + 1, k < 2 ? -1 : 0.1));
    }
    step(host);
    step(there);
    for (size_t k = 0; k < 5; ++k)
      for (size_t i = 0; i < host[k].size(); ++i) {
        const Tensor y = fetch(there[k][i]);
        const double off = host[k][i].dtype() == DType::BFloat16 ? 1e-2 : 1e-6;
        for (int64_t j = 0; j < y.numel(); ++j)
          ASSERT_NEAR(number_at(y, j), number_at(host[k][i], j),
                      off * (1 + std::abs(number_at(y, j))))
              << what << " list " << k << " tensor " << i << " element " << j;
      }
  }
};

TEST_F(CudaOptim, EveryStepIsTheCpus) {
  for (const bool flag : {false, true}) {
    same("sgd", [&](std::vector<List>& l) {
      ops<"_fused_sgd">(l[0], l[1], l[2], 0.1, 0.9, 0.1, 0.01, flag, flag, false);
    });
    same("adam", [&](std::vector<List>& l) {
      ops<"_fused_adam">(l[0], l[1], l[2], l[3], l[4], 3, 0.1, 0.9, 0.99, 1e-8, 0.1, flag ? 7 : 0);
    });
  }
  same("plain sgd", [](std::vector<List>& l) { ops<"_fused_sgd">(l[0], l[1], List(), 0.1); });
  same("rmsprop", [](std::vector<List>& l) {
    ops<"_fused_rmsprop">(l[0], l[1], l[2], l[3], List(), 0.9, 1e-6, 0.1, 0.5);
  });
  same("adagrad", [](std::vector<List>& l) { ops<"_fused_adagrad">(l[0], l[1], l[2], 1e-6, 0.1); });
  same("adadelta", [](std::vector<List>& l) {
    ops<"_fused_adadelta">(l[0], l[1], l[2], l[3], 0.9, 1e-6, 0.1);
  });
  same("adamax", [](std::vector<List>& l) {
    ops<"_fused_adamax">(l[0], l[1], l[2], l[3], 0.9, 0.99, 1e-6, 0.1);
  });
  same("nadam", [](std::vector<List>& l) {
    ops<"_fused_nadam">(l[0], l[1], l[2], l[3], 0.9, 0.99, 1e-6, 0.1, 0.2);
  });
  same("radam", [](std::vector<List>& l) {
    ops<"_fused_radam">(l[0], l[1], l[2], l[3], 0.9, 0.99, 1e-6, 0.1, 1.0);
  });
  same("asgd", [](std::vector<List>& l) { ops<"_fused_asgd">(l[0], l[1], l[2], 0.1, 0.5); });
  same("rprop", [](std::vector<List>& l) {
    ops<"_fused_rprop">(l[0], l[1], l[2], l[3], 0.5, 1.2, 1e-6, 50.0);
  });
}

TEST_F(CudaOptim, UnscalingTellsOfInfinities) {
  List all = made(kDevice, 1, 0.1);
  EXPECT_FALSE(item<bool>(op<"_fused_unscale">(all, 0.5)));
  const float huge = 1e30f;
  backend_of(kDevice).fill(all[0], &huge);
  EXPECT_TRUE(item<bool>(op<"_fused_unscale">(all, 1e30)));
}

}  // namespace
}  // namespace tycho
