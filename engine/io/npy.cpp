// Reading and writing .npy headers, and the order of the elements (see npy.h).
#include "engine/io/npy.h"

#include <algorithm>
#include <cstring>

#include "engine/io/file.h"
#include "engine/io/scan.h"

namespace tycho::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// NumPy's name of each dtype, by code, without the byte order.
constexpr const char* kDescr[kDTypes] = {"b1", "u1", "i1",    "i2", "i4",
                                         "i8", "f2", nullptr, "f4", "f8"};

std::string python_string(Scanner& s) {
  s.skip_space();
  const char quote = s.take();
  if (quote != '\'' && quote != '"') s.wrong("expected a string");
  std::string text;
  for (char c; (c = s.take()) != quote;) {
    if (c == '\\') s.wrong("an escape in a string");
    text += c;
  }
  return text;
}

// The text of a list such as [('a', '<i4'), ('b', '<f4')], for the error that refuses it.
std::string list_text(Scanner& s) {
  const size_t start = s.position();
  int depth = 0;
  do {
    const char c = s.take();
    depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
  } while (depth > 0);
  return std::string(s.since(start));
}

[[noreturn]] void refuse(const std::string& name, const std::string& descr) {
  static constexpr struct {
    const char *code, *what;
  } known[] = {{"u2", "uint16"},      {"u4", "uint32"}, {"u8", "uint64"}, {"c8", "complex64"},
               {"c16", "complex128"}, {"U", "text"},    {"S", "bytes"},   {"O", "Python objects"},
               {"[", "records"},      {"M", "dates"},   {"m", "times"},   {"f16", "long double"}};
  const std::string code = descr.substr(descr.find_first_not_of("<>=|") == 1 ? 1 : 0);
  const char* what = "an unknown type";
  for (const auto& k : known)
    if (code == k.code || (k.code[1] == '\0' && code[0] == k.code[0])) what = k.what;
  fail(Kind::Io, name + " holds " + what + " (" + descr.substr(0, 60) +
                     "), which no tensor can; convert the array in NumPy with astype, for example "
                     "to int64 or float32");
}

