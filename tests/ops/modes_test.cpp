// Every op elsewhere: on simulated devices, under autocast, at each lane level, on several threads.
#include <set>

#include "engine/amp/autocast.h"
#include "engine/base/parallel.h"
#include "engine/cpu/level.h"
#include "engine/grad/backward.h"
#include "engine/ops/table/apply.h"
#include "tests/ops/replayed.h"
#include "tests/ops/table.h"

namespace tycho::optest {
namespace {

// --- devices ---
class Devices : public EveryOp {
 protected:
  static void SetUpTestSuite() { simulate_cuda(4); }
};

TEST_P(Devices, SimulatedGiveTheAnswersOfTheCpu) {
  const Device gpu{0};
  each_sample([&](const Samples::Item& item) {
    const Args args = mapped(item.args, [&](const Tensor& t) { return on_device(t, gpu); });
    if (args.tensors.empty()) return;
    for (const Value& v : item.args)
      if (v.tag == Tag::Device) return;
    const auto got = call(op(), args);
    for (const Tensor& t : got) EXPECT_TRUE(!t || t.device() == gpu) << tycho::describe(t);
    if (op().random) return;  // every device has a stream of its own
    EXPECT_EQ(difference(got, call(op(), mapped(item.args, copied)), 0), "");
  });
}

TEST_P(Devices, ReplayWhatWasCaptured) {
  if (op().random || op().any_device || reads_memory() || gives_any_values()) return;
  if (!std::string_view(op().file).starts_with("engine/ops/")) return;
  each_sample([&](const Samples::Item& item) {
    for (const Value& v : item.args)
      if (v.tag == Tag::Device) return;
    if (mapped(item.args, copied).tensors.empty()) return;
    const std::string why = same_when_replayed(op(), item, Device{0});
    if (!why.empty()) skip(why);
  });
}

TEST_P(Devices, DoNotMix) {
  if (op().any_device) return;
  each_sample([&](const Samples::Item& item) {
    size_t n = mapped(item.args, copied).tensors.size();
    for (size_t which = 1; which < n; ++which) {
      size_t k = 0;
      const Args args = mapped(item.args, [&](const Tensor& t) {
        return on_device(t, Device{static_cast<int8_t>(k++ == which ? 1 : 0)});
      });
      try {
        call(op(), args);
        ADD_FAILURE() << op().name << ": tensor " << which + 1 << " on cuda:1, others on cuda:0";
      } catch (const Error& e) {
        EXPECT_EQ(kind_name(e.kind), std::string("device")) << e.what();
      }
    }
  });
}

TYCHO_EVERY_OP(Devices);

// --- autocast ---
class Autocast : public EveryOp {};

TEST_P(Autocast, GivesTheTypeOfTheOpsClassAndGradientsOfTheInputs) {
  if (reads_memory()) return;
  each_sample([&](const Samples::Item& item) {
    for (const DType dtype : {DType::Float32, DType::BFloat16}) {
      const Args args = mapped(item.args, [&](const Tensor& t) { return floating_as(t, dtype); });
      bool floats = false, given_type = false;
      for (const Tensor& t : args.tensors) {
        if (!is_floating(t.dtype())) continue;
        floats = true;
        if (op().differentiable) t->requires_grad = true;
      }
      for (const Value& v : item.args) given_type = given_type || v.tag == Tag::DType;
      if (!floats) return;
      std::vector<Tensor> out;
      amp::set({.cpu = true, .cpu_dtype = DType::BFloat16});
      try {
        out = call(op(), args);
      } catch (const Error& e) {
        amp::set({});
        if (e.kind != Kind::DType) throw;
        return skip(e.what());
      }
      amp::set({});
      for (const Tensor& y : out) {
        if (!y || !is_floating(y.dtype()) || given_type) continue;
        EXPECT_TRUE(op().amp != Amp::Low || y.dtype() == DType::BFloat16) << dtype_name(y.dtype());
        EXPECT_TRUE(op().amp != Amp::F32 || y.dtype() == DType::Float32) << dtype_name(y.dtype());
      }
      for (const Tensor& y : out) {
        if (!y || !y.requires_grad()) continue;
        std::vector<Tensor> leaves;
        for (const Tensor& t : args.tensors)
          if (t.requires_grad()) leaves.push_back(t);
        grad::SweepOptions o;
        o.allow_unused = true;
        const auto grads = grad::gradients({y}, leaves, {filled(y.shape(), 1, y.dtype())}, o);
        for (size_t i = 0; i < grads.size(); ++i)
          EXPECT_TRUE(!grads[i] || grads[i].dtype() == leaves[i].dtype()) << "gradient " << i + 1;
        break;
      }
    }
  });
}

TYCHO_EVERY_OP(Autocast);

// --- shapes without values ---
class ShapesOnlyMode : public EveryOp {
 protected:
  static bool depends_on_values(const Error& e) {
    return e.kind == Kind::Value && std::string(e.what()).find("depends on the values") < 1000;
  }
};

TEST_P(ShapesOnlyMode, GivesTheShapesAndTypesOfTheRealCall) {
  each_sample([&](const Samples::Item& item) {
    const auto want = call(op(), mapped(item.args, copied));
    for (const bool values : {true, false}) {
      const Args args = mapped(item.args, values ? Map(copied) : Map(stand_in));
      std::vector<Tensor> got;
      try {
        const ShapesOnly scope;
        const NoGrad quiet;
        got = call(op(), args);
      } catch (const Error& e) {
        EXPECT_TRUE(depends_on_values(e)) << e.what();
        continue;
      }
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].defined(), want[i].defined());
        if (!got[i]) continue;
        EXPECT_EQ(tycho::describe(got[i]), tycho::describe(want[i])) << (values ? "" : "stand-ins");
        EXPECT_TRUE(got[i].strides() == want[i].strides())
            << (values ? "" : "stand-ins") << to_string(got[i].strides())
            << to_string(want[i].strides());
      }
    }
  });
}

