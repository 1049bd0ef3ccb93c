// cuDNN without a GPU: descriptors are checked as the library would, and convolutions are work on the
// emulated driver's streams.
#include "tests/cuda/emulated/cudnn.h"

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "engine/cuda/kernels/elements.cuh"
#include "tests/cuda/emulated/driver.h"

namespace tycho::cuda::emulated {

CudnnState cudnn_state;

namespace {

constexpr dnn::Status kBadParam = 2000, kUnsupported = 3000, kFailed = 5000;
constexpr size_t kWorkspace = 777;
constexpr int kSecond = 10'000;  // beside an attribute's name: the second of its descriptors

struct Attribute {
  int type;
  int64_t count;
  std::vector<char> bytes;
};

// Attributes by name; what others name when it is finished is copied, as descriptors may end before
// those that were made of them.
struct FakeDesc {
  int kind;
  bool finished = false;
  std::map<int, Attribute> set;
  std::map<int, std::shared_ptr<FakeDesc>> parts;
  int64_t engine = -1;

  const Attribute* find(int name, int type, int64_t count) const {
    const auto it = set.find(name);
    return it != set.end() && it->second.type == type && it->second.count == count ? &it->second
                                                                                   : nullptr;
  }
  template <class T>
  bool is(int name, int type, T value) const {
    const Attribute* a = find(name, type, 1);
    return a && a->bytes.size() == sizeof(T) &&
           std::memcmp(a->bytes.data(), &value, sizeof(T)) == 0;
  }
  std::vector<int64_t> numbers(int name) const {
    const auto it = set.find(name);
    if (it == set.end() || it->second.type != dnn::kOfInt64) return {};
    std::vector<int64_t> all(static_cast<size_t>(it->second.count));
    std::memcpy(all.data(), it->second.bytes.data(), it->second.bytes.size());
    return all;
  }
  int64_t number(int name) const {
    const auto all = numbers(name);
    return all.size() == 1 ? all[0] : -1;
  }
  int word(int name) const {
    const auto it = set.find(name);
    int value = -1;
    if (it != set.end() && it->second.bytes.size() == sizeof value)
      std::memcpy(&value, it->second.bytes.data(), sizeof value);
    return value;
  }
  void* pointer(int name) const {
    const auto it = set.find(name);
    void* value = nullptr;
    if (it != set.end()) std::memcpy(&value, it->second.bytes.data(), sizeof value);
    return value;
  }
  const FakeDesc* part(int name, int of) const {
    const auto it = parts.find(name);
    return it != parts.end() && it->second->kind == of && it->second->finished ? it->second.get()
                                                                               : nullptr;
  }
};

FakeDesc& of(dnn::Desc d) { return *static_cast<FakeDesc*>(d); }

size_t size_of_type(int type) {
  switch (type) {
    case dnn::kOfDataType:
    case dnn::kOfConvolutionMode:
    case dnn::kOfHeuristicMode:
    case dnn::kOfNote:
    case dnn::kOfPointwiseMode:
    case dnn::kOfFloat:
      return 4;
    case dnn::kOfBool:
    case dnn::kOfChar:
      return 1;
    default:
      return 8;
  }
}

int dtype_of(int type) {
  return type == dnn::kDouble  ? kF64
         : type == dnn::kFloat ? kF32
         : type == dnn::kHalf  ? kF16
                               : kBF16;
}

struct FakeTensor {
  void* data;
  int dtype;
  int64_t size[5], step[5];
};
struct FakeConv {
  int kind, dims;
  FakeTensor x, w, y, bias;
  int64_t stride[3], dilation[3], front[3];
  char* workspace;
};

// Every product of an element of x and one of w, and where it counts in y.
template <class F>
void each_product(const FakeConv& p, F&& f) {
  const int spatial = p.dims - 2;
  const int64_t in = p.w.size[1], groups = p.x.size[1] / in, out = p.y.size[1] / groups;
  int64_t positions = 1, taps = 1;
  for (int d = 2; d < p.dims; ++d) positions *= p.y.size[d], taps *= p.w.size[d];
  for (int64_t n = 0; n < p.y.size[0]; ++n)
    for (int64_t o = 0; o < p.y.size[1]; ++o)
      for (int64_t at = 0; at < positions; ++at)
        for (int64_t tap = 0; tap < taps; ++tap) {
          int64_t x = n * p.x.step[0], y = n * p.y.step[0] + o * p.y.step[1], w = o * p.w.step[0];
          int64_t rest = at, rest_of_tap = tap;
          bool inside = true;
          for (int d = spatial - 1; d >= 0; --d) {
            const int64_t i = rest % p.y.size[d + 2], k = rest_of_tap % p.w.size[d + 2];
            rest /= p.y.size[d + 2], rest_of_tap /= p.w.size[d + 2];
            const int64_t from = i * p.stride[d] - p.front[d] + k * p.dilation[d];
            inside = inside && from >= 0 && from < p.x.size[d + 2];
            x += from * p.x.step[d + 2], y += i * p.y.step[d + 2], w += k * p.w.step[d + 2];
          }
          if (!inside) continue;
          for (int64_t c = 0; c < in; ++c)
            f(x + (o / out * in + c) * p.x.step[1], w + c * p.w.step[1], y);
        }
}

int64_t count_of(const FakeTensor& t, int dims) {
  int64_t n = 1;
  for (int d = 0; d < dims; ++d) n *= t.size[d];
  return n;
}

__global__ void fake_cudnn_conv(FakeConv p) {
  std::memset(p.workspace, 0x5a, kWorkspace);  // it is this call's alone
  const FakeTensor& made = p.kind == dnn::kForward ? p.y : p.kind == dnn::kInput ? p.x : p.w;
  std::vector<double> sums(static_cast<size_t>(count_of(made, p.dims)), 0.0);
  each_product(p, [&](int64_t x, int64_t w, int64_t y) {
    const auto at = [&](const FakeTensor& t, int64_t i) {
      return load<double>(t.data, t.dtype, i);
    };
    if (p.kind == dnn::kForward)
      sums[static_cast<size_t>(y)] += at(p.x, x) * at(p.w, w);
    else if (p.kind == dnn::kInput)
      sums[static_cast<size_t>(x)] += at(p.y, y) * at(p.w, w);
    else
      sums[static_cast<size_t>(w)] += at(p.y, y) * at(p.x, x);
  });
  for (size_t i = 0; i < sums.size(); ++i)
    store<double>(made.data, made.dtype, static_cast<int64_t>(i),
                  sums[i] + (p.bias.data ? load<double>(p.bias.data, p.bias.dtype,
                                                        static_cast<int64_t>(i) % p.y.size[1])
                                         : 0.0));
}
TYCHO_KERNEL(fake_cudnn_conv)

bool read_tensor(const FakeDesc* t, FakeTensor* to) {
  if (!t) return false;
  const auto size = t->numbers(dnn::kDims), step = t->numbers(dnn::kSteps);
  to->dtype = dtype_of(t->word(dnn::kDataType));
  std::copy(size.begin(), size.end(), to->size);
  std::copy(step.begin(), step.end(), to->step);
  return true;
}

// A tensor's channels lie side by side, its elements without gaps.
bool good_tensor(const FakeDesc& t) {
  const auto size = t.numbers(dnn::kDims), step = t.numbers(dnn::kSteps);
  const int64_t aligned = t.number(dnn::kAlignment);
  if (size.size() != step.size() || (size.size() != 4 && size.size() != 5) || aligned < 1 ||
      aligned > 16 || t.number(dnn::kUid) < 0 || !t.find(dnn::kDataType, dnn::kOfDataType, 1))
    return false;
  int64_t expected = size[1];
  for (size_t d = size.size() - 1; d >= 2; --d) {
    if (step[d] != expected) return false;
    expected *= size[d];
  }
  for (const int64_t s : size)
    if (s < 1) return false;
  return step[1] == 1 && step[0] == expected;
}

bool good_convolution(const FakeDesc& c) {
  const auto spatial = static_cast<size_t>(c.number(dnn::kSpatialDims));
  return (spatial == 2 || spatial == 3) && c.numbers(dnn::kDilations).size() == spatial &&
         c.numbers(dnn::kStrides).size() == spatial &&
         c.numbers(dnn::kPaddingInFront).size() == spatial &&
         c.numbers(dnn::kPaddingBehind).size() == spatial &&
         c.is(dnn::kMode, dnn::kOfConvolutionMode, int{dnn::kCrossCorrelation}) &&
         c.find(dnn::kComputeType, dnn::kOfDataType, 1);
}

int alpha_of(int kind) {
  return kind == dnn::kForward ? dnn::kForwardAlpha
         : kind == dnn::kInput ? dnn::kInputAlpha
                               : dnn::kWeightAlpha;
}

bool is_virtual(const FakeDesc& t) { return t.is(dnn::kVirtual, dnn::kOfBool, true); }

// A bias of each channel on a sum that lies nowhere.
bool good_addition(const FakeDesc& o) {
  const FakeDesc *add = o.part(dnn::kPointwiseOf, dnn::kPointwise),
                 *x = o.part(dnn::kPointwiseX, dnn::kTensor),
                 *b = o.part(dnn::kPointwiseB, dnn::kTensor),
                 *y = o.part(dnn::kPointwiseY, dnn::kTensor);
  if (!add || !x || !b || !y || !is_virtual(*x) || is_virtual(*b) || is_virtual(*y) ||
      !add->is(dnn::kPointwiseMode, dnn::kOfPointwiseMode, int{dnn::kPointwiseAdd}) ||
      !add->is(dnn::kPointwiseType, dnn::kOfDataType, int{dnn::kFloat}))
    return false;
  std::vector<int64_t> of_channels(y->numbers(dnn::kDims).size(), 1);
  of_channels[1] = y->numbers(dnn::kDims)[1];
  return x->numbers(dnn::kDims) == y->numbers(dnn::kDims) &&
         b->numbers(dnn::kDims) == of_channels &&
         b->word(dnn::kDataType) == y->word(dnn::kDataType);
}

bool read_operation(const FakeDesc& o, FakeConv* p) {
  const int alpha = alpha_of(o.kind);
  const FakeDesc *c = o.part(alpha + 2, dnn::kConvolution), *x = o.part(alpha + 4, dnn::kTensor);
  *p = {};
  p->kind = o.kind;
  if (!c || !read_tensor(o.part(alpha + 3, dnn::kTensor), &p->w) || !read_tensor(x, &p->x) ||
      !read_tensor(o.part(alpha + 5, dnn::kTensor), &p->y))
    return false;
  const bool wide = p->x.dtype == kF64;
  if (wide ? !o.is(alpha, dnn::kOfDouble, 1.0) || !o.is(alpha + 1, dnn::kOfDouble, 0.0)
           : !o.is(alpha, dnn::kOfFloat, 1.0f) || !o.is(alpha + 1, dnn::kOfFloat, 0.0f))
    return false;
  p->dims = static_cast<int>(x->numbers(dnn::kDims).size());
  const auto stride = c->numbers(dnn::kStrides), dilation = c->numbers(dnn::kDilations);
  const auto front = c->numbers(dnn::kPaddingInFront), back = c->numbers(dnn::kPaddingBehind);
  const int64_t in = p->w.size[1], channels = p->x.size[1];
  if (c->number(dnn::kSpatialDims) != p->dims - 2 || channels % in != 0 ||
      p->w.size[0] % (channels / in) != 0 || p->w.size[0] != p->y.size[1] ||
      p->x.size[0] != p->y.size[0] || p->x.dtype != p->w.dtype ||
      p->y.dtype != (is_virtual(*o.part(alpha + 5, dnn::kTensor)) ? int{kF32} : p->x.dtype) ||
      c->word(dnn::kComputeType) != (wide ? dnn::kDouble : dnn::kFloat))
    return false;
  for (size_t d = 0; d < stride.size(); ++d) {
    const int64_t room =
        p->x.size[d + 2] + front[d] + back[d] - dilation[d] * (p->w.size[d + 2] - 1) - 1;
    if (room < 0 || room / stride[d] + 1 != p->y.size[d + 2]) return false;
    p->stride[d] = stride[d], p->dilation[d] = dilation[d], p->front[d] = front[d];
  }
  return true;
}

dnn::Status finish(dnn::Desc desc) {
  FakeDesc& d = of(desc);
  FakeConv p;
  bool good = !d.finished;
  switch (d.kind) {
    case dnn::kTensor:
      good = good && good_tensor(d);
      break;
    case dnn::kConvolution:
      good = good && good_convolution(d);
      break;
    case dnn::kForward:
    case dnn::kInput:
    case dnn::kWeight:
      good = good && read_operation(d, &p);
      break;
    case dnn::kPointwise:
      break;
    case dnn::kPointwiseOperation:
      good = good && good_addition(d);
      break;
    case dnn::kGraph:
      good = good && d.parts.count(dnn::kOperations) && d.pointer(dnn::kGraphHandle);
      ++cudnn_state.graphs;
      if (cudnn_state.adds_no_bias && d.parts.count(dnn::kOperations + kSecond))
        return kUnsupported;
      break;
    case dnn::kHeuristics:
      good = good && d.part(dnn::kHeuristicGraph, dnn::kGraph);
      if (good && cudnn_state.refuses_mode_a && d.word(dnn::kHeuristicMode) == dnn::kModeA)
        return kUnsupported;
      break;
    case dnn::kPlan:
      good = good && d.parts.count(dnn::kPlanConfig) && d.pointer(dnn::kPlanHandle);
      break;
    case dnn::kPack:
      good = good &&
             d.find(dnn::kPackPointers, dnn::kOfPointer,
                    static_cast<int64_t>(d.numbers(dnn::kPackUids).size())) &&
             d.find(dnn::kPackWorkspace, dnn::kOfPointer, 1);
      break;
    default:
      good = false;
  }
  if (!good) return kBadParam;
  d.finished = true;
  return 0;
}

dnn::Status set(dnn::Desc desc, int name, int type, int64_t count, const void* values) {
  FakeDesc& d = of(desc);
  if (d.finished || count < 1 || !values) return kBadParam;
  const auto* bytes = static_cast<const char*>(values);
  d.set[name] = {type, count, {bytes, bytes + static_cast<size_t>(count) * size_of_type(type)}};
  if (type != dnn::kOfDesc) return 0;
  for (int64_t i = 0; i < count; ++i) {
    const dnn::Desc other = static_cast<const dnn::Desc*>(values)[i];
    if (!other || (!of(other).finished && of(other).kind != dnn::kConfig)) return kBadParam;
    d.parts[name + (i ? kSecond : 0)] = std::make_shared<FakeDesc>(of(other));
  }
  return 0;
}

dnn::Status get(dnn::Desc desc, int name, int type, int64_t most, int64_t* count, void* values) {
  FakeDesc& d = of(desc);
  if (d.kind == dnn::kHeuristics && name == dnn::kResults && type == dnn::kOfDesc && d.finished) {
    const bool by_a = d.word(dnn::kHeuristicMode) == dnn::kModeA;
    const int64_t first = by_a ? 0 : int64_t{kLast},
                  end = by_a ? int64_t{kLast} : int64_t{kEngines};
    *count = end - first;
    for (int64_t i = 0; i < std::min(most, *count); ++i) {
      FakeDesc& config = of(static_cast<dnn::Desc*>(values)[i]);
      if (config.kind != dnn::kConfig) return kBadParam;
      config.engine = first + i;
      config.parts[dnn::kHeuristicGraph] = d.parts[dnn::kHeuristicGraph];
    }
    return 0;
  }
  if (d.kind == dnn::kConfig && name == dnn::kEngineOfConfig && most == 1) {
    of(*static_cast<dnn::Desc*>(values)).engine = d.engine;
    return *count = 1, 0;
  }
  if (d.kind == dnn::kEngine && name == dnn::kNotes && type == dnn::kOfNote && d.engine >= 0) {
    constexpr int kNotesOf[kEngines] = {
        dnn::kDownConvertInputs, dnn::kTensorCore, dnn::kNondeterministic, -1, -1, -1};
    *count = kNotesOf[d.engine] >= 0;
    if (*count) *static_cast<int*>(values) = kNotesOf[d.engine];
    return 0;
  }
  if (d.kind == dnn::kPlan && name == dnn::kWorkspaceSize && type == dnn::kOfInt64 && d.finished) {
    const int64_t bytes =
        d.parts[dnn::kPlanConfig]->engine == kHungry ? int64_t{1} << 50 : int64_t{kWorkspace};
    std::memcpy(values, &bytes, sizeof bytes);
    return *count = 1, 0;
  }
  return kBadParam;
}

Stream stream_in_use = nullptr;

dnn::Status execute(dnn::Handle handle, dnn::Desc plan_desc, dnn::Desc pack_desc) {
  const FakeDesc &plan = of(plan_desc), &pack = of(pack_desc);
  if (!handle || !plan.finished || !pack.finished || plan.kind != dnn::kPlan) return kBadParam;
  const FakeDesc& config = *plan.parts.at(dnn::kPlanConfig);
  const auto& graph = config.parts.at(dnn::kHeuristicGraph)->parts;
  const FakeDesc& one = *graph.at(dnn::kOperations);
  const auto second = graph.find(dnn::kOperations + kSecond);
  if (cudnn_state.fails_to_run && config.engine != kLast) return kFailed;
  FakeConv p;
  if (!read_operation(one, &p)) return kBadParam;
  const auto uids = pack.numbers(dnn::kPackUids);
  void* addresses[4];
  const auto& bytes = pack.set.at(dnn::kPackPointers).bytes;
  if (uids.size() != (second == graph.end() ? 3u : 4u)) return kBadParam;
  std::memcpy(addresses, bytes.data(), bytes.size());
  const auto place = [&](const FakeDesc& t, FakeTensor* to) {
    read_tensor(&t, to);
    for (size_t i = 0; i < uids.size(); ++i)
      if (uids[i] == t.number(dnn::kUid)) to->data = addresses[i];
    const auto address = reinterpret_cast<uintptr_t>(to->data);
    return address && address % static_cast<uintptr_t>(t.number(dnn::kAlignment)) == 0;
  };
  const auto side = [&](int k) -> const FakeDesc& {
    return *one.parts.at(alpha_of(one.kind) + 3 + k);
  };
  if (!place(side(0), &p.w) || !place(side(1), &p.x)) return kBadParam;
  if (second == graph.end()) {
    if (!place(side(2), &p.y)) return kBadParam;
  } else if (!place(*second->second->parts.at(dnn::kPointwiseY), &p.y) ||
             !place(*second->second->parts.at(dnn::kPointwiseB), &p.bias)) {
    return kBadParam;
  }
  cudnn_state.added += second != graph.end();
  p.workspace = static_cast<char*>(pack.pointer(dnn::kPackWorkspace));
  if (!p.workspace) return kBadParam;
  ++cudnn_state.runs;
  cudnn_state.engine = config.engine;
  KernelHandle kernel = nullptr;
  driver().find_kernel(&kernel, nullptr, "fake_cudnn_conv");
  void* arguments[] = {&p};
  return driver().launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream_in_use, arguments, nullptr);
}

Cudnn make_fake() {
  Cudnn f;
  f.create = [](dnn::Handle* h) { return *h = &cudnn_state, 0; };
  f.set_stream = [](dnn::Handle, Stream s) { return stream_in_use = s, 0; };
  f.new_desc = [](int kind, dnn::Desc* d) { return *d = new FakeDesc{kind, false, {}, {}, -1}, 0; };
  f.end_desc = [](dnn::Desc d) { return delete static_cast<FakeDesc*>(d), 0; };
  f.set = set;
  f.get = get;
  f.finish = finish;
  f.execute = execute;
  return f;
}

}  // namespace

const Cudnn fake_cudnn = make_fake();

namespace {
[[maybe_unused]] const bool is_set = (set_cudnn(&fake_cudnn), true);
}

}  // namespace tycho::cuda::emulated
