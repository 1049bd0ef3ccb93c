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
#include "engine/ops/table/apply.h"

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
  std::string_view op;
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

int32_t fault_number(const char* kernel) {
  const Where where = here();
  std::string_view op = composing ? composing->name : kernel;  // cross_entropy, not its gather
  op = op.substr(0, op.find('.'));
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
  std::string op = "an operation", place;
  {
    const std::lock_guard lock(mutex);
    if (seen.op >= 0 && seen.op < static_cast<int32_t>(asked().size())) {
      const Asked& a = asked()[static_cast<size_t>(seen.op)];
      op = a.op;
      place = at(a.where);
    }
  }
  const long long value = seen.value + 1, position = seen.position + 1, limit = seen.limit;
  Error e(Kind::Index,
          format("%s: index %lld at position %lld is out of range (1 to %lld); %s was asked%s, and "
                 "tells it only now",
                 op.c_str(), value, position, limit, device_name(device).c_str(), place.c_str()),
          value == 0 ? "index + 1  -- positions and classes count from 1" : "");
  e.op = op;  // not of the call that happened to hear of it
  throw e;
}

}  // namespace tycho::cuda
