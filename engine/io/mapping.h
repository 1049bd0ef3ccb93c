// Files as memory: a private mapping, whose pages are read when they are touched, and copied when
// they are written to, so that the file never changes.
//
// Another program may cut a file short while it is mapped. The system then ends a process that
// touches the lost part (SIGBUS). Here that part becomes zeros, and the work that read it stops
// with an error of Kind::Io as soon as it looks for interrupts.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "engine/base/ref.h"
#include "engine/tensor/tensor.h"

namespace tycho::io {

class Mapping : public Shared {
 public:
  // The first `bytes` (> 0) of an open file; null when the system cannot map it. `path` is for the
  // error.
  static Ref<Mapping> make(int fd, size_t bytes, const std::string& path);
  static void destroy(Mapping* m) { delete m; }

  std::string_view bytes() const { return {data_, size_}; }
  // A part of bytes() as a tensor [n] of uint8, which keeps the mapping alive. It is not counted as
  // a tensor's memory.
  static Tensor view(const Ref<Mapping>& mapping, std::string_view part);

 private:
  Mapping() = default;
  ~Mapping();
  char* data_ = nullptr;
  size_t size_ = 0;
  struct Region* region_ = nullptr;
};

}  // namespace tycho::io
