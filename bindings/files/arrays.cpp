// Files of one array: NumPy's .npy, and IDX, the format of MNIST and its relatives.
#include <cstring>

#include "bindings/files/files.h"
#include "engine/io/file.h"
#include "engine/io/idx.h"
#include "engine/io/npy.h"

namespace tycho::lua {
namespace {

// The same elements, read with the first index running fastest.
Tensor first_fastest(const Tensor& t) {
  Sizes stride = t.shape();
  int64_t step = 1;
  for (int d = 0; d < t.rank(); step *= std::max<int64_t>(t.size(d), 1), ++d) stride[d] = step;
  return alias(t, t.shape(), stride, 0);
}

Tensor idx_array(std::string_view bytes, const std::string& path) {
  const io::IdxArray a = io::parse_idx(bytes, path);
  const Tensor t = empty(a.shape, a.dtype);
  std::memcpy(t.host(), a.data.data(), a.data.size());
  return t;
}

}  // namespace

bool is_npy_file(std::string_view bytes) { return bytes.starts_with("\x93NUMPY"); }

void push_npy(lua_State* L, const io::Input& file, const LoadOptions& o) {
  const io::NpyHeader h = io::parse_npy(file.bytes(), file.path());
  Tensor t;
  if (h.as_they_are()) {
    const auto part = file.bytes().substr(h.data_offset, static_cast<size_t>(h.bytes));
    t = as_array(file.read(part, o.mmap == 1 ? dtype_size(h.dtype) : 0), h.dtype, h.shape);
    if (h.fortran_order) t = on_cpu(first_fastest(t));
  } else {
    t = empty(h.shape, h.dtype);
    io::copy_npy(h, file.bytes(), t.host());
  }
  push(L, moved_to(t, o.place(L, "cpu", t, file.path())));
}

void save_npy(lua_State* L, int value, const std::string& path) {
  const Tensor t = on_cpu(check_tensor(L, value, "save"));
  const std::string head = io::npy_header(t.dtype(), t.shape());
  io::atomic_write(path, [&](io::Output& out) {
    out.write(head);
    out.write(t.host(), static_cast<size_t>(t.numel()) * dtype_size(t.dtype()));
  });
}

// Two zeros, a type's number (8: bytes, 14: doubles) and the number of dimensions.
bool is_idx_file(std::string_view bytes) {
  return bytes.size() > 4 && bytes[0] == 0 && bytes[1] == 0 && bytes[2] >= 8 && bytes[2] <= 14 &&
         bytes[3] >= 1 && bytes[3] <= kMaxDims;
}

void push_idx(lua_State* L, const io::Input& file, const LoadOptions& o) {
  const Tensor t = idx_array(file.bytes(), file.path());
  push(L, moved_to(t, o.place(L, "cpu", t, file.path())));
}

// torch.io.read_idx(path): an array in MNIST's format, packed by gzip or not
int read_idx(lua_State* L) {
  const std::string path = path_at(L, 1, "read_idx");
  push(L, idx_array(io::read_file(path), path));
  pace_collector(L);
  return 1;
}

Tensor as_array(const Tensor& bytes, DType dtype, const Sizes& shape) {
  Sizes stride = shape;
  int64_t step = 1;
  for (int d = shape.size(); d-- > 0; step *= std::max<int64_t>(shape[d], 1)) stride[d] = step;
  Tensor t = alias(bytes, shape, stride, 0);
  t->dtype = dtype;
  return t;
}

}  // namespace tycho::lua
