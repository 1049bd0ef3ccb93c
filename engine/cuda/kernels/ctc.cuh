// ctc_loss, as the host hands it to the kernel of ctc.cu: a block of 256 threads for each sequence.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

struct Ctc {
  const void* x;  // log probabilities [all_steps, n, classes]
  void *loss, *gradient;
  int32_t dtype, zero_infinity;
  int64_t all_steps, n, classes, blank;
  int64_t states;  // of the longest sequence: labels with blanks between and around them
  const int64_t *steps, *begin, *labels;
  double *forward, *backward;  // [n, all_steps, states]
  int64_t* next;               // [n, states]: the next state with the same class, or -1
};

}  // namespace tycho::cuda
