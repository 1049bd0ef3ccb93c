// The cache of compiled kernels with a compiler that is a fake: versions, damage, closed folders and
// several processes at once. Each part runs in processes of its own, which open their libraries anew.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "engine/base/check.h"
#include "engine/cuda/nvrtc.h"

namespace tycho::cuda {
namespace {

namespace fs = std::filesystem;

const Header kNoHeaders[] = {{nullptr, nullptr}};

std::string compiled(const std::string& source) {
  std::string why;
  const void* code = compile(source, 80, kNoHeaders, &why);
  return code ? static_cast<const char*>(code) : why;
}
bool gives(const std::string& source) { return compiled(source) == "code of " + source; }

std::string home() { return std::getenv("TYCHO_CUDA_HOME"); }
std::vector<std::string> entries() {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(home() + "/tycho"))
    names.push_back(e.path().filename());
  return names;
}

// --- The parts, by their names ---

void first_version() {
  EXPECT_TRUE(gives("a") && gives("a"));
  ASSERT_EQ(entries().size(), 1);
  EXPECT_TRUE(entries()[0].ends_with("-12.4.cubin"));
}
void second_version() {
  EXPECT_TRUE(gives("a"));
  EXPECT_EQ(entries().size(), 2);
}
void no_compiler() {
  EXPECT_TRUE(gives("a"));
  EXPECT_EQ(compiled("b").find("NVRTC 13.0 has no nvrtc"), 0);
}

void damage() {
  EXPECT_TRUE(gives("a"));
  ASSERT_EQ(entries().size(), 1);
  const std::string path = home() + "/tycho/" + entries()[0];
  for (const char* text : {"", "short", "something else altogether, which is longer"}) {
    std::ofstream(path) << text;
    EXPECT_TRUE(gives("a"));
    EXPECT_EQ(fs::file_size(path), 8 + sizeof "code of a");
  }
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_TRUE(gives("a"));
  EXPECT_EQ(entries().size(), 1);
  setenv("XDG_CACHE_HOME", (home() + "/libnvrtc.so.13").c_str(), 1);  // no folder at all
  EXPECT_TRUE(gives("a"));
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_TRUE(gives("a"));
  EXPECT_NE(compiled("refuse this").find("refused"), std::string::npos);
}

// A bit anywhere, a byte more or less, and another kernel's entry under this one's name.
void flips() {
  EXPECT_TRUE(gives("first"));
  ASSERT_EQ(entries().size(), 1);
  const std::string path = home() + "/tycho/" + entries()[0];
  const auto read = [&] {
    return (std::stringstream() << std::ifstream(path, std::ios::binary).rdbuf()).str();
  };
  const auto again = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_TRUE(gives("first"));
    EXPECT_TRUE(gives("first"));
  };
  const std::string good = read();
  for (size_t i = 0; i < good.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
      again(bad);
      EXPECT_EQ(read(), good) << i;
    }
  for (size_t n = 0; n < good.size(); ++n) again(good.substr(0, n));
  again(good + '\0');
  EXPECT_EQ(read(), good);
  fs::rename(path, home() + "/first");
  EXPECT_TRUE(gives("other"));
  for (const std::string& name : entries())
    fs::copy_file(home() + "/first", home() + "/tycho/" + name,
                  fs::copy_options::overwrite_existing);
  EXPECT_TRUE(gives("other"));
}

// A disk without room: nothing half written is left, and kernels are there all the same.
void full() {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{12, RLIM_INFINITY};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  for (const char* source : {"a", "b", "a"}) EXPECT_TRUE(gives(source));
  EXPECT_TRUE(gives(std::string(100000, 'c')));
  EXPECT_TRUE(entries().empty());
  const rlimit most{RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &most);
}

// The folder goes while it is in use, and comes back.
void removed() {
  for (const char* source : {"a", "b", "a"}) {
    EXPECT_TRUE(gives(source));
    fs::remove_all(home() + "/tycho");
  }
  EXPECT_TRUE(gives("c"));
  EXPECT_EQ(entries().size(), 1);
}

