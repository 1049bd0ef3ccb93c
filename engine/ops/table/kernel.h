// Kernels are bound to their operations where they are written, by one line at the end of the file:
//
//   BIND_KERNEL(Cpu, "cumprod", cumprod);
//
// so that no other list names them, operations name no backend, and a module that is loaded later
// fills the slots of its own kind (by calling bind_kernels after it). A name that the op table does
// not have, or a slot that is bound twice, ends the program when the table is first used.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

struct KernelBinding {
  BackendKind backend;
  const char* op;
  Kernel kernel;
  const char* file;
  KernelBinding* next;
  KernelBinding(BackendKind backend, const char* op, Kernel kernel,
                const char* file = __builtin_FILE());
};

// Puts the kernels that were announced since the last time into the op table.
void bind_kernels();

#define TYCHO_JOIN_(a, b) a##b
#define TYCHO_JOIN(a, b) TYCHO_JOIN_(a, b)
// The kernel may be a lambda, commas and all.
#define BIND_KERNEL(backend, op, ...)                                     \
  static ::tycho::KernelBinding TYCHO_JOIN(kernel_binding_, __COUNTER__)( \
      ::tycho::BackendKind::backend, op, __VA_ARGS__)

}  // namespace tycho
