// NumPy's .npy files: a magic word, a version (1 to 3), a header that is a Python literal, and the
// elements. See numpy.lib.format. Other element types than the engine's ten are refused by name,
// and nothing in a file is ever run: arrays of Python objects are refused.
#pragma once
#include <string>
#include <string_view>

#include "engine/tensor/dtype.h"
#include "engine/tensor/sizes.h"

namespace tycho::io {

struct NpyHeader {
  DType dtype;
  Sizes shape;
  bool fortran_order;  // the first index runs fastest
  bool big_endian;
  size_t data_offset;  // where the elements begin
  int64_t bytes;       // of the elements
  // The elements are the tensor's, though maybe in another order.
  bool as_they_are() const { return !big_endian && dtype != DType::Bool; }
  // They lie in the file as in a tensor.
  bool plain() const { return as_they_are() && (!fortran_order || shape.size() < 2); }
};

// Checks that the elements are there too. `name` is the file's, for errors (Kind::Io).
NpyHeader parse_npy(std::string_view file, const std::string& name);

// Copies the elements to `out`, which has header.bytes: row-major, in this machine's byte order.
void copy_npy(const NpyHeader& header, std::string_view file, void* out);

// The dtype of NumPy's name of it ("<f4", "i8", "b1"); raises for what no tensor can hold.
DType npy_dtype(const std::string& descr, const std::string& name, bool* big_endian);

// What stands before the elements (row-major, little-endian) in a file of version 1. bfloat16
// raises Kind::Io: NumPy has no such type.
std::string npy_header(DType dtype, const Sizes& shape);

}  // namespace tycho::io
