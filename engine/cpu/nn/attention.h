// Attention in tiles: what the driver (attention.cpp) hands to the lanes (level/attention.cpp).
// "b panels": packed as gemm.h's right operand.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

constexpr int64_t kAttentionRows = 96;    // queries of a forward block
constexpr int64_t kAttentionKeys = 512;   // keys of a forward tile
constexpr int64_t kAttentionStored = 32;  // keys or values that are widened at a time
constexpr int64_t kAttentionGradRows = 72, kAttentionGradKeys = 128;  // of a backward tile

// Scores to add, or true and false, of any type; element (i, j) at [i * row + j * col].
struct AttentionMask {
  const char* data = nullptr;  // null: none
  int dtype = 0, bytes = 0;
  bool truth = false;
  int64_t row = 0, col = 0;
};

// Queries [first, first + rows) of one head against all keys.
struct AttentionRows {
  int64_t first, rows, keys, depth, width;
  bool causal;
  AttentionMask mask;
  double scale;
  const void* q;         // [rows, depth], rows q_row apart
  const void* k_turned;  // b panels: column j is key j, scaled; for few queries null, and
  const void* k;         // [keys, depth] in place, rows k_row apart
  const void* v;         // b panels [keys, width]; or in place, rows v_row apart
  void* out;             // [rows, width], rows out_row apart
  int64_t q_row, k_row, v_row, out_row;  // v_row 0: panels
  int stored;                            // the type of k and v where it is another one; else -1
  int stored_bytes;
  void* room;     // [kAttentionStored, depth or width] for those
  void* lse;      // [rows]: log of the sum of exp(scores); inf where a row has no key
  void* scratch;  // attention_scratch elements
};

// Queries [first, first + rows) against keys [key, key + keys) of one head.
struct AttentionTile {
  int64_t first, rows, key, keys, depth, width;
  bool causal;
  AttentionMask mask;
  double scale;
  const void *q, *g, *k, *v;        // rows q_row, g_row, k_row and v_row apart
  const void *k_turned, *v_turned;  // b panels: column j is key j, k scaled; for few queries null
  const void *lse, *delta;          // delta null: the tile has all keys, and finds it itself
  void *dq, *dk, *dv;               // sums; null where not wanted
  bool begins;                      // dk and dv hold nothing yet
  int64_t q_row, g_row, k_row, v_row, dq_row, dk_row, dv_row;
  void* scratch;
};

// Scores of queries [first, first + rows) against keys [key, key + keys), for products by tiles:
// scaled and masked they become weights in bfloat16, zeros up to `filled`, and `out`, `top` and
// `sum` what they were for the keys before, times what these shrink by.
struct AttentionWeights {
  int64_t first, rows, key, keys, filled, width;
  bool causal;
  AttentionMask mask;
  double scale;
  float* scores;
  uint16_t* weights;  // up to 15 more are written
  float* out;
  int64_t scores_row, weights_row, out_row;
  float *top, *sum;  // [rows]
  float* line;       // [keys]
};

}  // namespace tycho::cpu

namespace tycho::cpu::v4 {
void attention_weights(const AttentionWeights& a);
// The log of the sums of exp(scores), and `out` divided by the sums.
void attention_rows_end(int64_t rows, const float* top, float* sum, float* lse, float* out,
                        int64_t out_row, int64_t width);
// Rows [row, row + rows) of a tile, of which n keys are seen: scores (before the scale) become weights,
// and `slope` the gradient of scores instead of that of weights. `line` is room for the tile's keys.
void attention_slopes(const AttentionTile& a, int64_t row, int64_t rows, int64_t n, float* scores,
                      float* slope, int64_t step, float* line);
}  // namespace tycho::cpu::v4

// T is 0 for float, 1 for double. Elements of `scratch` that the two below want.
TYCHO_LEVELS(int64_t, attention_scratch, ())
TYCHO_LEVELS(void, attention_rows, (int type, const ::tycho::cpu::AttentionRows* a))
TYCHO_LEVELS(void, attention_grad, (int type, const ::tycho::cpu::AttentionTile* a))
// x[0, n) *= scale
TYCHO_LEVELS(void, attention_scale, (int type, void* x, int64_t n, double scale))
