// NumPy's numbers and arrays in pickles (see pickle_make.h): what training programs keep beside
// their tensors, such as the best accuracy so far or the state of a random generator. Unsigned
// integers of 16 bits become int32 and those of 32 and 64 int64, so that such a value does not
// stand before all others.
#include <cstring>

#include "engine/io/file.h"
#include "engine/io/npy.h"
#include "engine/io/pickle_make.h"
#include "engine/tensor/read.h"
#include "engine/tensor/tensor.h"

namespace tycho::io {

namespace {

struct Type {
  DType dtype;
  bool big_endian;
  int widened;  // the bytes of an unsigned integer that no dtype has, else 0
  explicit Type(const PickleNode& n)
      : dtype(static_cast<DType>(n.integer & 255)),
        big_endian((n.integer & 256) != 0),
        widened(static_cast<int>(n.integer >> 12)) {}
  int file_bytes() const { return widened ? widened : dtype_size(dtype); }
};

template <class In, class Out>
std::string wide(const std::string& s) {
  std::string result(s.size() / sizeof(In) * sizeof(Out), '\0');
  for (size_t i = 0; i < s.size() / sizeof(In); ++i) {
    In in;
    std::memcpy(&in, s.data() + i * sizeof in, sizeof in);
    const Out out = static_cast<Out>(in);
    std::memcpy(result.data() + i * sizeof out, &out, sizeof out);
  }
  return result;
}

}  // namespace

uint32_t PickleMaker::numpy_type(std::string_view descr) {
  if (descr == "u2") return node(PickleKind::NumpyType, static_cast<int>(DType::Int32) + 4096 * 2);
  if (descr == "u4" || descr == "u8")
    return node(PickleKind::NumpyType,
                static_cast<int>(DType::Int64) + 4096 * (descr == "u4" ? 4 : 8));
  bool big_endian = false;
  const DType t = npy_dtype(std::string(descr.substr(0, 40)), name_, &big_endian);
  return node(PickleKind::NumpyType, static_cast<int64_t>(t) + (big_endian ? 256 : 0));
}

// The elements of a tensor, from those of NumPy.
std::string PickleMaker::numpy_elements(uint32_t type, std::string_view bytes) const {
  const Type t(p_[type]);
  std::string s(bytes);
  if (t.big_endian) swap_bytes(s.data(), t.file_bytes(), std::ssize(s) / t.file_bytes());
  if (t.widened == 2) return wide<uint16_t, int32_t>(s);
  if (t.widened == 4) return wide<uint32_t, int64_t>(s);
  for (size_t i = 7; t.widened && i < s.size(); i += 8)
    if (s[i] & '\x80')
      fail(Kind::Io, name_ + " holds a number of uint64 that is too large for int64");
  return s;
}

// (type, bytes)
uint32_t PickleMaker::numpy_number(const std::vector<uint32_t>& a) {
  if (a.size() < 2 || p_[a[0]].kind != PickleKind::NumpyType || p_[a[1]].kind != PickleKind::Text)
    bad("a number of NumPy has no type or no value");
  const Type type(p_[a[0]]);
  const std::string_view bytes = p_[a[1]].view();
  if (bytes.size() != static_cast<size_t>(type.file_bytes()))
    bad("a number of NumPy has a wrong size");
  const Tensor t = empty(Sizes(), type.dtype);
  const std::string element = numpy_elements(a[0], bytes);
  std::memcpy(t.host(), element.data(), element.size());
  if (type.dtype == DType::Bool) return node(PickleKind::Bool, bytes[0] != 0);
  if (!is_floating(type.dtype)) return node(PickleKind::Int, item<int64_t>(t));
  const uint32_t i = node(PickleKind::Float);
  p_.nodes[i].real = item(t);
  return i;
}

// (version, shape, type, whether the first index runs fastest, bytes)
void PickleMaker::fill_array(uint32_t array, const std::vector<uint32_t>& state) {
  if (state.size() < 5 || p_[state[2]].kind != PickleKind::NumpyType ||
      p_[state[4]].kind != PickleKind::Text)
    bad("an array of NumPy has no type or no elements");
  const Type type(p_[state[2]]);
  PickleTensor t{};
  t.dtype = type.dtype;
  t.shape = sizes(state[1]);
  t.stride = t.shape;
  const int n = t.shape.size();
  const bool first_fastest = p_[state[3]].kind == PickleKind::Bool && p_[state[3]].integer;
  int64_t step = 1;
  const int64_t bytes = data_bytes(t.dtype, t.shape, name_);
  const int64_t count = bytes / dtype_size(t.dtype);
  for (int k = 0; k < n; ++k) {
    const int d = first_fastest ? k : n - 1 - k;
    t.stride[d] = step;
    if (bytes > 0) step *= t.shape[d];
  }
  std::string_view elements = p_[state[4]].view();
  if (elements.size() != static_cast<size_t>(count * type.file_bytes()))
    bad("an array of NumPy has a wrong size");
  if (elements.size() > elements_) bad("it copies more than it holds");
  elements_ -= elements.size();
  if (type.big_endian || type.widened)
    elements = p_.texts.emplace_back(numpy_elements(state[2], elements));
  t.storage = static_cast<uint32_t>(p_.storages.size());
  PickleStorage s;
  s.key = format("an array of NumPy, %u", t.storage);
  s.device = "cpu";
  s.dtype = t.dtype;
  s.numel = count;
  s.inside = elements;
  p_.storages.push_back(std::move(s));
  p_.tensors.push_back(t);
  p_.nodes[array].kind = PickleKind::Tensor;
  p_.nodes[array].integer = static_cast<int64_t>(p_.tensors.size() - 1);
}

}  // namespace tycho::io
