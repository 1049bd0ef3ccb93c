// Modules: parts of the program that need libraries which are not on every machine (Gloo, MPI). Each
// is a small shared object that travels inside the program and is opened at first use, so that the
// program starts without those libraries, and as fast. A module may call the engine: the program
// exports what its modules ask for (CMakeLists.txt), and nothing else.
#pragma once
#include <string>

namespace tycho {

bool has_module(const std::string& name);  // this program was built with it

// Opens a module once and for all; null with a sentence in `why`, which says what to install.
void* open_module(const std::string& name, std::string* why);

// A function of the module, null if it cannot be had: the module defines it as
// TYCHO_MODULE_EXPORT.
void* module_symbol(const std::string& name, const char* symbol, std::string* why);

}  // namespace tycho

#define TYCHO_MODULE_EXPORT extern "C" __attribute__((visibility("default")))
