// The source of rows as NVRTC takes it, for every kind of GPU, and its cache on disk.
#include "engine/cuda/nvrtc.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/cuda/programs.h"
#include "engine/cuda/rows.h"
#include "engine/ops/elementwise/elementwise.h"

namespace tycho::cuda {
namespace {

namespace fs = std::filesystem;

// The most bytes of stack that a function of a cubin asks for: what was spilled lies there. They stand in the
// section .nv.info, as attributes of 4 bytes, where the first says whether so many more follow.
int64_t frames_of(const char* cubin) {
  constexpr uint8_t kWithBytes = 4, kFrameSize = 0x11;
  Elf64_Ehdr file;
  std::memcpy(&file, cubin, sizeof file);
  const auto section = [&](size_t i) {
    Elf64_Shdr s;
    std::memcpy(&s, cubin + file.e_shoff + i * file.e_shentsize, sizeof s);
    return s;
  };
  const char* const names = cubin + section(file.e_shstrndx).sh_offset;
  int64_t bytes = -1;  // no such section
  for (size_t i = 0; i < file.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    if (std::strcmp(names + s.sh_name, ".nv.info") != 0) continue;
    bytes = 0;
    for (size_t at = 0; at + 4 <= s.sh_size;) {
      const char* const p = cubin + s.sh_offset + at;
      uint16_t size = 0;
      std::memcpy(&size, p + 2, sizeof size);
      uint32_t frame = 0;
      if (p[0] == kWithBytes && p[1] == kFrameSize) std::memcpy(&frame, p + 8, sizeof frame);
      bytes = std::max<int64_t>(bytes, frame);
      at += 4 + (p[0] == kWithBytes ? size : 0u);
    }
  }
  return bytes;
}

struct CudaCompiler : testing::Test {
  std::string folder = fs::temp_directory_path() / ("tycho_nvrtc_" + std::to_string(getpid()));
  std::vector<std::string> texts;
  std::vector<Header> headers;
  std::string why;

  CudaCompiler() {
    fs::create_directories(folder);
    setenv("XDG_CACHE_HOME", folder.c_str(), 1);
    static const char* const names[] = {TYCHO_ROW_HEADERS};
    for (const char* name : names) {
      std::stringstream text;
      text << std::ifstream(std::string(TYCHO_SOURCE_DIR "/") + name).rdbuf();
      texts.push_back(text.str());
    }
    for (size_t i = 0; i < texts.size(); ++i) headers.push_back({names[i], texts[i].c_str()});
    headers.push_back({nullptr, nullptr});
  }
  ~CudaCompiler() override { fs::remove_all(folder); }

