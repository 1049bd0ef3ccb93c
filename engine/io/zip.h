// Zip archives, the outer form of .pt and .npz files: entries that are stored or deflated, with the
// 64-bit extensions for large files. What does not fit together raises Kind::Io.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/file.h"
#include "engine/io/input.h"

namespace tycho::io {

struct ZipEntry {
  std::string name;
  uint16_t method = 0;  // 0 stored, 8 deflated
  uint32_t crc = 0;
  uint64_t packed = 0, size = 0;   // bytes in the file, and unpacked
  uint64_t header = 0, begin = 0;  // where its header and its content begin
};

bool is_zip(std::string_view file);

// The table at the end of the archive. Every entry lies within the file, overlaps no other, has a
// name of its own, and all together unpack to no more than 100 times the file (or 1 GiB).
std::vector<ZipEntry> zip_entries(std::string_view file, const std::string& name);

// The content of an entry: a part of `file`, or unpacked into `room`. Checks its sum.
std::string_view zip_content(std::string_view file, const ZipEntry& entry, std::string* room,
                             const std::string& name);

// Raises unless the entry's checksum is `sum`, or left out.
void zip_check(const ZipEntry& entry, uint32_t sum, const std::string& name);

// The content into memory of entry.size bytes, at memory speed where the entry is stored.
void zip_read(const Input& file, const ZipEntry& entry, void* to);

// Writes an archive of stored entries. The content of each begins at a multiple of 64 bytes, so
// that a mapped file's elements are aligned.
class ZipWriter {
 public:
  explicit ZipWriter(Output& out) : out_(out) {}
  // The content is these pieces, one after the other.
  void add(const std::string& name, std::initializer_list<std::string_view> pieces);
  void finish();  // the table of entries

 private:
  void put(std::string_view bytes);
  Output& out_;
  uint64_t at_ = 0;
  std::vector<ZipEntry> entries_;
};

}  // namespace tycho::io
