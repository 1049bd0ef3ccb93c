// cuDNN's graph interface as a table of functions: loaded by the first convolution, replaced by tests.
// Everything is asked for by descriptors: objects whose attributes are set, then finished.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "engine/cuda/driver.h"
#include "engine/tensor/device.h"

namespace tycho::cuda {

// Values of cudnn_graph.h.
namespace dnn {
using Status = int;
using Handle = void*;
using Desc = void*;
// What a descriptor is of.
enum : int { kConvolution = 1, kEngine = 2, kConfig = 3, kHeuristics = 4, kPlan = 5 };
enum : int { kForward = 10, kWeight = 11, kInput = 12, kGraph = 15, kPack = 16, kTensor = 17 };
enum : int { kPointwise = 0, kPointwiseOperation = 13, kDevice = 38 };
// Types of attributes.
enum : int { kOfHandle = 0, kOfDataType = 1, kOfBool = 2, kOfInt64 = 3, kOfFloat = 4, kOfDouble = 5 };
enum : int { kOfPointer = 6, kOfConvolutionMode = 7, kOfHeuristicMode = 8, kOfNote = 11 };
enum : int { kOfPointwiseMode = 14, kOfDesc = 15, kOfChar = 24 };
// Attributes: of kConvolution
enum : int { kComputeType = 100, kMode = 101, kDilations = 102, kStrides = 103 };
enum : int { kPaddingBehind = 104, kPaddingInFront = 105, kSpatialDims = 106 };
// of kHeuristics, kConfig, kPlan
enum : int { kHeuristicMode = 200, kHeuristicGraph = 201, kResults = 202, kHeuristicDevice = 204 };
enum : int { kEngineOfConfig = 300 };
enum : int { kPlanHandle = 400, kPlanConfig = 401, kWorkspaceSize = 402, kPlanDevice = 407 };
// of kForward, kInput, kWeight: alpha, beta, the convolution, and three tensors
enum : int { kForwardAlpha = 700, kInputAlpha = 706, kWeightAlpha = 712 };
// of kPointwise, kPointwiseOperation
enum : int { kPointwiseMode = 0, kPointwiseType = 1, kPointwiseOf = 750 };
enum : int { kPointwiseX = 751, kPointwiseB = 752, kPointwiseY = 753 };
// of kGraph, kTensor, kPack, kEngine, kDevice
enum : int { kGraphHandle = 800, kOperations = 801 };
enum : int { kAlignment = 900, kDataType = 901, kDims = 902, kSteps = 903, kUid = 906, kVirtual = 907 };
enum : int { kPackUids = 1000, kPackPointers = 1001, kPackWorkspace = 1003 };
enum : int { kNotes = 1303 };
enum : int { kDeviceJson = 2702 };
// Values
enum : int { kFloat = 0, kDouble = 1, kHalf = 2, kBFloat16 = 9 };
enum : int { kCrossCorrelation = 1, kPointwiseAdd = 0 };
enum : int { kModeFallback = 2, kModeA = 3 };
enum : int { kTensorCore = 0, kDownConvertInputs = 1, kReducedReduction = 2 };  // notes
enum : int { kNondeterministic = 4, kMostNotes = 32 };
}  // namespace dnn

#define TYCHO_CUDNN(F)                                                                \
  F(create, cudnnCreate, (dnn::Handle*))                                              \
  F(set_stream, cudnnSetStream, (dnn::Handle, Stream))                                \
  F(new_desc, cudnnBackendCreateDescriptor, (int kind, dnn::Desc*))                   \
  F(set, cudnnBackendSetAttribute,                                                    \
    (dnn::Desc, int attribute, int type, int64_t count, const void* values))          \
  F(get, cudnnBackendGetAttribute,                                                    \
    (dnn::Desc, int attribute, int type, int64_t most, int64_t* count, void* values)) \
  F(finish, cudnnBackendFinalize, (dnn::Desc))                                        \
  F(end_desc, cudnnBackendDestroyDescriptor, (dnn::Desc))                             \
  F(execute, cudnnBackendExecute, (dnn::Handle, dnn::Desc plan, dnn::Desc pack))

struct Cudnn {
#define FUNCTION(name, symbol, args) dnn::Status(*name) args = nullptr;
  TYCHO_CUDNN(FUNCTION)
#undef FUNCTION
};

void set_cudnn(const Cudnn* table);  // for tests; null: the library itself
// Null and a sentence in *why where the library is missing or too old.
const Cudnn* cudnn(std::string* why = nullptr);
// False where this machine's library lacks a function.
bool fill_cudnn(Cudnn& table, std::string* why);

// What the library said no to; the caller looks for another way.
struct Refused {
  dnn::Status status;
};

// An object of the library.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int kind);
  Descriptor(Descriptor&& other) noexcept
      : library_(other.library_), desc_(std::exchange(other.desc_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(desc_, other.desc_);
    return *this;
  }
  ~Descriptor() {
    if (desc_) library_->end_desc(desc_);
  }
  dnn::Desc get() const { return desc_; }
  explicit operator bool() const { return desc_; }

  // These raise Refused.
  Descriptor& set(int attribute, int type, int64_t count, const void* values);
  Descriptor& set(int attribute, int64_t value) { return set(attribute, dnn::kOfInt64, 1, &value); }
  Descriptor& set_value(int attribute, int type, int value) {
    return set(attribute, type, 1, &value);
  }
  Descriptor& set_desc(int attribute, const Descriptor& other) {
    return set(attribute, dnn::kOfDesc, 1, &other.desc_);
  }
  Descriptor& set_pointer(int attribute, int type, const void* pointer) {
    return set(attribute, type, 1, &pointer);
  }
  Descriptor& finish();
  int64_t get(int attribute, int type, int64_t most, void* values) const;  // how many

 private:
  const Cudnn* library_ = nullptr;
  dnn::Desc desc_ = nullptr;
};

}  // namespace tycho::cuda
