// The search for libraries: one row each.
#include "engine/cuda/libraries.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "engine/base/check.h"
#include "engine/cuda/driver.h"

namespace tycho::cuda {
namespace {

// How a version is asked for, and how its number is put together.
enum class Ask { TwoInts, Number, IntAt };
struct Row {
  const char* name;
  const char* files[2];  // the newest first
  const char* function;
  Ask ask;
  int major, minor;     // the oldest that will do
  const char* package;  // of PyPI
  const char* use;
};
constexpr Row kRows[kLibraries] = {
    {"NVRTC",
     {"libnvrtc.so.13", "libnvrtc.so.12"},
     "nvrtcVersion",
     Ask::TwoInts,
     12,
     0,
     "nvidia-cuda-nvrtc",
     "elementwise operations"},
    {"cuBLASLt",
     {"libcublasLt.so.13", "libcublasLt.so.12"},
     "cublasLtGetVersion",
     Ask::Number,
     12,
     0,
     "nvidia-cublas",
     "matrix products"},
    {"cuDNN",
     {"libcudnn.so.9", nullptr},
     "cudnnGetVersion",
     Ask::Number,
     9,
     0,
     "nvidia-cudnn-cu13",
     "convolutions, which go without it too, slower"},
    {"cuSOLVER",
     {"libcusolver.so.12", "libcusolver.so.11"},
     "cusolverGetVersion",
     Ask::IntAt,
     11,
     4,
     "nvidia-cusolver",
     "linear algebra"},
    {"NCCL",
     {"libnccl.so.2", nullptr},
     "ncclGetVersion",
     Ask::IntAt,
     2,
     18,
     "nvidia-nccl-cu13",
     "collectives of several GPUs"},
};

struct Version {
  int major = 0, minor = 0, patch = 0;
};

// 130100, 91900 and 22809 are 13.1, 9.19 and 2.28.9; so are 12004 of cuSOLVER and 8907 of what is old,
// with one digit less.
Version version_of(LibraryId id, void* handle) {
  const Row& row = kRows[static_cast<int>(id)];
  void* f = dlsym(handle, row.function);
  Version v;
  if (!f) return v;
  if (row.ask == Ask::TwoInts) {
    reinterpret_cast<int (*)(int*, int*)>(f)(&v.major, &v.minor);
    return v;
  }
  int n = 0;
  if (row.ask == Ask::Number)
    n = static_cast<int>(reinterpret_cast<size_t (*)()>(f)());
  else
    reinterpret_cast<int (*)(int*)>(f)(&n);
  const int unit = id == LibraryId::Cusolver || n < 10000 ? 1000 : 10000;
  return {n / unit, n % unit / 100, n % 100};
}

std::string text_of(Version v) {
  return v.patch ? format("%d.%d.%d", v.major, v.minor, v.patch)
                 : format("%d.%d", v.major, v.minor);
}

bool for_cuda_12() { return driver_cuda > 0 && driver_cuda < 13000; }

// "nvidia-cudnn-cu13"; the packages of CUDA 12 all have an ending.
std::string package_of(const Row& row) {
  std::string name = row.package;
  if (!for_cuda_12()) return name;
  if (name.ends_with("-cu13")) name.resize(name.size() - 5);
  return name + "-cu12";
}

// Where the loader looks before its cache: LD_LIBRARY_PATH and the system's folders.
std::vector<std::string> folders_of_loader() {
  std::vector<std::string> out;
  void* self = dlopen(nullptr, RTLD_NOW);
  Dl_serinfo size;
  if (self && dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<std::max_align_t> room(size.dls_size / sizeof(std::max_align_t) + 1);
    auto* all = reinterpret_cast<Dl_serinfo*>(room.data());
    if (dlinfo(self, RTLD_DI_SERINFOSIZE, all) == 0 && dlinfo(self, RTLD_DI_SERINFO, all) == 0)
      for (unsigned i = 0; i < all->dls_cnt; ++i)
        out.push_back(std::string(all->dls_serpath[i].dls_name) + "/");
  }
  if (self) dlclose(self);
  out.push_back("");
  return out;
}

// The folders of a home that may hold libraries, each with a slash at its end.
std::vector<std::string> folders_of(const std::string& home) {
  std::vector<std::string> out;
  if (home.empty()) return folders_of_loader();
  for (const char* sub : {"/", "/lib64/", "/lib/", "/targets/x86_64-linux/lib/", "/nvidia/*/lib/",
                          "/lib/python3*/site-packages/nvidia/*/lib/", "/*/lib/"}) {
    glob_t found{};
    if (glob((home + sub).c_str(), 0, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; ++i) out.push_back(found.gl_pathv[i]);
    globfree(&found);
  }
  return out;
}

// Does the file end before what it says that it holds? The loader would be killed by reading it.
bool is_cut_off(const std::string& path) {
  FILE* f = std::fopen(path.c_str(), "rb");
  if (!f) return false;
  struct stat info;
  ElfW(Ehdr) head;
  bool cut = false;
  if (fstat(fileno(f), &info) == 0 && S_ISREG(info.st_mode) &&
      std::fread(&head, sizeof head, 1, f) == 1 && !std::memcmp(head.e_ident, ELFMAG, SELFMAG) &&
      head.e_phentsize == sizeof(ElfW(Phdr)) &&
      std::fseek(f, static_cast<long>(head.e_phoff), SEEK_SET) == 0) {
    const auto bytes = static_cast<uint64_t>(info.st_size);
    for (int i = 0; i < head.e_phnum && !cut; ++i) {
      ElfW(Phdr) part;
      cut = std::fread(&part, sizeof part, 1, f) != 1 || part.p_offset > bytes ||
            part.p_filesz > bytes - part.p_offset;
    }
  }
  std::fclose(f);
  return cut;
}

std::string path_of(void* handle) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map ? map->l_name : "";
}

std::vector<std::string> all_homes() {
  std::vector<std::string> homes;
  const auto add = [&](const char* variable) {
    if (const char* home = std::getenv(variable); home && *home) homes.push_back(home);
  };
  add("TYCHO_CUDA_HOME");
  homes.push_back("");
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) add(variable);
  homes.push_back("/usr/local/cuda");
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) add(variable);
  return homes;
}

}  // namespace

