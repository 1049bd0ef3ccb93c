// Programs of rows without their compiler: the source that NVRTC would get is read line by line, and its
// steps run as the rows' own kernels do, for the elements of each thread.
#include "engine/cuda/programs.h"

#include <cstdio>
#include <map>
#include <sstream>
#include <stdexcept>

#include "engine/cuda/rows.h"
#include "tests/cuda/emulated/cuda_on_cpu.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho::cuda::emulated {
namespace {

using From = RowProgram::From;

int row_named(const std::string& name) {
  static const auto* const rows = [] {
    auto* all = new std::map<std::string, int>;
    for (int row = 0; row < kRows; ++row) (*all)[row_name(row)] = row;
    return all;
  }();
  return rows->at(name);
}

// What a thread's neighbours are said to be must be so.
void expect(bool good, const std::string& line) {
  if (!good) throw std::runtime_error("an input does not lie as its kernel expects it: " + line);
}

}  // namespace

Thread bound_program(const std::string& source, void** arguments) {
  RowProgram p{};
  p.numel = *static_cast<const int64_t*>(arguments[0]);
  const auto* in = static_cast<const ProgramArguments::Input*>(arguments[1]);
  auto* const* to = static_cast<void* const*>(arguments[2]);
  int width = 0;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    int at = 0, type = 0;
    char name[64], lanes[16];
    if (std::sscanf(line.c_str(), " program<%d", &width) == 1) continue;
    if (std::sscanf(line.c_str(), " const auto x%d = input<%d, %63[a-zA-Z], n, %15[a-z]", &at,
                    &type, name, lanes) == 4) {
      const std::string reads = name;
      const ProgramArguments::Input& x = in[at];
      const bool whole = reinterpret_cast<uintptr_t>(x.data) % 16 == 0 || width == 1;
      expect(reads != "kWhole" || (x.count == p.numel && x.inner == 1 && whole), line);
      expect(reads != "kRow" || (x.inner == 1 && x.count % width == 0 && whole), line);
      expect(reads != "kColumn" || x.inner % width == 0, line);
      expect(reads != "kOne" || x.count == 1, line);
      p.input[p.inputs++] = {static_cast<const char*>(x.data), nullptr, DType(type), x.count,
                             x.inner};
      continue;
    }
    if (line.find("__global__") != std::string::npos)
      p.lanes = line.find("Values<double") != std::string::npos ? DType::Float64 : DType::Float32;
    int length = 0;
    if (std::sscanf(line.c_str(),
                    " const auto s%d = step<Value_%63[a-zA-Z0-9_], %d>(to.v[%*d], i%n", &at, name,
                    &type, &length) != 3)
      continue;
    RowProgram::Step& s = p.step[p.steps++];
    s.row = row_named(name);
    s.type = DType(type);
    s.to = static_cast<char*>(to[at]);
    char kind;
    for (const char* rest = line.c_str() + length;
         std::sscanf(rest, ", %c%d%n", &kind, &at, &length) == 2; rest += length) {
      RowProgram::Operand& o = s.operand[s.n++];
      o = {kind == 'x'   ? From::Input
           : kind == 's' ? From::Step
                         : From::Number,
           static_cast<uint8_t>(at), 0};
      if (kind == 'c')
        o.number = p.lanes == DType::Float64 ? static_cast<const double*>(arguments[3])[at]
                                             : double{static_cast<const float*>(arguments[3])[at]};
    }
  }
  const auto between = std::make_shared<std::vector<std::vector<double>>>();
  void* results[RowProgram::kMostSteps];
  std::vector<Thread> steps;
  for (int k = 0; k < p.steps; ++k) {
    results[k] = p.step[k].to;
    if (!results[k]) results[k] = between->emplace_back(static_cast<size_t>(p.numel)).data();
    Operands w = walk_of_step(p, k, results);
    void* one[] = {&w};
    const std::string kernel = std::string("row_") + row_name(p.step[k].row) +
                               (p.lanes == DType::Float64 ? "_f64" : "_f32");
    steps.push_back((*kernel_named(kernel))(one));
  }
  ++programs_run;
  return [steps, between] {
    for (const Thread& step : steps) step();
  };
}

std::atomic<int> programs_run{0};

}  // namespace tycho::cuda::emulated
