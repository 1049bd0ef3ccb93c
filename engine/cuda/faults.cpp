// The record of a fault and the error it becomes.
#include "engine/cuda/faults.h"

#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/where.h"
#include "engine/cuda/context.h"

namespace tycho::cuda {

// As the kernels' (kernels/prelude.cuh).
struct Fault {
  uint32_t taken, ready;
  int32_t op;
  int64_t position, value, limit;
};

namespace {

// An operation and the line of the script that asked for it.
struct Asked {
  const char* op;
  Where where;
};
std::mutex mutex;
std::vector<Asked>& asked() {
  static auto* all = new std::vector<Asked>;
  return *all;
}

}  // namespace

Fault* new_fault() {
  void* memory = nullptr;
  constexpr unsigned kPortableAndMapped = 3;
  check(driver().allocate_pinned(&memory, sizeof(Fault), kPortableAndMapped), "pinned memory");
  std::memset(memory, 0, sizeof(Fault));
  return static_cast<Fault*>(memory);
}

int32_t fault_number(const char* op) {
  const Where where = here();
  const std::lock_guard lock(mutex);
  static auto* numbers = new std::map<std::tuple<std::string_view, uint32_t, int32_t>, int32_t>;
  const auto [it, added] = numbers->emplace(std::tuple(op, where.source, where.line),
                                            static_cast<int32_t>(asked().size()));
  if (added) asked().push_back({op, where});
  return it->second;
}

Fault* fault_of(Device device) { return context_of(device).fault; }

void raise_faults(Device device) {
  Fault* fault = fault_of(device);
  if (!*static_cast<volatile uint32_t*>(&fault->ready)) [[likely]]
    return;
  const Fault seen = *fault;
  std::memset(fault, 0, sizeof *fault);
  std::string op = "an operation";
  {
    const std::lock_guard lock(mutex);
    if (seen.op >= 0 && seen.op < static_cast<int32_t>(asked().size())) {
      const Asked& a = asked()[static_cast<size_t>(seen.op)];
      op = a.op + at(a.where);
    }
  }
  fail(Kind::Index,
       format("%s, on %s: index %lld at position %lld is out of range (1 to %lld)", op.c_str(),
              device_name(device).c_str(), static_cast<long long>(seen.value) + 1,
              static_cast<long long>(seen.position) + 1, static_cast<long long>(seen.limit)));
}

}  // namespace tycho::cuda