template <int size>
void row_major_copy(const NpyHeader& h, const char* from, char* to) {
  // Steps of the file's order, in elements, while the indices run in row-major order.
  int64_t step[kMaxDims], index[kMaxDims] = {}, s = 1;
  for (int d = 0; d < h.shape.size(); ++d) step[d] = s, s *= h.shape[d];
  const int64_t n = h.bytes / size;
  const int last = h.shape.size() - 1;
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i, to += size) {
    std::memcpy(to, from + at * size, size);
    for (int d = last; d >= 0; --d) {
      at += step[d];
      if (++index[d] < h.shape[d]) break;
      at -= step[d] * h.shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

DType npy_dtype(const std::string& descr, const std::string& name, bool* big_endian) {
  std::string_view code = descr;
  *big_endian = !code.empty() && code[0] == '>';
  if (!code.empty() && std::strchr("<>=|", code[0])) code.remove_prefix(1);
  for (int t = 0; t < kDTypes; ++t)
    if (kDescr[t] && code == kDescr[t]) return static_cast<DType>(t);
  if (code == "?") return DType::Bool;
  refuse(name, descr);
}

NpyHeader parse_npy(std::string_view file, const std::string& name) {
  if (file.substr(0, kMagic.size()) != kMagic || file.size() < 10)
    fail(Kind::Io, name + " is no .npy file: it does not begin with \\x93NUMPY");
  const auto byte = [&](size_t i) { return size_t{static_cast<uint8_t>(file[i])}; };
  const size_t version = byte(6);
  if (version < 1 || version > 3)
    damaged(name, format("it has version %zu of the format; 1 to 3 exist", version));
  const size_t start = version == 1 ? 10 : 12;
  if (file.size() < start) damaged(name, "it ends within its header");
  const size_t length = version == 1 ? byte(8) | byte(9) << 8
                                     : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > file.size() - start) damaged(name, "it ends within its header");

  NpyHeader h{};
  h.data_offset = start + length;
  Scanner s(file.substr(start, length), name, "its header");
  std::string descr;
  bool has_descr = false, has_order = false, has_shape = false;
  s.expect('{');
  while (!s.eat('}')) {
    const std::string key = python_string(s);
    s.expect(':');
    s.skip_space();
    if (key == "descr") {
      if (s.peek() == '[' || s.peek() == '(') refuse(name, list_text(s));
      descr = python_string(s);
      has_descr = true;
    } else if (key == "fortran_order") {
      h.fortran_order = s.eat_word("True");
      if (!h.fortran_order && !s.eat_word("False")) s.wrong("expected True or False");
      has_order = true;
    } else if (key == "shape") {
      if (has_shape) s.wrong("a second shape");
      s.expect('(');
      while (!s.eat(')')) {
        const int64_t size = s.integer();
        if (s.peek() == 'L') s.take();  // of Python 2
        if (h.shape.size() == kMaxDims)
          damaged(name, format("it has more than %d dimensions", kMaxDims));
        h.shape.push_back(size);
        if (!s.eat(',') && s.peek() != ')') s.wrong("expected , or )");
      }
      has_shape = true;
    } else {
      s.wrong("an unknown key, " + key.substr(0, 60));
    }
    if (!s.eat(',') && s.peek() != '}') s.wrong("expected , or }");
  }
  s.skip_space();
  if (!s.done()) s.wrong("something follows the header's end");
  if (!has_descr || !has_order || !has_shape)
    damaged(name, "its header lacks one of descr, fortran_order and shape");
  h.dtype = npy_dtype(descr, name, &h.big_endian);
  h.bytes = data_bytes(h.dtype, h.shape, name);
  const size_t have = file.size() - h.data_offset;
  if (static_cast<size_t>(h.bytes) > have)
    damaged(name, format("its header says %s of %s, which is %lld bytes, but it holds %zu",
                         to_string(h.shape).c_str(), dtype_name(h.dtype),
                         static_cast<long long>(h.bytes), have));
  return h;
}

void copy_npy(const NpyHeader& h, std::string_view file, void* out) {
  const char* const from = file.data() + h.data_offset;
  char* const to = static_cast<char*>(out);
  const int size = dtype_size(h.dtype);
  if (h.bytes == 0) return;
  if (!h.fortran_order || h.shape.size() < 2) {
    std::memcpy(to, from, static_cast<size_t>(h.bytes));
  } else {
    switch (size) {
      case 1:
        row_major_copy<1>(h, from, to);
        break;
      case 2:
        row_major_copy<2>(h, from, to);
        break;
      case 4:
        row_major_copy<4>(h, from, to);
        break;
      default:
        row_major_copy<8>(h, from, to);
        break;
    }
  }
  if (h.big_endian) swap_bytes(to, size, h.bytes / size);
  if (h.dtype == DType::Bool)
    for (int64_t i = 0; i < h.bytes; ++i) to[i] = to[i] != 0;
}

std::string npy_header(DType dtype, const Sizes& shape) {
  const char* const code = kDescr[static_cast<int>(dtype)];
  if (!code)
    fail(Kind::Io,
         std::string(".npy files cannot hold ") + dtype_name(dtype) +
             ", because NumPy has no such type; save x:float() instead, or a .safetensors "
             "or .pt file");
  std::string text = std::string("{'descr': '") + (dtype_size(dtype) == 1 ? '|' : '<') + code +
                     "', 'fortran_order': False, 'shape': (";
  for (int d = 0; d < shape.size(); ++d)
    text += std::to_string(shape[d]) + (d + 1 < shape.size() ? ", " : shape.size() == 1 ? "," : "");
  text += "), }";
  // Space up to a multiple of 64, so that the elements are aligned, and a newline.
  const size_t start = kMagic.size() + 4;
  text.resize((start + text.size() + 1 + 63) / 64 * 64 - start - 1, ' ');
  text += '\n';
  std::string header(kMagic);
  header +=
      {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace tycho::io
