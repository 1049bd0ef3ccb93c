// What tests see of the cuDNN that stands for the real one (cudnn.cpp): which of its engines computed,
// and what it is told to lack.
#pragma once
#include "engine/cuda/cudnn.h"

namespace tycho::cuda::emulated {

// The engines that the fake's heuristics name, in this order; the last one by FALLBACK only.
enum Engine : int64_t {
  kDownConverting,
  kOnTensorCores,
  kByAtomics,
  kHungry,
  kPlain,
  kLast,
  kEngines
};

struct CudnnState {
  // Told by tests.
  bool refuses_mode_a = false;
  bool fails_to_run = false;  // all but the last engine
  bool adds_no_bias = false;  // graphs of two operations
  // Seen by tests.
  int graphs = 0;  // finished ones
  int runs = 0, added = 0;  // with a bias
  int64_t engine = -1;  // of the last run
};
extern CudnnState cudnn_state;
extern const Cudnn fake_cudnn;

}  // namespace tycho::cuda::emulated
