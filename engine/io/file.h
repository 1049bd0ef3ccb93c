// Files as bytes: reading whole ones, replacing them without ever losing the old content, gzip.
// Failures raise Kind::Io and name the file.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "engine/base/check.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/sizes.h"

namespace tycho::io {

// Raises "NAME is damaged: WHY".
[[noreturn]] void damaged(const std::string& name, const std::string& why);

// The bytes of elements of this dtype and shape; raises when they are more than memory can have,
// or a dimension is negative.
int64_t data_bytes(DType dtype, const Sizes& shape, const std::string& name);

std::string read_file(const std::string& path);

// Where a writer puts its bytes; collects small pieces.
class Output {
 public:
  virtual void write(const void* data, size_t bytes) = 0;
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }

 protected:
  ~Output() = default;
};

// Calls `writer`, and makes what it wrote the content of `path`: first in a file beside, which is
// synced and then renamed, so that after any failure (a full disk, an error or an interrupt in the
// writer) the old file is untouched and nothing is left beside it. A symbolic link is followed.
// What is no regular file, such as a terminal or a pipe, is written directly. A new file gets
// `mode` (less the umask).
void atomic_write(const std::string& path, const std::function<void(Output&)>& writer,
                  unsigned mode = 0666);

bool is_gzip(std::string_view bytes);
// The content of gzip data, or its first `most` bytes when it is longer.
std::string gunzip(std::string_view bytes, const std::string& name,
                   size_t most = std::numeric_limits<size_t>::max());

// Reverses the bytes of each of n elements.
void swap_bytes(void* data, int element_bytes, int64_t n);

}  // namespace tycho::io
