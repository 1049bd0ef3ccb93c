// Working memory of a kernel, given back at the end of the block.
#pragma once
#include "engine/base/check.h"
#include "engine/base/memory.h"

namespace tycho::cpu {

class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(bytes), data_(allocate(bytes)) {
    TYCHO_CHECK(Kind::Oom, data_, "no memory left for %zu bytes of working space", bytes);
  }
  ~Scratch() { release(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

}  // namespace tycho::cpu
