// Rows that run together on a device: the bits that one after the other gives, in random programs over
// streams and changes in place; and their kernels as the host's compiler takes them.
#include "engine/cuda/programs.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "engine/cuda/rows.h"
#include "engine/cuda/start.h"
#include "engine/fuse/fuse.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/defer.h"
#include "engine/tensor/graph.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho::cuda {
namespace {

namespace fs = std::filesystem;
using From = RowProgram::From;

constexpr Device kFirst{0}, kSecond{1};
constexpr DType kFloats[] = {DType::Float32, DType::BFloat16, DType::Float16, DType::Float64};

struct CudaPrograms : testing::Test {
  const int64_t after = compile_after.exchange(0), least = fuse::least();
  CudaPrograms() {
    emulated::start();
    cuda::start();
    fuse::set_least(1);
  }
  ~CudaPrograms() override {
    compile_after = after;
    fuse::set_least(least);
  }
};

Tensor normal(std::mt19937_64& random, const Sizes& shape, DType dtype, Device device) {
  std::normal_distribution<double> next;
  const Tensor x = empty(shape, DType::Float64), y = empty(shape, dtype);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = next(random);
  copy_raw(y, x);
  return sent(y, device);
}

// A random program on a device: the same one for the same seed.
std::vector<Tensor> results_of(uint64_t seed, Device device, const std::vector<StreamId>& streams) {
  std::mt19937_64 random(seed);
  const auto draw = [&](size_t n) { return random() % n; };
  const int64_t m = 1 + static_cast<int64_t>(draw(9)), n = 1 + static_cast<int64_t>(draw(40)) * 4;
  const DType main = draw(3) ? DType::Float32 : kFloats[draw(4)];
  std::vector<Tensor> live = {
      normal(random, {m, n}, main, device), normal(random, {m, n}, kFloats[draw(4)], device),
      normal(random, {n}, main, device),    normal(random, {m, 1}, main, device),
      normal(random, {1}, main, device),    normal(random, Sizes{}, main, device)};
  // From a place that no access of 16 bytes begins at.
  live.push_back(alias(normal(random, {m * n + 1}, main, device), {m, n}, {n, 1}, 1));
  const Tensor square = normal(random, {n, n}, main, device);
  const size_t kFirstOnes = live.size();
  const auto any = [&]() -> Tensor& { return live[draw(live.size())]; };
  for (int i = 0; i < 24; ++i) {
    set_current_stream(device, streams[draw(4) ? 0 : draw(streams.size())]);
    const Tensor x = any(), y = any();
    Tensor z;
    switch (draw(18)) {
      case 0:
        z = fn::tanh(x);
        break;
      case 1:
        z = fn::exp(x);
        break;
      case 2:
        z = -x;
        break;
      case 3:
        z = fn::relu(x);
        break;
      case 4:
        z = x * 0.75 + 2;
        break;
      case 5:
        z = x - y;
        break;
      case 6:
        z = fn::maximum(x, y);
        break;
      case 7:
        z = x / y;
        break;
      case 8:
        z = fn::where(fn::gt(x, 0.3), y, 0.5);
        break;
      case 9:
        z = op<"to.dtype">(x, kFloats[draw(4)]);
        break;
      case 10:
        z = fn::where(fn::le(x, y), x, y);
        break;
      case 11:
        z = op<"sum">(x, Sizes{-1}, true);
        break;
      case 12:
        z = op<"t">(x.rank() == 2 ? x : live[0]);
        z = op<"t">(z * 2);
        break;
      case 13:
        op_<"mul">(live[1], 0.5);
        break;
      case 15:
        if (x.dtype() == main && x.rank() == 2 && x.size(1) == n)
          z = draw(3) ? fn::relu(op<"matmul">(x, square)) : op<"matmul">(x, square);
        break;
      case 16:
        op_<"mul">(square, 0.75);
        break;
      case 14:
        op_<"add">(live[0], x.rank() == 0 ? x : live[5]);
        break;
      default:
        z = fn::sigmoid(x) * y;
    }
    if (!z || z.rank() > 2) continue;
    if (draw(2) || live.size() <= kFirstOnes)
      live.push_back(z);
    else
      live[kFirstOnes + draw(live.size() - kFirstOnes)] = z;
  }
  set_current_stream(device, 0);
  std::vector<Tensor> all;
  for (const Tensor& t : live) all.push_back(fetch(t));
  return all;
}

void expect_same_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                      uint64_t seed) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    ASSERT_EQ(got[k].dtype(), want[k].dtype()) << seed;
    ASSERT_EQ(got[k].shape(), want[k].shape()) << seed;
    for (int64_t i = 0; i < want[k].numel(); ++i) {
      const double a = number_at(got[k], i), b = number_at(want[k], i);
      ASSERT_TRUE(a == b ? std::signbit(a) == std::signbit(b) : a != a && b != b)
          << "program " << seed << ", result " << k << " at " << i << ": " << a << ", not " << b;
    }
  }
}