std::string cut_off(const std::string& file) {
  if (file.find('/') != file.npos) return is_cut_off(file) ? file : "";
  for (const std::string& folder : folders_of_loader()) {
    const std::string path = folder + file;
    if (folder.empty() || access(path.c_str(), R_OK) != 0) continue;
    return is_cut_off(path) ? path : "";
  }
  return "";
}

FoundLibrary find_library(LibraryId id, const std::vector<std::string>& homes) {
  const Row& row = kRows[static_cast<int>(id)];
  FoundLibrary found;
  found.name = row.name;
  found.use = row.use;
  std::string wrong;    // what was there and is of no use
  bool broken = false;  // the loader's own one
  // Some of them have the loader load the driver, which would kill the program.
  if (const std::string driver = cut_off("libcuda.so.1"); !driver.empty()) {
    found.why = format("%s cannot be loaded beside the NVIDIA driver: %s is cut off", row.name,
                       driver.c_str());
    found.install = "the driver anew, sudo apt-get install --reinstall nvidia-driver";
    return found;
  }
  for (const std::string& home : homes)
    for (const std::string& folder : folders_of(home))
      for (const char* file : row.files) {
        if (!file) continue;
        const std::string path = folder + file;
        if (is_cut_off(path)) {
          wrong =
              format("%s cannot be loaded: %s is cut off; install it anew", row.name, path.c_str());
          broken = home.empty();
          continue;
        }
        if (folder.empty() && broken) continue;  // the loader would take that one
        void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
          const std::string said = dlerror();
          if (said.find(path + ": cannot open shared object file") == std::string::npos)
            wrong = format("%s cannot be loaded: %s", row.name, said.c_str());
          continue;
        }
        const Version v = version_of(id, handle);
        const bool new_enough =
            v.major > row.major || (v.major == row.major && v.minor >= row.minor);
        // What makes or runs machine code is of the driver's CUDA or of an older one.
        const bool too_new = file == row.files[0] && row.files[1] && for_cuda_12();
        if (new_enough && !too_new) {
          found.handle = handle;
          found.path = path_of(handle);
          found.version = text_of(v);
          return found;
        }
        wrong = too_new ? format("%s %s is too new for the driver, which is for CUDA %d.%d (%s)",
                                 row.name, text_of(v).c_str(), driver_cuda / 1000,
                                 driver_cuda % 1000 / 10, path_of(handle).c_str())
                        : format("%s %s is too old (%s): %d.%d or newer is needed", row.name,
                                 text_of(v).c_str(), path_of(handle).c_str(), row.major, row.minor);
        dlclose(handle);
      }
  found.why =
      wrong.empty() ? format("%s is not on this machine (%s)", row.name, row.files[0]) : wrong;
  found.install = format(
      "pip install %s, and name that Python environment: export "
      "TYCHO_CUDA_HOME=/path/to/environment",
      package_of(row).c_str());
  return found;
}

const FoundLibrary& library(LibraryId id) {
  static std::mutex mutex;
  static FoundLibrary* known[kLibraries] = {};  // never closed
  const std::lock_guard lock(mutex);
  FoundLibrary*& found = known[static_cast<int>(id)];
  if (!found) found = new FoundLibrary(find_library(id, all_homes()));
  return *found;
}

void* library_function(LibraryId id, const char* name, std::string* why) {
  const FoundLibrary& found = library(id);
  if (!found.handle) {
    *why = found.why + "; install it: " + found.install;
    return nullptr;
  }
  void* f = dlsym(found.handle, name);
  if (!f)
    *why =
        format("%s %s has no %s (%s)", found.name, found.version.c_str(), name, found.path.c_str());
  return f;
}

}  // namespace tycho::cuda
