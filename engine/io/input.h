// A file that is read: all its bytes to look at, and parts of it copied into memory at memory
// speed. A large file is mapped, so that looking costs nothing and no second copy of the file is in
// memory; a small one, or what is no regular file, is in memory.
#pragma once
#include <string>
#include <string_view>

#include "engine/io/file.h"
#include "engine/io/mapping.h"

namespace tycho::io {

class Input {
 public:
  // Raises Kind::Io. Where `may_map` is false, the file is in memory.
  explicit Input(const std::string& path, bool may_map = true);
  Input(const Input&) = delete;
  ~Input();

  const std::string& path() const { return path_; }
  std::string_view bytes() const { return bytes_; }
  bool mapped() const { return static_cast<bool>(mapping_); }

  // Copies a part of bytes() to `to`, by all threads. An interrupt stops it.
  void copy(std::string_view part, void* to) const;
  uint32_t copy_summed(std::string_view part, void* to) const;  // and its CRC-32

  // A part of bytes() as a tensor [n] of uint8: a view of the mapped file where it is mapped and
  // the part begins at a multiple of `align` (0: never), else a copy.
  Tensor read(std::string_view part, size_t align) const;
  bool can_view(std::string_view part, size_t align) const;
  Tensor view(std::string_view part) const { return Mapping::view(mapping_, part); }

 private:
  void copy_piece(std::string_view part, char* to) const;

  std::string path_;
  std::string memory_;
  Ref<Mapping> mapping_;
  std::string_view bytes_;
  int fd_ = -1;
};

}  // namespace tycho::io
