// IDX files, the format of MNIST: a big-endian header with the element type and the dimensions,
// then the elements, big-endian too. As they are or packed by gzip.
#pragma once
#include <string>
#include <string_view>

#include "engine/tensor/dtype.h"
#include "engine/tensor/sizes.h"

namespace tycho::io {

struct IdxArray {
  DType dtype;
  Sizes shape;
  std::string data;  // row-major, in this machine's byte order
};

// `name` is the file's, for errors: Kind::Io unless header and data fit each other exactly.
IdxArray parse_idx(std::string_view bytes, const std::string& name);

}  // namespace tycho::io
