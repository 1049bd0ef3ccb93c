// NVRTC, CUDA's compiler at run time, and what it has compiled before: in the user's cache folder, by a
// hash of the source, its headers and the kind of GPU, and the compiler's version.
#pragma once
#include <string>

namespace tycho::cuda {

struct Header {
  const char *name, *text;
};

// Where kernels are kept, made if need be; "" where there is no home.
std::string cache_folder();

// The machine code of a program for sm_`arch`; null and a sentence in *why where it cannot be had. The
// last header has no name. What is answered lives as long as the program.
// `known`: only what the folder has.
const void* compile(const std::string& source, int arch, const Header* headers, std::string* why,
                    bool known = false);

}  // namespace tycho::cuda
