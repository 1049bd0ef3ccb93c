// Convolutions by cuDNN: a plan for each kind of convolution that was asked for, kept as the program
// lives, and where the script wants it (torch.backends.cudnn.benchmark) the fastest of several.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <mutex>

#include "engine/base/check.h"
#include "engine/cuda/blas.h"
#include "engine/cuda/context.h"
#include "engine/cuda/conv.h"
#include "engine/cuda/conv_plans.h"
#include "engine/cuda/launch.h"
#include "engine/ops/nn/conv.h"

namespace tycho::cuda {
namespace {

constexpr size_t kMostWorkspace = size_t{1} << 30;
constexpr int kRounds = 3;
constexpr dnn::Status kNoMemory = -1;  // for its workspace

std::mutex mutex;  // of all below; plans run under it, for a handle holds its stream

using Key = std::array<int64_t, sizeof(ConvQuestion) / sizeof(int64_t)>;
struct Place {
  const Cudnn* library;
  int device;
  size_t ways;  // that were timed
  Key question;
  auto operator<=>(const Place&) const = default;
};
// What was found; no plan: the library has no way.
struct Kept {
  ConvPlan way;
  bool proven;  // it has run
};
std::map<Place, Kept>& plans() {
  static auto* all = new std::map<Place, Kept>;
  return *all;
}

// Null where the library does not start on this device.
dnn::Handle handle_of(const Cudnn& library, Device device) {
  static std::map<std::pair<const Cudnn*, int>, dnn::Handle> handles;
  const auto [it, fresh] = handles.try_emplace({&library, device.number}, nullptr);
  if (fresh && library.create(&it->second) != 0) it->second = nullptr;
  return it->second;
}

// Where a plan finds its tensors.
struct Addresses {
  void* at[4];  // the last one: of the bias, or null
  int64_t uids[4] = {kUidX, kUidW, kUidY, kUidBias};
  int64_t count() const { return at[3] ? 4 : 3; }
};

dnn::Status run(const Cudnn& library, dnn::Handle handle, Device device, const ConvPlan& way,
                const Addresses& m) {
  try {
    const Scratch workspace(device, way.workspace);
    Descriptor pack(dnn::kPack);
    pack.set(dnn::kPackUids, dnn::kOfInt64, m.count(), m.uids);
    pack.set(dnn::kPackPointers, dnn::kOfPointer, m.count(), m.at);
    pack.set_pointer(dnn::kPackWorkspace, dnn::kOfPointer, workspace.as()).finish();
    return library.execute(handle, way.plan.get(), pack.get());
  } catch (const Refused& refused) {
    return refused.status;
  } catch (const Error& e) {
    if (e.kind != Kind::Oom) throw;
    return kNoMemory;
  }
}

// Milliseconds of some rounds after a first one; infinite where it does not run.
template <class F>
float time_of(Stream stream, F&& run_once) {
  Event from = nullptr, to = nullptr;
  check(driver().new_event(&from, 0), "an event");
  check(driver().new_event(&to, 0), "an event");
  bool good = run_once();
  check(driver().record_event(from, stream), "an event");
  for (int i = 0; i < kRounds && good; ++i) good = run_once();
  check(driver().record_event(to, stream), "an event");
  check(driver().finish_event(to), "timing a convolution");
  float milliseconds = 0;
  check(driver().time_between(&milliseconds, from, to), "the time between events");
  driver().end_event(from), driver().end_event(to);
  return good ? milliseconds : std::numeric_limits<float>::infinity();
}

ConvQuestion question_of(ConvKind kind, const ConvShape& s, DType type, const Addresses& m) {
  ConvQuestion q{};
  q.kind = static_cast<int64_t>(kind);
  q.type = static_cast<int64_t>(type);
  q.tf32 = type == DType::Float32 && convolution_settings.allow_tf32;
  q.deterministic = convolution_settings.deterministic;
  for (int k = 0; k < m.count(); ++k) q.aligned[k] = std::min<int64_t>(16, alignment(m.at[k]));
  q.shape = s;
  return q;
}

}  // namespace

std::vector<ConvQuestion> questions_asked() {
  const std::lock_guard lock(mutex);
  std::vector<ConvQuestion> all;
  for (const auto& [place, kept] : plans())
    all.push_back(std::bit_cast<ConvQuestion>(place.question));
  return all;
}

bool convolve_by_library(ConvKind kind, const ConvShape& s, const Tensor& x, const Tensor& w,
                         const Tensor& y, const Tensor& bias) {
  if (!is_floating(x.dtype()) || !convolution_settings.enabled) return false;
  const Cudnn* const library = cudnn();
  if (!library) return false;
  const Device device = x.device();
  const Stream stream = stream_of(device);
  const std::lock_guard lock(mutex);
  const dnn::Handle handle = handle_of(*library, device);
  if (!handle) return false;
  TYCHO_CHECK(Kind::Device, library->set_stream(handle, stream) == 0,
              "cuDNN: choosing a stream failed");
  const Addresses m{
      {x.data<void>(), w.data<void>(), y.data<void>(), bias ? bias.data<void>() : nullptr}};
  const ConvQuestion q = question_of(kind, s, x.dtype(), m);
  const auto limit = static_cast<size_t>(convolution_settings.benchmark_limit.load());
  const size_t most = !convolution_settings.benchmark ? 1 : limit ? limit : SIZE_MAX;
  const auto [it, fresh] =
      plans().try_emplace({library, device.number, most, std::bit_cast<Key>(q)});
  Kept& kept = it->second;
  if (fresh) {
    std::vector<ConvPlan> ways = plans_of(q, {.handle = handle}, most, kMostWorkspace);
    float best = std::numeric_limits<float>::infinity();
    for (ConvPlan& way : ways) {
      const float time = ways.size() == 1 ? 0 : time_of(stream, [&] {
        return run(*library, handle, device, way, m) == 0;
      });
      if (time >= best) continue;
      best = time;
      kept.way = std::move(way);
    }
  }
  if (!kept.way.plan) return false;
  const dnn::Status status = run(*library, handle, device, kept.way, m);
  if (status == kNoMemory) return false;
  if (status != 0 && !kept.proven) {  // a way that cannot run here is none
    kept.way = {};
    return false;
  }
  TYCHO_CHECK(Kind::Device, status == 0, "cuDNN: a convolution failed with status %d", status);
  kept.proven = true;
  return true;
}

}  // namespace tycho::cuda
