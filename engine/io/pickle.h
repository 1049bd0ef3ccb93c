// Python's pickles, as far as they are data: what PyTorch's .pt files hold. Nothing in a pickle is
// ever called: a class or function that is not in a short list is an error that names it.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tensor/dtype.h"
#include "engine/tensor/sizes.h"

namespace tycho::io {

enum class PickleKind : uint8_t {
  None,
  Bool,
  Int,
  Float,
  Text,  // of characters or bytes
  List,
  Tuple,
  Set,
  Dict,       // its list holds key, value, key, value
  Tensor,     // an index into tensors
  Parameter,  // a list of the tensor and of whether it requires grad
  Storage,    // an index into storages
  DType,
  Device,      // a text
  NumpyType,   // a dtype, plus 256 where it is big-endian, plus 4096 times what it is widened from
  NumpyArray,  // one that has no elements yet
  Class        // one of those that make data
};

struct PickleNode {
  PickleKind kind = PickleKind::None;
  uint32_t size = 0;  // of a text
  union {
    int64_t integer = 0;  // also an index, a dtype
    double real;
    const char* text;
  };
  std::string_view view() const { return {text, size}; }
};

struct PickleStorage {
  std::string key, device;
  DType dtype;
  int64_t numel;
  std::string_view inside;  // its bytes, where they stand in the pickle itself
};

struct PickleTensor {
  uint32_t storage;  // an index into storages; the tensor lies within the number of its elements
  DType dtype;
  Sizes shape, stride;
  int64_t offset;
  bool requires_grad;
};

// What a pickle holds; nodes name each other by number. Texts lie in the pickle's own bytes.
struct Pickle {
  std::vector<PickleNode> nodes;
  std::vector<std::vector<uint32_t>> lists;
  std::vector<PickleStorage> storages;
  std::vector<PickleTensor> tensors;
  std::deque<std::string> texts;  // those that stand otherwise in the pickle
  uint32_t root = 0;
  size_t end = 0;  // the number of bytes read

  const PickleNode& operator[](uint32_t i) const { return nodes[i]; }
  const std::vector<uint32_t>& list(const PickleNode& n) const {
    return lists[static_cast<size_t>(n.integer)];
  }
};

// Reads one pickle; `bytes` must outlive the result. `name` is the file's, for errors (Kind::Io).
Pickle parse_pickle(std::string_view bytes, const std::string& name);

// Writes a pickle of protocol 2, opcode by opcode.
class PickleWriter {
 public:
  PickleWriter() : bytes("\x80\x02") {}
  void op(char c) { bytes += c; }
  void integer(int64_t x);
  void real(double x);
  void text(std::string_view s);                    // as bytes where it is no UTF-8
  void global(const std::string& module_and_name);  // "torch FloatStorage"
  uint32_t keep();                                  // remembers the value on top: its number
  void again(uint32_t number);
  std::string bytes;

 private:
  uint32_t kept_ = 0;
  std::unordered_map<std::string, uint32_t> globals_;
};

// PyTorch's name of the storage class of a dtype, "FloatStorage".
const char* storage_class(DType t);

}  // namespace tycho::io
