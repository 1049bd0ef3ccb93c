// A convolution in the words of cuDNN's graph interface (see conv_plans.h).
#include "engine/cuda/conv_plans.h"

#include <algorithm>

#include "engine/tensor/dtype.h"

namespace tycho::cuda {
namespace {

int data_type(DType t) {
  return t == DType::Float64    ? dnn::kDouble
         : t == DType::Float32  ? dnn::kFloat
         : t == DType::BFloat16 ? dnn::kBFloat16
                                : dnn::kHalf;
}

// Up to five numbers, of a tensor's dimensions or of its spatial ones.
struct Numbers {
  int64_t v[5];
  int n = 0;
  void add(int64_t x) { v[n++] = x; }
};

// Two spatial axes, or three where the first one is there.
int first_axis(const ConvShape& s) {
  const ConvAxis& a = s.axis[0];
  return a.in == 1 && a.out == 1 && a.kernel == 1 && a.front == 0 ? 1 : 0;
}

template <class F>
Numbers spatial(const ConvShape& s, F&& number) {
  Numbers out;
  for (int d = first_axis(s); d < 3; ++d) out.add(number(s.axis[d]));
  return out;
}

Descriptor tensor(int64_t uid, DType type, int64_t aligned, int64_t count, int64_t channels,
                  const Numbers& sizes, bool is_virtual = false) {
  Numbers dims, steps;
  dims.add(count), dims.add(channels);
  for (int d = 0; d < sizes.n; ++d) dims.add(sizes.v[d]);
  steps.n = dims.n;
  int64_t step = channels;
  for (int d = dims.n - 1; d >= 2; --d) {
    steps.v[d] = step;
    step *= dims.v[d];
  }
  steps.v[0] = step, steps.v[1] = 1;
  Descriptor t(dnn::kTensor);
  t.set_value(dnn::kDataType, dnn::kOfDataType, data_type(type));
  t.set(dnn::kDims, dnn::kOfInt64, dims.n, dims.v)
      .set(dnn::kSteps, dnn::kOfInt64, steps.n, steps.v);
  t.set(dnn::kUid, uid).set(dnn::kAlignment, aligned);
  if (is_virtual) t.set(dnn::kVirtual, dnn::kOfBool, 1, &is_virtual);
  t.finish();
  return t;
}

// The convolution and, where there is a bias, its sum, which the convolution's own result goes to in
// float32 without lying in memory.
std::vector<Descriptor> operations(const ConvQuestion& q) {
  const ConvShape& s = q.shape;
  const auto type = static_cast<DType>(q.type);
  Descriptor c(dnn::kConvolution);
  const auto set = [&](int attribute, int64_t ConvAxis::*member) {
    const Numbers numbers = spatial(s, [&](const ConvAxis& a) { return a.*member; });
    c.set(attribute, dnn::kOfInt64, numbers.n, numbers.v);
  };
  c.set(dnn::kSpatialDims, 3 - first_axis(s));
  c.set_value(dnn::kComputeType, dnn::kOfDataType,
              type == DType::Float64 ? dnn::kDouble : dnn::kFloat);
  c.set_value(dnn::kMode, dnn::kOfConvolutionMode, dnn::kCrossCorrelation);
  set(dnn::kDilations, &ConvAxis::dilation);
  set(dnn::kStrides, &ConvAxis::stride);
  set(dnn::kPaddingInFront, &ConvAxis::front);
  set(dnn::kPaddingBehind, &ConvAxis::back);
  c.finish();
  const Descriptor x = tensor(kUidX, type, q.aligned[0], s.images, s.groups * s.in,
                              spatial(s, [](const ConvAxis& a) { return a.in; }));
  const Descriptor w = tensor(kUidW, type, q.aligned[1], s.groups * s.out, s.in,
                              spatial(s, [](const ConvAxis& a) { return a.kernel; }));
  const Numbers made = spatial(s, [](const ConvAxis& a) { return a.out; });
  const int64_t channels = s.groups * s.out;
  const Descriptor y = tensor(kUidY, type, q.aligned[2], s.images, channels, made);
  const bool bias = q.aligned[3] != 0;
  Descriptor sum;
  if (bias) sum = tensor(kUidSum, DType::Float32, 16, s.images, channels, made, true);
  // Each has attributes in one order: alpha, beta, the convolution, the weight's side, the image's and
  // the result's.
  constexpr int kKinds[][2] = {{dnn::kForward, dnn::kForwardAlpha},
                               {dnn::kInput, dnn::kInputAlpha},
                               {dnn::kWeight, dnn::kWeightAlpha}};
  const int kind = kKinds[q.kind][0], alpha = kKinds[q.kind][1];
  Descriptor o(kind);
  if (type == DType::Float64) {
    const double one = 1, zero = 0;
    o.set(alpha, dnn::kOfDouble, 1, &one).set(alpha + 1, dnn::kOfDouble, 1, &zero);
  } else {
    const float one = 1, zero = 0;
    o.set(alpha, dnn::kOfFloat, 1, &one).set(alpha + 1, dnn::kOfFloat, 1, &zero);
  }
  o.set_desc(alpha + 2, c).set_desc(alpha + 3, w).set_desc(alpha + 4, x);
  o.set_desc(alpha + 5, bias ? sum : y).finish();
  std::vector<Descriptor> all;
  all.push_back(std::move(o));
  if (!bias) return all;
  const Descriptor b = tensor(kUidBias, type, q.aligned[3], 1, channels,
                              spatial(s, [](const ConvAxis&) { return 1; }));
  Descriptor add(dnn::kPointwise), with(dnn::kPointwiseOperation);
  add.set_value(dnn::kPointwiseMode, dnn::kOfPointwiseMode, dnn::kPointwiseAdd);
  add.set_value(dnn::kPointwiseType, dnn::kOfDataType, dnn::kFloat).finish();
  with.set_desc(dnn::kPointwiseOf, add).set_desc(dnn::kPointwiseX, sum);
  with.set_desc(dnn::kPointwiseB, b).set_desc(dnn::kPointwiseY, y).finish();
  all.push_back(std::move(with));
  return all;
}

// The ways that one kind of heuristics names, the best first.
std::vector<Descriptor> configs(const Descriptor& graph, const PlanTarget& target, int mode) {
  Descriptor h(dnn::kHeuristics);
  h.set_desc(dnn::kHeuristicGraph, graph);
  h.set_value(dnn::kHeuristicMode, dnn::kOfHeuristicMode, mode);
  if (target.device) h.set_desc(dnn::kHeuristicDevice, *target.device);
  h.finish();
  std::vector<Descriptor> all;
  std::vector<dnn::Desc> places;
  const int64_t count = h.get(dnn::kResults, dnn::kOfDesc, 0, nullptr);
  for (int64_t i = 0; i < count; ++i) {
    all.emplace_back(dnn::kConfig);
    places.push_back(all.back().get());
  }
  const int64_t found = count ? h.get(dnn::kResults, dnn::kOfDesc, count, places.data()) : 0;
  while (static_cast<int64_t>(all.size()) > found) all.pop_back();
  return all;
}

// Whether the numbers that a way gives are what the script allows.
bool allowed(const ConvQuestion& q, const Descriptor& config) {
  const Descriptor engine(dnn::kEngine);
  dnn::Desc place = engine.get();
  config.get(dnn::kEngineOfConfig, dnn::kOfDesc, 1, &place);
  int notes[dnn::kMostNotes];
  const int64_t count = engine.get(dnn::kNotes, dnn::kOfNote, dnn::kMostNotes, notes);
  const bool exact = static_cast<DType>(q.type) == DType::Float32 && !q.tf32;
  return std::none_of(notes, notes + std::min<int64_t>(count, dnn::kMostNotes), [&](int note) {
    return note == dnn::kDownConvertInputs || note == dnn::kReducedReduction ||
           (note == dnn::kTensorCore && exact) ||
           (note == dnn::kNondeterministic && q.deterministic);
  });
}

}  // namespace

std::vector<ConvPlan> plans_of(const ConvQuestion& q, const PlanTarget& target, size_t count,
                               size_t workspace) {
  std::vector<ConvPlan> plans;
  try {
    const std::vector<Descriptor> all = operations(q);
    dnn::Desc places[2];
    for (size_t i = 0; i < all.size(); ++i) places[i] = all[i].get();
    Descriptor graph(dnn::kGraph);
    graph.set(dnn::kOperations, dnn::kOfDesc, static_cast<int64_t>(all.size()), places);
    if (target.handle) graph.set_pointer(dnn::kGraphHandle, dnn::kOfHandle, target.handle);
    graph.finish();
    for (const int mode : {dnn::kModeA, dnn::kModeFallback}) {
      std::vector<Descriptor> ways;
      try {
        ways = configs(graph, target, mode);
      } catch (const Refused&) {  // no judgement of this kind
      }
      for (const Descriptor& config : ways) {
        if (plans.size() == count) return plans;
        try {
          if (!allowed(q, config)) continue;
          Descriptor plan(dnn::kPlan);
          plan.set_desc(dnn::kPlanConfig, config);
          if (target.handle) plan.set_pointer(dnn::kPlanHandle, dnn::kOfHandle, target.handle);
          if (target.device) plan.set_desc(dnn::kPlanDevice, *target.device);
          plan.finish();
          int64_t bytes = 0;
          plan.get(dnn::kWorkspaceSize, dnn::kOfInt64, 1, &bytes);
          if (static_cast<size_t>(bytes) > workspace) continue;
          plans.push_back({std::move(plan), static_cast<size_t>(bytes)});
        } catch (const Refused&) {  // this way is none; the next one may be
        }
      }
    }
  } catch (const Refused&) {  // it is no convolution in the library's eyes
    plans.clear();
  }
  return plans;
}

}  // namespace tycho::cuda