TEST_F(CudaPrograms, GiveTheBitsOfRowsOneAfterTheOtherOnAnyStreams) {
  const Device device = cuda_device_count() > 1 ? kSecond : kFirst;
  const int before = emulated::programs_run;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    emulated::Options options;
    options.seed = seed;
    options.eager_percent = static_cast<int>(seed % 3 * 40);
    emulated::start(options);
    std::vector<StreamId> streams = {0};
    for (uint64_t i = 0; i < seed % 3; ++i)
      streams.push_back(backend_of(device).new_stream(device));
    fuse::set_least(0);
    const auto want = results_of(seed, device, streams);
    fuse::set_least(1);
    expect_same_bits(results_of(seed, device, streams), want, seed);  // in steps
    expect_same_bits(results_of(seed, device, streams), want, seed);
    for (size_t i = 1; i < streams.size(); ++i)
      backend_of(device).release_stream(device, streams[i]);
    if (HasFatalFailure()) return;
  }
  if (!emulated::kReal) {
    EXPECT_GT(emulated::programs_run - before, 100);
  }
}

TEST_F(CudaPrograms, AreCompiledWhenRunningThemInStepsHasCostEnough) {
  if (emulated::kReal) GTEST_SKIP() << "what is on disk is taken at once";
  compile_after = 40'000 / 3;
  const Tensor x = filled({5}, 0.5, DType::Float32, kFirst);
  const auto once = [&] {
    const int before = emulated::programs_run;
    const Tensor y = fn::erf(fn::sin(fn::atan(x)));
    EXPECT_NEAR(number_at(y, 3), std::erf(std::sin(std::atan(0.5))), 1e-6);
    return emulated::programs_run - before;
  };
  int runs = 0;
  while (runs < 100 && !once()) ++runs;
  EXPECT_EQ(runs, 5);  // two launches more in each
  EXPECT_EQ(once(), 1);
}

TEST_F(CudaPrograms, RunOnTheStreamThatTheirRowsWereAskedForOn) {
  emulated::Options lazy;
  lazy.eager_percent = 0;
  emulated::start(lazy);
  Backend& backend = backend_of(kFirst);
  const StreamId other = backend.new_stream(kFirst);
  const Tensor x = filled({100}, 3, DType::Float32, kFirst);
  set_current_stream(kFirst, other);
  const Tensor y = fn::square(x) + 1;
  EXPECT_EQ(rows_held, 2);
  set_current_stream(kFirst, 0);
  EXPECT_EQ(rows_held, 0);
  const bool passed = backend.passed(kFirst, other, backend.mark(kFirst, other));
  EXPECT_TRUE(!passed || emulated::kReal);  // a GPU may be that fast
  EXPECT_EQ(number_at(y, 99), 10);
  backend.release_stream(kFirst, other);
}

TEST_F(CudaPrograms, AreDoneBeforeACaptureOrInIt) {
  const Tensor x = filled({100}, 3, DType::Float32, kFirst);
  const StreamId stream = backend_of(kFirst).new_stream(kFirst);
  set_current_stream(kFirst, stream);
  tycho::Graph graph;
  const Tensor before = x * 2 + 1;
  graph.begin(kFirst, 0);
  EXPECT_EQ(rows_held, 0);
  const auto chain = [&] { return fn::square(x * 2 + before) - x; };
  Tensor y = chain();
  EXPECT_EQ(rows_held, 4);
  graph.end();
  EXPECT_EQ(rows_held, 0);
  graph.replay();
  EXPECT_EQ(number_at(y, 7), 166);
  op_<"sub">(x, 1.0);
  graph.replay();
  EXPECT_EQ(number_at(y, 7), 119);
  set_current_stream(kFirst, 0);
  graph.reset();
  backend_of(kFirst).release_stream(kFirst, stream);
}

