// One step of a recurrent layer, as the host hands it to the kernels of recurrent.cu: row-major tensors
// of `rows` sequences with n units each, one thread for each unit.
#pragma once
#include <stdint.h>

#include "engine/ops/nn/recurrence.h"

namespace tycho::cuda {

struct RecurrentStep {
  int64_t rows, n;
  tycho::Recurrence kind;
  const void* x;     // gru: what the input adds to the gates [rows, 3 n]
  const void* sums;  // lstm, rnn: sums of the gates; gru: what h adds to them
  const void* bias;  // gru: of h's part, or null
  void *h, *c;       // the state, renewed
  void* out;         // h again
  void* saved;  // lstm: the gates' values; gru: r, z, the new part, and what h added to it; or null
  void* cells;  // lstm: c again; or null
};

// The same step backward.
struct RecurrentGrad {
  int64_t rows, n;
  tycho::Recurrence kind;
  const void* g;  // of the step's result, or null
  void* dh;       // of h after the step; becomes the part of h before that needs no product
  void* dc;       // lstm: of c after the step; becomes that before
  const void *saved, *out, *cells;
  // The states before: of the first `later` sequences from the step before, of others the first.
  const void *first, *before;  // gru: h; lstm: c
  int64_t later;
  void* dx;   // of the input's part of the gates
  void* dhx;  // gru: of h's part
};

}  // namespace tycho::cuda
