// Reading IDX files (see idx.h).
#include "engine/io/idx.h"

#include "engine/io/file.h"

namespace tycho::io {
namespace {

// The third byte of a file says what its elements are.
bool element_type(uint8_t code, DType* dtype) {
  switch (code) {
    case 0x08:
      *dtype = DType::UInt8;
      return true;
    case 0x09:
      *dtype = DType::Int8;
      return true;
    case 0x0b:
      *dtype = DType::Int16;
      return true;
    case 0x0c:
      *dtype = DType::Int32;
      return true;
    case 0x0d:
      *dtype = DType::Float32;
      return true;
    case 0x0e:
      *dtype = DType::Float64;
      return true;
    default:
      return false;
  }
}

// Reads the header into `a`; returns its length.
size_t parse_header(std::string_view bytes, const std::string& name, IdxArray* a) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (bytes.size() < 4 || byte(0) != 0 || byte(1) != 0)
    fail(Kind::Io, name + " is no IDX file: it does not begin with two zero bytes and a type");
  if (!element_type(byte(2), &a->dtype))
    damaged(name, format("0x%02x is no element type of IDX", byte(2)));
  const int rank = byte(3);
  if (rank > kMaxDims)
    damaged(name, format("it has %d dimensions, a tensor has at most %d", rank, kMaxDims));
  const size_t length = 4 + 4 * static_cast<size_t>(rank);
  if (bytes.size() < length) damaged(name, "it ends within its header");
  for (size_t i = 4; i < length; i += 4)
    a->shape.push_back(int64_t{byte(i)} << 24 | byte(i + 1) << 16 | byte(i + 2) << 8 | byte(i + 3));
  return length;
}

}  // namespace

IdxArray parse_idx(std::string_view bytes, const std::string& name) {
  IdxArray a;
  std::string unpacked;
  const bool packed = is_gzip(bytes);
  if (packed) unpacked = gunzip(bytes, name, 4 + 4 * kMaxDims);
  const size_t header = parse_header(packed ? unpacked : bytes, name, &a);
  const size_t want = static_cast<size_t>(data_bytes(a.dtype, a.shape, name));
  // One byte more than wanted shows that there is too much, whatever the packed data claims.
  if (packed) unpacked = gunzip(bytes, name, header + want + 1);
  const size_t have = (packed ? unpacked.size() : bytes.size()) - header;
  if (have != want)
    damaged(name, format("its header says %s of %s, which is %zu bytes, but it holds %s%zu",
                         to_string(a.shape).c_str(), dtype_name(a.dtype), want,
                         packed && have > want ? "at least " : "", have));
  if (packed) {
    unpacked.erase(0, header);
    a.data = std::move(unpacked);
  } else {
    a.data = bytes.substr(header);
  }
  const int size = dtype_size(a.dtype);
  swap_bytes(a.data.data(), size, static_cast<int64_t>(want) / size);
  return a;
}

}  // namespace tycho::io
