// RowProgram: rows of the elementwise table that are run together, tile by tile, over tensors that lie
// row by row (Backend::run_rows). Values between the rows stay in tiles; only results that somebody may
// look at go to memory. What a row computes is rounded to its type, as in memory, before another one
// reads it.
#pragma once
#include "engine/ops/elementwise/elementwise.h"

namespace tycho {

// Does the row change nothing but the sign, in a type whose sign is sooner reached as a bit than
// through lanes of float32? Such a row is not worth holding by itself.
constexpr bool is_sign_row(int row, DType compute) {
  return (static_cast<Row>(row) == Row::neg || static_cast<Row>(row) == Row::abs) &&
         is_floating(compute) && dtype_size(compute) == 2;
}

// What takes in a step's result as the last part of a program: a reduction, whose elements need not go
// to memory.
struct RowEnd {
  // Units are taken in apart from each other, maybe on several threads; their pieces come in order.
  // Both in elements; a unit is whole pieces, but that the last one may be shorter.
  int64_t unit = 0, piece = 0;
  int step = 0;

  virtual ~RowEnd() = default;
  // Elements [at, at + n) of the step's result.
  virtual void take(const char* values, int64_t at, int64_t n) = 0;
  virtual void done() = 0;  // all were taken
};

// What gives a program's first operand: a matrix product that a device has not begun, as it may compute
// the first row in its own pass.
struct RowStart {
  virtual ~RowStart() = default;
  virtual void run() = 0;
  // Computes `row` of its values, and of `other` where the row has two operands, which lies alike. Its
  // values go to their own place too when somebody has them. False: nothing was done.
  virtual bool run_with(int row, const void* other, bool values, void* to) = 0;
};

struct RowProgram {
  static constexpr int kMostSteps = 48, kMostInputs = 16, kMostEnds = 4;

  // The program's element i is the input's (i / inner) % count: whole tensors have numel and 1, a row
  // that is added to each row of a matrix [m, n] has n and 1, a column m and n.
  struct Input {
    const char* data;
    Storage* storage;  // that `data` lies in
    DType dtype;       // converted to the lanes on load
    int64_t count, inner;
  };
  // What a step's operand is: an input, the result of an earlier step, or a number.
  enum class From : uint8_t { Input, Step, Number };
  struct Operand {
    From from;
    uint8_t index;  // of the input or the step
    double number;
  };
  struct Step {
    int row;
    int n;
    Operand operand[kOperands];
    DType type;        // of the result: any floating one, or bool
    char* to;          // null: only later steps read it
    Storage* storage;  // that `to` lies in
  };

  Device device;  // where all of it lies
  DType lanes;    // Float32 or Float64
  int64_t numel;
  int inputs = 0, steps = 0, ends = 0;
  Input input[kMostInputs];
  Step step[kMostSteps];
  RowEnd* end[kMostEnds];  // all with the same units and pieces
};

}  // namespace tycho