  const char* code(const std::string& source, int arch = 80) {
    return static_cast<const char*>(compile(source, arch, headers.data(), &why));
  }
  bool there_is_one() { return code("extern \"C\" __global__ void f() {}") != nullptr; }
};

// The bytes of the arrays that a program itself declares, as the tables of digits in which sines of
// large numbers find their place: not what a compiler spilled.
int64_t arrays_of(const std::string& ptx) {
  int64_t bytes = 0;
  for (size_t at = 0; (at = ptx.find(".local .align", at)) != std::string::npos; ++at) {
    const size_t open = ptx.find('[', at);
    if (open < ptx.find('\n', at)) bytes += std::atoll(ptx.c_str() + open + 1);
  }
  return bytes;
}

// The bytes that a frame may have beside arrays: ptxas makes functions of the long ways of divisions, whose
// callers' registers are kept there.
constexpr int kKept = 40;

constexpr int kNewerThanKnown = 150;  // for such a GPU it gives PTX

constexpr DType kTypes[] = {DType::Float32,  DType::Float64, DType::Int64,
                            DType::BFloat16, DType::Float16, DType::UInt8};

TEST_F(CudaCompiler, TakesARotatingPartOfTheRows) {
  if (!there_is_one()) GTEST_SKIP() << why;
  constexpr int kPart = 40;  // of the rows; TYCHO_NVRTC_PART=1 takes all, for every GPU and layout
  const char* asked = std::getenv("TYCHO_NVRTC_PART");
  const int part = asked ? std::max(1, std::atoi(asked)) : kPart;
  const int first = static_cast<int>(getpid()) % part;
  const int archs[] = {75, 80, 90, 100, 120};
  const int forms = part == 1 ? 10 : 1;
  for (int row = first; row < kRows; row += part)
    for (const DType t : kTypes) {
      const RowType type = row_info[row].type;
      if (is_floating(t) ? type == RowType::Bits || type == RowType::Ints
                         : type == RowType::Float || type == RowType::Real)
        continue;
      int32_t types[kOperands + 1];
      for (int32_t& x : types) x = static_cast<int32_t>(t);
      if (type == RowType::Test) types[0] = static_cast<int32_t>(DType::Bool);
      const char* lanes = t == DType::Float64 ? "f64" : is_floating(t) ? "f32" : "i64";
      for (int form = row + static_cast<int>(t), last = form + forms; form < last; ++form) {
        const bool packed = form % 2;
        const int arch = archs[form % 5];
        const std::string source =
            row_source(row, lanes, types, row_info[row].operands + 1, packed);
        const char* const cubin = code(source, arch);
        ASSERT_TRUE(cubin) << row_name(row) << " " << dtype_name(t) << " sm_" << arch << ": "
                           << why;
        const int64_t frames = frames_of(cubin);
        if (frames == 0) continue;
        const char* const ptx = code(source, kNewerThanKnown);
        ASSERT_TRUE(ptx) << why;
        EXPECT_LE(frames, arrays_of(ptx) + kKept)
            << row_name(row) << " " << dtype_name(t) << " sm_" << arch;
      }
    }
}

TEST_F(CudaCompiler, MakesOneAccessOfSixteenBytesWhereNeighboursArePacked) {
  if (!there_is_one()) GTEST_SKIP() << why;
  const int arch = kNewerThanKnown;
  for (const DType t : {DType::Float32, DType::BFloat16, DType::Float64}) {
    int32_t types[3];
    for (int32_t& x : types) x = static_cast<int32_t>(t);
    const std::string lanes = t == DType::Float64 ? "f64" : "f32";
    const int add = static_cast<int>(Row::add);
    const auto accesses = [&](bool packed, const char* kind) {
      const char* ptx = code(row_source(add, lanes.c_str(), types, 3, packed), arch);
      const std::string text = ptx ? ptx : "";
      EXPECT_FALSE(text.empty()) << why;
      EXPECT_EQ(text.find(".local"), std::string::npos) << "what should lie in registers does not";
      int found = 0;
      for (const char* wide : {".v4.", ".v2.b64", ".v2.f64", ".v2.u64"})
        for (size_t at = 0; (at = text.find(kind, at)) != std::string::npos; ++at)
          found += text.compare(at + std::strlen(kind), std::strlen(wide), wide) == 0;
      return found;
    };
    EXPECT_EQ(accesses(true, "ld.global"), 2) << dtype_name(t);
    EXPECT_EQ(accesses(true, "st.global"), 1) << dtype_name(t);
    EXPECT_EQ(accesses(false, "ld.global"), 0) << dtype_name(t);
  }
}

// A chain of rows over `inputs` whole tensors, a row and a number.
RowProgram chain(DType type, int inputs, int steps, DType lanes) {
  static double memory[2];
  RowProgram p{};
  p.lanes = lanes;
  p.numel = 4096;
  p.inputs = inputs + 1;
  for (int i = 0; i <= inputs; ++i)
    p.input[i] = {reinterpret_cast<char*>(memory), nullptr, type, i < inputs ? 4096 : 64, 1};
  constexpr Row kTurns[] = {Row::add, Row::mul, Row::tanh, Row::maximum, Row::exp};
  using From = RowProgram::From;
  p.steps = steps;
  for (int k = 0; k < steps; ++k) {
    RowProgram::Step& s = p.step[k];
    s.row = static_cast<int>(kTurns[k % 5]);
    s.n = row_info[s.row].operands;
    s.type = type;
    s.operand[0] = k ? RowProgram::Operand{From::Step, static_cast<uint8_t>(k - 1), 0}
                     : RowProgram::Operand{From::Input, 0, 0};
    s.operand[1] = k % 7 == 3 ? RowProgram::Operand{From::Number, 0, 0.5}
                   : k % 5 == 1 && k > 20
                       ? RowProgram::Operand{From::Step, static_cast<uint8_t>(k - 20), 0}
                       : RowProgram::Operand{From::Input, static_cast<uint8_t>(k % p.inputs), 0};
  }
  return p;
}

TEST_F(CudaCompiler, KeepsWhatIsBetweenRowsInRegistersAndReadsSixteenBytesAtATime) {
  if (!there_is_one()) GTEST_SKIP() << why;
  struct Case {
    DType type, lanes;
    int inputs, steps, loads;
  };
  const int most = RowProgram::kMostInputs - 1, all = RowProgram::kMostSteps;
  for (const Case& c : {Case{DType::Float32, DType::Float32, 2, 8, 3},
                        Case{DType::BFloat16, DType::Float32, 2, 8, 3},
                        Case{DType::Float64, DType::Float64, 2, 8, 3},
                        Case{DType::Float32, DType::Float32, most, all, most},
                        Case{DType::BFloat16, DType::Float32, most, all, 0},
                        Case{DType::Float64, DType::Float64, most, all, most}}) {
    std::string name;
    const std::string source = program_source(chain(c.type, c.inputs, c.steps, c.lanes), &name);
    if (c.steps < all) {
      EXPECT_TRUE(code(source, c.type == DType::Float64 ? 75 : 90)) << why << source;
    }
    const char* ptx = code(source, 150);  // newer than it knows: it gives PTX
    const std::string text = ptx ? ptx : "";
    ASSERT_FALSE(text.empty()) << why;
    EXPECT_EQ(text.find(".local"), std::string::npos) << source;
    int loads = 0;
    for (size_t at = 0; (at = text.find("ld.global", at)) != std::string::npos; ++at) {
      const std::string load = text.substr(at, text.find(' ', at) - at);
      for (const char* wide : {".v4.", ".v2.b64", ".v2.f64", ".v2.u64"})
        loads += load.find(wide) != std::string::npos;
    }
    if (c.loads) {
      EXPECT_EQ(loads, c.loads) << source;
    }
    if (!fs::exists(TYCHO_PTXAS)) continue;
    const std::string file = folder + "/program.ptx", said = folder + "/said";
    std::ofstream(file) << text;
    const size_t target = text.find(".target ") + 8;
    const std::string arch = text.substr(target, text.find_first_of(", \n", target) - target);
    EXPECT_EQ(
        std::system(
            (TYCHO_PTXAS " -v -arch=" + arch + " -o /dev/null " + file + " 2>" + said).c_str()),
        0);
    std::stringstream words;
    words << std::ifstream(said).rdbuf();
    EXPECT_NE(words.str().find("0 bytes spill stores, 0 bytes spill loads"), std::string::npos)
        << words.str() << source;
  }
}

TEST_F(CudaCompiler, CompilesAgainWhatTheCacheHoldsDamagedAndGoesOnWithoutACache) {
  const std::string source = "extern \"C\" __global__ void g(int* x) { *x = 3; }";
  if (!code(source)) GTEST_SKIP() << why;
  const fs::path entry = fs::directory_iterator(folder + "/tycho")->path();
  const auto size = fs::file_size(entry);
  fs::resize_file(entry, size / 2);
  EXPECT_TRUE(code(source));
  EXPECT_EQ(fs::file_size(entry), size);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder + "/tycho"), fs::directory_iterator()), 1);
  setenv("XDG_CACHE_HOME", "/proc/no_such_folder", 1);
  EXPECT_TRUE(code(source));
}

TEST_F(CudaCompiler, SaysWhyAKernelIsRefused) {
  if (!there_is_one()) GTEST_SKIP() << why;
  EXPECT_EQ(code("extern \"C\" __global__ void f() { no_such_word; }"), nullptr);
  EXPECT_NE(why.find("no_such_word"), std::string::npos) << why;
}

}  // namespace
}  // namespace tycho::cuda
