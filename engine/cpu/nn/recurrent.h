// Recurrent layers: what the driver (recurrent.cpp) hands to the lanes (level/recurrent.cpp).
#pragma once
#include "engine/cpu/level.h"
#include "engine/ops/nn/recurrence.h"

namespace tycho::cpu {

// One step of `rows` sequences with n units each; rows of states and results are n elements.
struct RecurrentStep {
  int64_t rows, n;
  const void* x;  // gru: what the input adds to the gates [rows, 3 n]
  // lstm, rnn: sums of the gates, which become their values in place; gru: what h adds to them.
  void* gates;
  void *h, *c;  // the state, renewed
  void* out;    // h again
  void* saved;  // gru: r, z, the new part, and what h added to it [rows, 4 n]; may be null
  void* cells;  // lstm: c again; may be null
};

// The same step backward.
struct RecurrentGrad {
  int64_t rows, n;
  const void* g;  // of the step's result; may be null
  void* dh;       // of h after the step; becomes the part of h before that needs no product
  void* dc;       // lstm: of c after the step; becomes that before
  const void* saved;
  const void* out;
  const void* cells;
  const void *const *h_before, *const *c_before;  // per row
  void* dx;                                       // of the input's part of the gates
  void* dhx;                                      // gru: of h's part; otherwise dx
};

}  // namespace tycho::cpu

// T is 0 for float, 1 for double; `kind` a Recurrence.
TYCHO_LEVELS(void, recurrent_step, (int type, int kind, const ::tycho::cpu::RecurrentStep* s))
TYCHO_LEVELS(void, recurrent_grad, (int type, int kind, const ::tycho::cpu::RecurrentGrad* s))
// c[m, n] = a[m, k] b, with b in gemm_pack_b's panels of depth k; `begin` as gemm_packed's, or
// 3: rows to begin with, as far apart as those of c.
TYCHO_LEVELS(void, recurrent_times,
             (int type, int64_t m, int64_t n, int64_t k, const void* a, int64_t lda, const void* b,
              void* c, int64_t ldc, int begin, const void* bias))
