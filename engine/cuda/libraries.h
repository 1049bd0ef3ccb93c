// NVIDIA's libraries beside the driver: where they are looked for, their versions, and the sentence
// that says what to install. Each is opened by the first operation that needs it.
#pragma once
#include <string>
#include <vector>

namespace tycho::cuda {

enum class LibraryId { Nvrtc, CublasLt, Cudnn, Cusolver, Nccl };
constexpr int kLibraries = 5;

struct FoundLibrary {
  const char* name = "";  // "cuDNN"
  const char* use = "";   // what needs it
  void* handle = nullptr;
  std::string path, version;
  std::string why;      // a sentence, where there is no handle
  std::string install;  // what to type then
};

// Looked for once: in TYCHO_CUDA_HOME (a toolkit, a Python environment, its site-packages or a plain
// folder), where the system's loader looks, in CUDA_HOME, CUDA_PATH and /usr/local/cuda, and in the
// Python environment in use (VIRTUAL_ENV, CONDA_PREFIX). What is too old is passed over.
const FoundLibrary& library(LibraryId id);
// As `library`, at every call anew, in these homes only ("" for the loader's own way).
FoundLibrary find_library(LibraryId id, const std::vector<std::string>& homes);

// The path of what the loader would take for `file`, where that ends before what it says that it holds:
// loading it would kill the program. Else empty.
std::string cut_off(const std::string& file);

// A function of it; null and a sentence in *why where the library or the function is not there.
void* library_function(LibraryId id, const char* name, std::string* why);

}  // namespace tycho::cuda
