// Rows that were held back, as one kernel (Backend::run_rows): its source is written from the same rows
// (kernels/program.cuh) and compiled by NVRTC. Until that is worth it, the rows run one by one.
#pragma once
#include <string>

#include "engine/cuda/walk.h"
#include "engine/ops/elementwise/row_program.h"

namespace tycho::cuda {

void run_rows(const RowProgram& p);

// What running a program's rows one by one may cost, in nanoseconds for each row, before it is compiled.
// That takes some twenty times as long, but once for all runs of all scripts: what it gives is kept on
// disk, where it is looked for at the first sight.
inline constinit std::atomic<int64_t> compile_after{1'000'000};

// What NVRTC gets, and the kernel's name.
std::string program_source(const RowProgram& p, std::string* name);

// What the kernel takes by value, as long as the program is: the number of elements, the inputs, the
// results (null: nobody has it), and the numbers in the lanes' type.
struct ProgramArguments {
  struct Input {  // kernels/program.cuh
    const void* data;
    int64_t count, inner;
  };
  static constexpr int kMostNumbers = RowProgram::kMostSteps * kOperands;
  int64_t numel;
  Input in[RowProgram::kMostInputs] = {};
  void* to[RowProgram::kMostSteps];
  double f64[kMostNumbers] = {};
  float f32[kMostNumbers] = {};
  void* addresses[5];

  explicit ProgramArguments(const RowProgram& p);
  ProgramArguments(const ProgramArguments&) = delete;
};

// Step k as a row of its own, whose result goes to at[k], with those of earlier steps there.
Operands walk_of_step(const RowProgram& p, int k, void* const* at);

}  // namespace tycho::cuda
