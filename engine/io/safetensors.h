// The safetensors format (of files with that ending, and of Tycho's own checkpoints): the length of
// a header in 8 bytes, the header as JSON, and the elements of all tensors, row-major and
// little-endian, one after the other.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tensor/dtype.h"
#include "engine/tensor/sizes.h"

namespace tycho::io {

struct SafetensorsEntry {
  std::string name;
  DType dtype;
  Sizes shape;
  size_t begin = 0, end = 0;  // of its elements, from the first byte after the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;                      // in the order of the header
  std::vector<std::pair<std::string, std::string>> metadata;  // of "__metadata__"
  size_t data_offset = 0;                                     // the header's length, all told
};

// Reads and checks the header: every byte after it belongs to exactly one tensor, and names differ.
// `name` is the file's, for errors (Kind::Io).
SafetensorsHeader parse_safetensors(std::string_view file, const std::string& name);

// Sets begin and end of the tensors (wider elements first, so that all are aligned) and
// data_offset, and returns the bytes that stand before the elements. Raises Kind::Io for names that
// are not UTF-8, are used twice, or are "__metadata__".
std::string safetensors_header(SafetensorsHeader* header);

}  // namespace tycho::io