TEST_F(CudaPrograms, OfTwoDevicesAndTheHostAreApart) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "there is one device";
  const Tensor host = filled({9}, 2, DType::Float32), a = sent(host, kFirst),
               b = sent(host, kSecond);
  const Tensor x = a * 2, y = b * 3, z = host * 4, one = filled(Sizes{}, 1, DType::Float32);
  EXPECT_EQ(number_at(x + one, 8), 5);
  EXPECT_EQ(number_at(y + one, 8), 7);
  EXPECT_EQ(number_at(z + one, 8), 9);
}

TEST_F(CudaPrograms, LeaveAFullDeviceAsItWas) {
  if (emulated::kReal) GTEST_SKIP() << "a device of a size of its own";
  const Tensor x = filled({1 << 20}, 1, DType::Float32, kFirst);
  emulated::Options small;
  small.memory = emulated::held().bytes + (size_t{5} << 20);
  backend_of(kFirst).empty_cache(kFirst);
  emulated::start(small);
  {
    const Tensor y = x * 2, z = y + 1, w = z * y;  // three results of 4 MB
    EXPECT_THROW(number_at(w, 0), Error);
    EXPECT_THROW(number_at(y, 0), Error);
    emulated::start();
    EXPECT_EQ(number_at(w, 0), 6);
    EXPECT_EQ(number_at(y, 0), 2);
  }
}

// --- The sources ---

// A program that no planner would make, over inputs of every kind.
RowProgram random_program(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](size_t n) { return random() % n; };
  RowProgram p{};
  const int64_t inner = 8 * (1 + static_cast<int64_t>(draw(3))), count = 3;
  p.lanes = draw(4) ? DType::Float32 : DType::Float64;
  p.numel = inner * count * 2 + (draw(3) == 0 ? 0 : 2);
  const bool whole = p.numel % inner == 0;
  p.inputs = 1 + static_cast<int>(draw(5));
  for (int i = 0; i < p.inputs; ++i) {
    RowProgram::Input& in = p.input[i];
    in.dtype = draw(6) ? kFloats[draw(p.lanes == DType::Float64 ? 4 : 3)] : DType::Bool;
    const size_t kind = whole && i ? draw(4) : 0;
    in.count = kind == 1 ? inner : kind == 2 ? count : kind == 3 ? 1 : p.numel;
    in.inner = kind == 2 ? inner : kind == 3 ? p.numel : 1;
  }
  constexpr Row kRowsOf[] = {Row::add,     Row::mul,  Row::sub,   Row::tanh,
                             Row::relu,    Row::gt,   Row::where, Row::exp,
                             Row::neg,     Row::div,  Row::erf,   Row::identity,
                             Row::maximum, Row::rsub, Row::sin,   Row::sigmoid};
  p.steps = 2 + static_cast<int>(draw(9));
  for (int k = 0; k < p.steps; ++k) {
    RowProgram::Step& s = p.step[k];
    s.row = static_cast<int>(kRowsOf[draw(std::size(kRowsOf))]);
    s.n = row_info[s.row].operands;
    for (int j = 0; j < s.n; ++j) {
      const size_t from = draw(4);
      if (from == 0 && s.n > 1)
        s.operand[j] = {From::Number, 0, 0.25 * static_cast<double>(draw(8))};
      else if (from > 1 && k > 0)
        s.operand[j] = {From::Step, static_cast<uint8_t>(draw(static_cast<size_t>(k))), 0};
      else
        s.operand[j] = {From::Input, static_cast<uint8_t>(draw(static_cast<size_t>(p.inputs))), 0};
    }
    s.type = row_info[s.row].type == RowType::Test ? DType::Bool
             : draw(3)                             ? p.lanes
                                                   : kFloats[draw(3)];
  }
  return p;
}

