// Compiling and the cache on disk. An entry's name is its key and the compiler's version. It is
// written beside its place and renamed, and begins with a hash of the rest, so that neither a stop
// half-way nor two programs at once leave one that is wrong: what does not fit is compiled again.
#include "engine/cuda/nvrtc.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "engine/base/check.h"
#include "engine/cuda/libraries.h"

namespace tycho::cuda {
namespace {

struct Nvrtc {
  const FoundLibrary& library = cuda::library(LibraryId::Nvrtc);
  std::string why;  // where it cannot be used
  int (*archs_count)(int*) = nullptr;
  int (*archs)(int*) = nullptr;
  int (*create)(void**, const char*, const char*, int, const char* const*,
                const char* const*) = nullptr;
  int (*compile)(void*, int, const char* const*) = nullptr;
  int (*log_size)(void*, size_t*) = nullptr;
  int (*log)(void*, char*) = nullptr;
  int (*cubin_size)(void*, size_t*) = nullptr;
  int (*cubin)(void*, char*) = nullptr;
  int (*ptx_size)(void*, size_t*) = nullptr;
  int (*ptx)(void*, char*) = nullptr;
  int (*destroy)(void**) = nullptr;

  Nvrtc() {
    find(archs_count, "nvrtcGetNumSupportedArchs"), find(archs, "nvrtcGetSupportedArchs");
    find(create, "nvrtcCreateProgram"), find(destroy, "nvrtcDestroyProgram");
    find(compile, "nvrtcCompileProgram");
    find(log_size, "nvrtcGetProgramLogSize"), find(log, "nvrtcGetProgramLog");
    find(cubin_size, "nvrtcGetCUBINSize"), find(cubin, "nvrtcGetCUBIN");
    find(ptx_size, "nvrtcGetPTXSize"), find(ptx, "nvrtcGetPTX");
  }
  template <class F>
  void find(F& function, const char* name) {
    if (why.empty()) function = reinterpret_cast<F>(library_function(LibraryId::Nvrtc, name, &why));
  }
};

uint64_t hash_of(const char* text, size_t n, uint64_t seed) {
  uint64_t h = seed ^ 0xcbf29ce484222325u;
  for (size_t i = 0; i < n; ++i) h = (h ^ static_cast<unsigned char>(text[i])) * 0x100000001b3u;
  return h;
}

// An entry begins with a hash of its code and of its key: another one's under its name is no entry.
uint64_t seal_of(const std::string& code, uint64_t key) {
  return hash_of(code.data(), code.size(), key);
}

bool read_entry(const std::string& path, uint64_t key, std::string* code) {
  FILE* f = std::fopen(path.c_str(), "rb");
  if (!f) return false;
  uint64_t hash = 0;
  bool good = std::fread(&hash, sizeof hash, 1, f) == 1;
  char part[1 << 16];
  while (const size_t n = good ? std::fread(part, 1, sizeof part, f) : 0) code->append(part, n);
  std::fclose(f);
  good = good && !code->empty() && hash == seal_of(*code, key);
  if (!good) code->clear();
  return good;
}

// A folder that cannot be written costs the next program a compilation, and nothing else. The name
// beside is nobody else's, also where machines share the folder.
void write_entry(const std::string& path, uint64_t key, const std::string& code) {
  std::string beside = path + ".XXXXXX";
  const int fd = mkstemp(beside.data());
  FILE* f = fd >= 0 ? fdopen(fd, "wb") : nullptr;
  if (!f) return;
  const uint64_t hash = seal_of(code, key);
  const bool good = std::fwrite(&hash, sizeof hash, 1, f) == 1 &&
                    std::fwrite(code.data(), 1, code.size(), f) == code.size();
  if (std::fclose(f) != 0 || !good || std::rename(beside.c_str(), path.c_str()) != 0)
    std::remove(beside.c_str());
}

bool compile_now(const Nvrtc& rtc, const std::string& source, int arch, const Header* headers,
                 std::string* code, std::string* why) {
  std::vector<const char*> names, texts;
  for (const Header* h = headers; h->name; ++h) names.push_back(h->name), texts.push_back(h->text);
  // A GPU that is newer than the compiler gets PTX of the newest that it knows.
  int count = 0;
  rtc.archs_count(&count);
  std::vector<int> known(static_cast<size_t>(count));
  rtc.archs(known.data());
  const bool exact = std::find(known.begin(), known.end(), arch) != known.end();
  const int newest = known.empty() ? arch : *std::max_element(known.begin(), known.end());
  const std::string target = exact
                                 ? format("--gpu-architecture=sm_%d", arch)
                                 : format("--gpu-architecture=compute_%d", std::min(arch, newest));
  const char* options[] = {"--std=c++20", target.c_str(), "--fmad=false", "-default-device"};
  void* program = nullptr;
  if (rtc.create(&program, source.c_str(), "row.cu", static_cast<int>(names.size()), texts.data(),
                 names.data()) != 0) {
    *why = "NVRTC takes no program";
    return false;
  }
  const bool good = rtc.compile(program, 4, options) == 0;
  size_t size = 0;
  if (good) {
    (exact ? rtc.cubin_size : rtc.ptx_size)(program, &size);
    code->resize(size);
    (exact ? rtc.cubin : rtc.ptx)(program, code->data());
  } else {
    rtc.log_size(program, &size);
    std::string log(size, '\0');
    rtc.log(program, log.data());
    *why = "NVRTC refuses the kernel: " + log.substr(0, log.find('\n'));
  }
  rtc.destroy(&program);
  return good;
}

// An entry of any compiler, for machines that have none.
bool read_any(const std::string& folder, const std::string& name, uint64_t key, std::string* code) {
  glob_t found{};
  bool good = false;
  if (glob((folder + "/" + name + "-*.cubin").c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc && !good; ++i)
      good = read_entry(found.gl_pathv[i], key, code);
  globfree(&found);
  return good;
}

}  // namespace

// "" where there is no home.
std::string cache_folder() {
  std::string folder;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/')
    folder = cache;
  else if (const char* home = std::getenv("HOME"); home && *home == '/')
    folder = std::string(home) + "/.cache";
  if (folder.empty()) return folder;
  mkdir(folder.c_str(), 0700);
  folder += "/tycho";
  mkdir(folder.c_str(), 0700);
  return folder;
}

const void* compile(const std::string& source, int arch, const Header* headers, std::string* why,
                    bool known) {
  static std::mutex mutex;
  static std::deque<std::string> kept;
  const auto keep = [](std::string c) { return kept.emplace_back(std::move(c)).data(); };
  uint64_t key = hash_of(source.data(), source.size(), static_cast<uint64_t>(arch));
  for (const Header* h = headers; h->name; ++h) key = hash_of(h->text, std::strlen(h->text), key);
  const std::string folder = cache_folder();
  const std::string name = format("%016llx", static_cast<unsigned long long>(key));
  const std::lock_guard lock(mutex);
  static const Nvrtc rtc;
  std::string code;
  if (!rtc.why.empty()) {
    if (!folder.empty() && read_any(folder, name, key, &code)) return keep(std::move(code));
    *why = rtc.why;
    return nullptr;
  }
  const std::string path =
      folder.empty() ? "" : folder + "/" + name + "-" + rtc.library.version + ".cubin";
  if (path.empty() || !read_entry(path, key, &code)) {
    if (known) return nullptr;
    if (!compile_now(rtc, source, arch, headers, &code, why)) return nullptr;
    if (!path.empty()) write_entry(path, key, code);
  }
  return keep(std::move(code));
}

}  // namespace tycho::cuda