TYCHO_EVERY_OP(ShapesOnlyMode);

// --- lane levels ---
class Levels : public EveryOp {};

TEST_P(Levels, AllGiveTheSameAnswers) {
  if (op().random) return;
  const int best = static_cast<int>(cpu::level());
  each_sample([&](const Samples::Item& item) {
    std::vector<Args> inputs;
    for (const DType t : {DType::Float32, DType::Float64, DType::BFloat16})
      inputs.push_back(mapped(item.args, [&](const Tensor& x) { return floating_as(x, t); }));
    if (!trusts_its_caller()) inputs.push_back(enlarged(item.args, 5000));
    for (const Args& in : inputs) {
      cpu::force_level(static_cast<cpu::Level>(best));
      std::vector<Tensor> want;
      try {
        want = call(op(), mapped(in.values, copied));
      } catch (const Error& e) {
        if (e.kind != Kind::DType) skip(e.what());  // not every op takes halves
        continue;
      }
      for (int level = 0; level < best; ++level) {
        cpu::force_level(static_cast<cpu::Level>(level));
        auto got = call(op(), mapped(in.values, copied));
        if (std::string(op().name) == "eigh") {  // the sign of a vector is free
          const Tensor along = tycho::op<"sum">(tycho::op<"mul">(got[1], want[1]), Sizes{-2}, true);
          got[1] = tycho::op<"mul">(got[1], tycho::op<"sign">(along));
        }
        const bool half = !want.empty() && want[0] && want[0].dtype() == DType::BFloat16;
        // Systems of random numbers magnify what is lost in another order of sums.
        const bool system = (op().where & kLinalg) != 0 || std::string(op().name) == "inverse";
        EXPECT_EQ(difference(got, want,
                             half     ? 8e-3
                             : system ? 1e-3
                                      : 1e-5),
                  "")
            << cpu::level_name(static_cast<cpu::Level>(level)) << " on " << describe(in.values);
      }
    }
  });
}

TYCHO_EVERY_OP(Levels);

// --- threads ---
class Threads : public EveryOp {};

TEST_P(Threads, GiveTheSameBitsHoweverMany) {
  if (op().random || trusts_its_caller()) return;
  each_sample([&](const Samples::Item& item) {
    const Args in = enlarged(item.args, 60000);
    set_num_threads(1);
    std::vector<Tensor> want;
    try {
      want = call(op(), mapped(in.values, copied));
    } catch (const Error& e) {
      return skip(e.what());
    }
    for (const int n : {2, 4}) {
      set_num_threads(n);
      EXPECT_EQ(difference(call(op(), mapped(in.values, copied)), want, -1), "") << n << " threads";
    }
  });
}

TYCHO_EVERY_OP(Threads);

}  // namespace
}  // namespace tycho::optest