// Memory for a program, at whole 16 bytes or not; what somebody has of its results.
struct Room {
  std::vector<std::vector<double>> inputs, results;
  Room(RowProgram& p, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < p.inputs; ++i) {
      RowProgram::Input& in = p.input[i];
      const Tensor x = normal(random, {in.count}, in.dtype, Device{});
      auto& memory = inputs.emplace_back(static_cast<size_t>(in.count) + 3);
      char* to = reinterpret_cast<char*>(memory.data());
      to += (16 - reinterpret_cast<uintptr_t>(to) % 16) % 16;
      if (random() % 4 == 0) to += dtype_size(in.dtype);
      std::memcpy(to, x.data(), static_cast<size_t>(in.count * dtype_size(in.dtype)));
      in.data = to;
    }
    for (int k = 0; k < p.steps; ++k) {
      auto& memory = results.emplace_back(static_cast<size_t>(p.numel) + 2);
      char* to = reinterpret_cast<char*>(memory.data());
      p.step[k].to = random() % 3 ? to + (16 - reinterpret_cast<uintptr_t>(to) % 16) % 16 : nullptr;
    }
  }
};

// What each step gives, by the rows' own kernels.
std::vector<Tensor> steps_of(const RowProgram& p) {
  std::vector<Tensor> out;
  void* at[RowProgram::kMostSteps];
  for (int k = 0; k < p.steps; ++k) {
    out.push_back(empty({p.numel}, p.step[k].type, kFirst));
    at[k] = out.back().data();
    Operands w = walk_of_step(p, k, at);
    launch_row(kFirst, p.step[k].row, p.lanes, w);
  }
  for (Tensor& t : out) t = fetch(t);
  return out;
}

TEST_F(CudaPrograms, AreSourcesThatComputeTheirSteps) {
  if (emulated::kReal) GTEST_SKIP() << "the emulated device reads the host's memory";
  constexpr int kCases = 24;
  const fs::path folder =
      fs::temp_directory_path() / ("tycho_programs_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::vector<RowProgram> programs;
  std::vector<std::unique_ptr<Room>> rooms;
  std::vector<std::string> names;
  {
    std::ofstream file(folder / "all.cpp");
    file << "#define TYCHO_EMULATED\n#include \"engine/cuda/kernels/program.cuh\"\n"
            "extern \"C\" void place(unsigned block, unsigned thread, unsigned blocks, unsigned "
            "threads)"
            " {\n using namespace tycho::cuda::emulated;\n block_place = {block}; thread_place ="
            " {thread}; grid_size = {blocks}; block_size = {threads};\n}\n";
    for (int i = 0; i < kCases; ++i) {
      const auto seed = static_cast<uint64_t>(i + 1);
      RowProgram& p = programs.emplace_back(random_program(seed));
      rooms.push_back(std::make_unique<Room>(p, seed));
      std::string name;
      file << program_source(p, &name) << "extern \"C\" void call_" << name
           << "(void** a) { tycho::cuda::emulated::binder(tycho::cuda::" << name << ")(a)(); }\n";
      names.push_back("call_" + name);
    }
  }
  const std::string command = std::string(TYCHO_CXX " -std=c++20 -O0 -shared -fPIC -w ") +
                              "-ffp-contract=off -I" TYCHO_SOURCE_DIR " -I" TYCHO_SOURCE_DIR
                              "/tests/cuda/emulated -o " +
                              (folder / "all.so").string() + " " + (folder / "all.cpp").string() +
                              " 2>" + (folder / "said").string();
  const int status = std::system(command.c_str());
  std::stringstream said;
  said << std::ifstream(folder / "said").rdbuf();
  ASSERT_EQ(status, 0) << said.str();
  void* const library = dlopen((folder / "all.so").c_str(), RTLD_LAZY);
  ASSERT_TRUE(library) << dlerror();
  const auto place =
      reinterpret_cast<void (*)(unsigned, unsigned, unsigned, unsigned)>(dlsym(library, "place"));
  for (size_t i = 0; i < programs.size(); ++i) {
    const RowProgram& p = programs[i];
    const auto kernel = reinterpret_cast<void (*)(void**)>(dlsym(library, names[i].c_str()));
    ASSERT_TRUE(kernel);
    ProgramArguments a(p);
    for (unsigned thread = 0; thread < 6; ++thread) {
      place(thread / 3, thread % 3, 2, 3);
      kernel(a.addresses);
    }
    const std::vector<Tensor> want = steps_of(p);
    for (size_t k = 0; k < want.size(); ++k) {
      if (!p.step[k].to) continue;
      const Tensor got = empty({p.numel}, want[k].dtype());
      std::memcpy(got.data(), p.step[k].to,
                  static_cast<size_t>(p.numel * dtype_size(want[k].dtype())));
      expect_same_bits({got}, {want[k]}, i + 1);
    }
  }
  dlclose(library);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tycho::cuda
