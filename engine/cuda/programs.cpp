// The source of programs, their kernels, and running them step by step.
#include "engine/cuda/programs.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "engine/base/check.h"
#include "engine/cuda/context.h"
#include "engine/cuda/launch.h"
#include "engine/cuda/rows.h"

namespace tycho::cuda {
namespace {

using From = RowProgram::From;

constexpr unsigned kThreads = 256;
// Elements of all inputs that a thread loads before its first step: more would leave the registers.
constexpr int kMostLoaded = 64;

enum Reads : uint8_t { kWhole, kRow, kColumn, kOne, kAny };
constexpr const char* kReadsNames[] = {"kWhole", "kRow", "kColumn", "kOne", "kAny"};

// What a kernel is written for, besides the steps.
struct Form {
  int width = 1;  // neighbours of a thread
  bool narrow;    // indices of 32 bits will do
  Reads reads[RowProgram::kMostInputs];

  explicit Form(const RowProgram& p) : narrow(p.numel <= INT32_MAX) {
    int widest = 1;
    bool aligned = true;
    for (int i = 0; i < p.inputs; ++i) {
      widest = std::max(widest, dtype_size(p.input[i].dtype));
      aligned &= p.input[i].count != p.numel || whole_packs(p.input[i]);
    }
    for (int k = 0; k < p.steps; ++k) widest = std::max(widest, dtype_size(p.step[k].type));
    if (aligned) width = 16 / widest;
    while (width > 1 && width * p.inputs > kMostLoaded) width /= 2;
    for (int i = 0; i < p.inputs; ++i) {
      const RowProgram::Input& in = p.input[i];
      reads[i] = in.count == p.numel                                         ? kWhole
                 : in.count == 1                                             ? kOne
                 : in.inner == 1 && in.count % width == 0 && whole_packs(in) ? kRow
                 : in.inner > 1 && in.inner % width == 0                     ? kColumn
                                                                             : kAny;
    }
  }
  static bool whole_packs(const RowProgram::Input& in) {
    return reinterpret_cast<uintptr_t>(in.data) % 16 == 0;
  }
};

// Everything that the source depends on.
std::string key_of(const RowProgram& p, const Form& form, int arch) {
  std::string key;
  const auto add = [&](auto... bytes) { (key.push_back(static_cast<char>(bytes)), ...); };
  add(arch, p.lanes, form.width, form.narrow, p.inputs, p.steps);
  for (int i = 0; i < p.inputs; ++i) add(p.input[i].dtype, form.reads[i]);
  for (int k = 0; k < p.steps; ++k) {
    const RowProgram::Step& s = p.step[k];
    add(s.row & 255, s.row >> 8, s.type);
    for (int j = 0; j < s.n; ++j)
      add(s.operand[j].from, s.operand[j].from == From::Number ? 0 : s.operand[j].index);
  }
  return key;
}

const char* lane_type(const RowProgram& p) {
  return p.lanes == DType::Float64 ? "double" : "float";
}

std::string source_of(const RowProgram& p, const Form& form, std::string* name) {
  const char *lanes = lane_type(p), *index = form.narrow ? "uint32_t" : "int64_t";
  std::string body =
      format("  program<%d, %s>(numel, [&]<int n>(%s i) {\n", form.width, index, index);
  for (int i = 0; i < p.inputs; ++i)
    body += format("    const auto x%d = input<%d, %s, n, %s>(in.v[%d], i);\n", i,
                   static_cast<int>(p.input[i].dtype), kReadsNames[form.reads[i]], lanes, i);
  int numbers = 0;
  std::string steps;
  for (int k = 0; k < p.steps; ++k) {
    const RowProgram::Step& s = p.step[k];
    steps += format("    const auto s%d = step<Value_%s, %d>(to.v[%d], i", k, row_name(s.row),
                    static_cast<int>(s.type), k);
    for (int j = 0; j < s.n; ++j) {
      const RowProgram::Operand& o = s.operand[j];
      if (o.from == From::Number)
        body += format("    const auto c%d = number<n>(c.v[%d]);\n", numbers, numbers);
      steps += o.from == From::Number
                   ? format(", c%d", numbers++)
                   : format(", %c%d", o.from == From::Input ? 'x' : 's', o.index);
    }
    steps += ");\n";
  }
  body += steps + "  });\n}\n}\n";
  *name = format("program_%zx", std::hash<std::string>{}(body));
  return format(
             "#include \"engine/cuda/kernels/program.cuh\"\nnamespace tycho::cuda {\nusing "
             "namespace "
             "lanes;\nextern \"C\" __global__ void __launch_bounds__(%u) %s(int64_t numel, "
             "Values<ProgramInput, %d> in, Values<void*, %d> to, [[maybe_unused]] Values<%s, %d> "
             "c) {\n",
             kThreads, name->c_str(), std::max(p.inputs, 1), p.steps, lanes, std::max(numbers, 1)) +
         body;
}

struct Known {
  KernelHandle kernel = nullptr;
  int64_t lost = 0;  // nanoseconds, by running it in steps
  bool asked = false, refused = false;
};

// What steps lose against one kernel: launches, and writing and reading what is between them.
int64_t loss_of(const RowProgram& p) {
  constexpr int64_t kLaunch = 4000, kBytesEach = 2000;  // nanoseconds; bytes of one
  return (p.steps - 1) * (kLaunch + 2 * p.numel * dtype_size(p.lanes) / kBytesEach);
}

// Null while the steps are to run one by one.
KernelHandle kernel_of(const RowProgram& p, const Form& form) {
  static std::mutex mutex;
  static std::unordered_map<std::string, Known> programs;
  const int chip = arch(p.device);
  const std::lock_guard lock(mutex);
  Known& known = programs[key_of(p, form, chip)];
  if (known.kernel || known.refused) return known.kernel;
  const bool compile = known.lost >= compile_after * p.steps && known.asked;
  if (!compile && known.asked) return known.lost += loss_of(p), nullptr;
  known.asked = true;
  std::string name, why;
  const std::string source = source_of(p, form, &name);
  const void* const code = driver().compile_row(source, chip, !compile, &why);
  known.lost += loss_of(p);
  if (!code) return known.refused = compile, nullptr;  // the rows themselves say what is wrong
  Library library = nullptr;
  if (driver().load_library(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0) != kSuccess ||
      driver().find_kernel(&known.kernel, library, name.c_str()) != kSuccess)
    known.refused = true;
  return known.kernel;
}

void run_one_by_one(const RowProgram& p) {
  int last[RowProgram::kMostSteps] = {};  // the last step that reads each step's result
  for (int k = 0; k < p.steps; ++k)
    for (int j = 0; j < p.step[k].n; ++j)
      if (p.step[k].operand[j].from == From::Step) last[p.step[k].operand[j].index] = k;
  std::unique_ptr<Scratch> between[RowProgram::kMostSteps];
  void* at[RowProgram::kMostSteps];
  for (int k = 0; k < p.steps; ++k) {
    const RowProgram::Step& s = p.step[k];
    at[k] = s.to;
    if (!s.to) {
      between[k] = std::make_unique<Scratch>(
          p.device, static_cast<size_t>(p.numel) * static_cast<size_t>(dtype_size(s.type)));
      at[k] = between[k]->as();
    }
    Operands w = walk_of_step(p, k, at);
    launch_row(p.device, s.row, p.lanes, w);
    for (int i = 0; i <= k; ++i)
      if (last[i] <= k) between[i].reset();
  }
}

}  // namespace

Operands walk_of_step(const RowProgram& p, int k, void* const* at) {
  const RowProgram::Step& s = p.step[k];
  Operands w{};
  w.numel = p.numel;
  w.count = s.n + 1;
  // The dimensions lie between the places where an input begins or ends to repeat.
  int64_t cut[2 + 2 * kOperands] = {1, p.numel};
  int cuts = 2;
  for (int j = 0; j < s.n; ++j)
    if (s.operand[j].from == From::Input) {
      const RowProgram::Input& in = p.input[s.operand[j].index];
      cut[cuts++] = in.inner;
      cut[cuts++] = in.inner * in.count;
    }
  std::sort(cut, cut + cuts);
  cuts = static_cast<int>(std::unique(cut, cut + cuts) - cut);
  w.rank = cuts - 1;
  for (int d = 0; d < w.rank; ++d) w.size[d] = cut[cuts - 1 - d] / cut[cuts - 2 - d];
  const auto put = [&](int to, const void* data, DType dtype, int64_t count, int64_t inner) {
    w.data[to] = const_cast<void*>(data);
    w.dtype[to] = static_cast<int32_t>(dtype);
    for (int d = 0; d < w.rank; ++d) {
      const int64_t begin = cut[cuts - 2 - d], end = cut[cuts - 1 - d];
      w.stride[to][d] = inner <= begin && end <= inner * count ? begin / inner : 0;
    }
  };
  put(0, at[k], s.type, p.numel, 1);
  for (int j = 0; j < s.n; ++j) {
    const RowProgram::Operand& o = s.operand[j];
    if (o.from == From::Number) {
      w.number[j + 1] = o.number;
    } else if (o.from == From::Step) {
      put(j + 1, at[o.index], p.step[o.index].type, p.numel, 1);
    } else {
      const RowProgram::Input& in = p.input[o.index];
      put(j + 1, in.data, in.dtype, in.count, in.inner);
    }
  }
  if (w.rank <= 1) w.rank = 0;  // stride[k][0] is all there is
  return w;
}

std::string program_source(const RowProgram& p, std::string* name) {
  return source_of(p, Form(p), name);
}

ProgramArguments::ProgramArguments(const RowProgram& p) : numel(p.numel) {
  for (int i = 0; i < p.inputs; ++i) in[i] = {p.input[i].data, p.input[i].count, p.input[i].inner};
  int numbers = 0;
  for (int k = 0; k < p.steps; ++k) {
    to[k] = p.step[k].to;
    for (int j = 0; j < p.step[k].n; ++j) {
      const RowProgram::Operand& o = p.step[k].operand[j];
      if (o.from != From::Number) continue;
      f64[numbers] = o.number;
      f32[numbers++] = static_cast<float>(o.number);
    }
  }
  void* const c = p.lanes == DType::Float64 ? static_cast<void*>(f64) : f32;
  void* const all[] = {&numel, in, to, c, nullptr};
  std::copy(std::begin(all), std::end(all), addresses);
}

void run_rows(const RowProgram& p) {
  DeviceContext& device = context_of(p.device);
  if (device.streams > 1) {
    const StreamId stream = current_stream(p.device);
    for (int i = 0; i < p.inputs; ++i) device.use(*p.input[i].storage, stream, false);
    for (int k = 0; k < p.steps; ++k)
      if (p.step[k].to) device.use(*p.step[k].storage, stream, true);
  }
  if (p.steps == 1) return run_one_by_one(p);
  const Form form(p);
  const KernelHandle kernel = kernel_of(p, form);
  if (!kernel) return run_one_by_one(p);
  ProgramArguments arguments(p);
  const Grid grid = grid_for(p.device, (p.numel + form.width - 1) / form.width, kThreads);
  check(driver().launch(kernel, grid.x, 1, 1, kThreads, 1, 1, 0, stream_of(p.device),
                        arguments.addresses, nullptr),
        "rows in one");
}

}  // namespace tycho::cuda
