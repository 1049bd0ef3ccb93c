// NumPy's numbers and arrays in pickles (see pickle_make.h): what training programs keep beside
// their tensors, such as the best accuracy so far or the state of a random generator.
#include <bit>
#include <cstring>

#include "engine/io/file.h"
#include "engine/io/npy.h"
#include "engine/io/pickle_make.h"
#include "engine/tensor/tensor.h"

namespace tycho::io {

uint32_t PickleMaker::numpy_type(std::string_view descr) {
  bool big_endian = false;
  const DType t = npy_dtype(std::string(descr.substr(0, 40)), name_, &big_endian);
  return node(PickleKind::NumpyType, static_cast<int64_t>(t) + (big_endian ? 256 : 0));
}

// (type, bytes)
uint32_t PickleMaker::numpy_number(const std::vector<uint32_t>& a) {
  if (a.size() < 2 || p_[a[0]].kind != PickleKind::NumpyType || p_[a[1]].kind != PickleKind::Text)
    bad("a number of NumPy has no type or no value");
  const auto type = static_cast<DType>(p_[a[0]].integer & 255);
  const std::string_view bytes = p_[a[1]].view();
  const auto width = static_cast<size_t>(dtype_size(type));
  if (bytes.size() != width) bad("a number of NumPy has a wrong size");
  const Tensor t = empty(Sizes(), type);
  std::memcpy(t.data(), bytes.data(), width);
  if (p_[a[0]].integer & 256) swap_bytes(t.data(), static_cast<int>(width), 1);
  if (type == DType::Bool) return node(PickleKind::Bool, bytes[0] != 0);
  if (!is_floating(type)) return node(PickleKind::Int, read_int(t.get(), 0));
  const uint32_t i = node(PickleKind::Float);
  p_.nodes[i].real = read_double(t.get(), 0);
  return i;
}

// (version, shape, type, whether the first index runs fastest, bytes)
void PickleMaker::fill_array(uint32_t array, const std::vector<uint32_t>& state) {
  if (state.size() < 5 || p_[state[2]].kind != PickleKind::NumpyType ||
      p_[state[4]].kind != PickleKind::Text)
    bad("an array of NumPy has no type or no elements");
  const auto type = static_cast<DType>(p_[state[2]].integer & 255);
  PickleTensor t{};
  t.dtype = type;
  t.shape = sizes(state[1]);
  t.stride = t.shape;
  const int n = t.shape.size();
  const bool first_fastest = p_[state[3]].kind == PickleKind::Bool && p_[state[3]].integer;
  int64_t step = 1;
  const int64_t bytes = data_bytes(type, t.shape, name_);
  for (int k = 0; k < n; ++k) {
    const int d = first_fastest ? k : n - 1 - k;
    t.stride[d] = step;
    if (bytes > 0) step *= t.shape[d];
  }
  std::string_view elements = p_[state[4]].view();
  if (elements.size() != static_cast<size_t>(bytes)) bad("an array of NumPy has a wrong size");
  if (elements.size() > elements_) bad("it copies more than it holds");
  elements_ -= elements.size();
  if (p_[state[2]].integer & 256) {
    std::string& swapped = p_.texts.emplace_back(elements);
    swap_bytes(swapped.data(), dtype_size(type), bytes / dtype_size(type));
    elements = swapped;
  }
  t.storage = static_cast<uint32_t>(p_.storages.size());
  PickleStorage s;
  s.key = format("an array of NumPy, %u", t.storage);
  s.device = "cpu";
  s.dtype = type;
  s.numel = bytes / dtype_size(type);
  s.inside = elements;
  p_.storages.push_back(std::move(s));
  p_.tensors.push_back(t);
  p_.nodes[array].kind = PickleKind::Tensor;
  p_.nodes[array].integer = static_cast<int64_t>(p_.tensors.size() - 1);
}

}  // namespace tycho::io