void share() {
  std::mt19937 random(static_cast<unsigned>(getpid()));
  for (int i = 0; i < 150; ++i) {
    const std::string source = "f" + std::to_string(random() % 5) + std::string(3000, 'x');
    ASSERT_TRUE(gives(source));
    if (random() % 4) continue;
    for (const std::string& name : entries()) {
      const std::string path = home() + "/tycho/" + name;
      if (random() % 3 == 0) (void)!truncate(path.c_str(), static_cast<off_t>(random() % 3000));
      if (random() % 3 == 0) unlink(path.c_str());
    }
  }
}

TEST(CudaCachePart, DISABLED_OfATest) {
  const std::string part = std::getenv("TYCHO_CACHE_PART");
  const std::pair<const char*, void (*)()> parts[] = {{"first_version", first_version},
                                                      {"second_version", second_version},
                                                      {"no_compiler", no_compiler},
                                                      {"damage", damage},
                                                      {"flips", flips},
                                                      {"full", full},
                                                      {"removed", removed},
                                                      {"share", share}};
  for (const auto& [name, run] : parts)
    if (part == name) return run();
  FAIL() << part;
}

// --- The tests ---

struct CudaCache : testing::Test {
  std::string folder = fs::temp_directory_path() / ("tycho_cache_" + std::to_string(getpid()));

  CudaCache() { fs::create_directories(folder); }
  ~CudaCache() override { fs::remove_all(folder); }

  // `count` processes at once.
  void run(const char* part, const char* library, const char* version, int count = 1) {
    fs::remove(folder + "/libnvrtc.so.13");
    fs::create_symlink(library, folder + "/libnvrtc.so.13");
    std::vector<pid_t> children;
    for (int k = 0; k < count; ++k) {
      std::fflush(stdout);
      const pid_t child = fork();
      if (child == 0) {
        setenv("TYCHO_CUDA_HOME", folder.c_str(), 1);
        setenv("XDG_CACHE_HOME", folder.c_str(), 1);
        setenv("FAKE_VERSION", version, 1);
        setenv("TYCHO_CACHE_PART", part, 1);
        unsetenv("GTEST_TOTAL_SHARDS");  // the part is no test of this shard's
        unsetenv("GTEST_SHARD_INDEX");
        alarm(120);
        if (!std::freopen((folder + "/said").c_str(), "a", stdout)) _exit(1);
        execl("/proc/self/exe", "cuda_tests", "--gtest_filter=CudaCachePart.*",
              "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
        _exit(127);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0)
          << part << ": " << (std::stringstream() << std::ifstream(folder + "/said").rdbuf()).str();
    }
  }
};

TEST_F(CudaCache, AnEntryIsOfOneVersionOfTheCompilerAndServesWhereThereIsNone) {
  run("first_version", TYCHO_FAKE_NVRTC, "12.4");
  run("second_version", TYCHO_FAKE_NVRTC, "13.0");
  run("no_compiler", TYCHO_FAKE_VERSIONS, "13.0");
}

TEST_F(CudaCache, DamageAndAClosedFolderCostACompilationAndNothingElse) {
  run("damage", TYCHO_FAKE_NVRTC, "13.0");
}

TEST_F(CudaCache, EveryDamagedByteAndAnotherKernelsEntryAreSeen) {
  run("flips", TYCHO_FAKE_NVRTC, "13.0");
}

TEST_F(CudaCache, AFullDiskAndAFolderThatGoesCostACompilationAndNothingElse) {
  run("full", TYCHO_FAKE_NVRTC, "13.0");
  run("removed", TYCHO_FAKE_NVRTC, "13.0");
}

TEST_F(CudaCache, SeveralProcessesShareItWhileItIsDamaged) {
  run("share", TYCHO_FAKE_NVRTC, "13.0", 4);
  for (const auto& e : fs::directory_iterator(folder + "/tycho"))
    EXPECT_EQ(e.path().extension(), ".cubin") << "left beside";
}

}  // namespace
}  // namespace tycho::cuda
