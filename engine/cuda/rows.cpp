// The launches of rows, copies and fills.
#include "engine/cuda/rows.h"

#include <cstring>
#include <mutex>
#include <unordered_map>

#include "engine/base/check.h"
#include "engine/cuda/context.h"
#include "engine/cuda/graph.h"
#include "engine/cuda/launch.h"
#include "engine/cuda/pinned.h"
#include "engine/cuda/walk.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/tensor/half.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

constexpr unsigned kThreads = 256;

const char* lanes_of(DType t) {
  return t == DType::Float64 ? "f64" : is_floating(t) ? "f32" : "i64";
}

Address address_of(const Tensor& t) { return reinterpret_cast<Address>(t.data()); }

// What a row's kernel was compiled for.
KernelHandle row_kernel(Device device, int row, const char* lanes, const Operands& w, bool packed) {
  static std::mutex mutex;
  static std::unordered_map<std::string, KernelHandle> known;
  std::string key;  // short enough to take no memory
  const auto add = [&](auto... bytes) { (key.push_back(static_cast<char>(bytes)), ...); };
  add(row & 255, row >> 8, lanes[0], lanes[1], arch(device), packed);
  for (int k = 0; k < w.count; ++k) add(w.data[k] ? w.dtype[k] : -1);
  const std::lock_guard lock(mutex);
  KernelHandle& handle = known[key];
  if (handle) return handle;
  std::string why;
  const void* code = driver().compile_row(row_source(row, lanes, w.dtype, w.count, packed),
                                          arch(device), false, &why);
  TYCHO_CHECK(Kind::Device, code, "%s: %s", row_name(row), why.c_str());
  Library library = nullptr;
  check(driver().load_library(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0),
        format("the driver refuses what NVRTC made of %s (tycho doctor shows their versions)",
               row_name(row))
            .c_str());
  check(driver().find_kernel(&handle, library, format("row_%s_%s", row_name(row), lanes).c_str()),
        row_name(row));
  return handle;
}

double rounded_to(DType compute, double x) {
  if (compute == DType::Float16) return from_float16(to_float16(x));
  if (compute == DType::BFloat16) return from_bfloat16(to_bfloat16(x));
  return x;
}

// The lanes that hold what both types have.
int lanes_between(DType from, DType to) {
  if (!is_floating(from)) return 0;
  return from == DType::Float64 || to == DType::Float64 ? 2 : 1;
}

// The dimension along which tensor k's elements are neighbours, long enough for a tile; -1: none.
int line_of(const Operands& w, int k) {
  for (int d = 0; d < w.rank; ++d)
    if (w.stride[k][d] == 1 && w.size[d] >= 8) return d;
  return -1;
}

void swap_dims(Operands& w, int a, int b) {
  std::swap(w.size[a], w.size[b]);
  for (int k = 0; k < w.count; ++k) std::swap(w.stride[k][a], w.stride[k][b]);
}

void move_on(Device device, const Tensor& to, const Tensor& from) {
  static constexpr const char *kMove[] = {"move_i64", "move_f32", "move_f64"},
                              *kTurn[] = {"turn_i64", "turn_f32", "turn_f64"};
  const Impl* both[] = {to.get(), from.get()};
  Operands w = walk_of(both, 2);
  const int lanes = lanes_between(from.dtype(), to.dtype());
  const int out = line_of(w, 0), in = line_of(w, 1);
  if (out >= 0 && in >= 0 && out != in) {
    swap_dims(w, in, w.rank - 1);
    swap_dims(w, out == w.rank - 1 ? in : out, w.rank - 2);
    int64_t tiles = 1;
    for (int d = 0; d < w.rank; ++d) tiles *= d < w.rank - 2 ? w.size[d] : (w.size[d] + 31) / 32;
    if (tiles <= INT32_MAX)
      return launch(device, {"move", kTurn[lanes]}, Grid{static_cast<unsigned>(tiles)},
                    Block{32, 8}, 0, w);
  }
  launch(device, {"move", kMove[lanes]}, grid_for(device, to.numel(), kThreads), Block{kThreads}, 0,
         w);
}

// Contiguous from whole 16 bytes on, or one number that repeats.
bool can_be_packed(const Operands& w) {
  bool good = w.rank == 0 && w.stride[0][0] == 1;
  for (int k = 0; k < w.count; ++k)
    good &= !w.data[k] || w.stride[k][0] == 0 ||
            (w.stride[k][0] == 1 && reinterpret_cast<uintptr_t>(w.data[k]) % 16 == 0);
  return good;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.contiguous() && b.contiguous() && a.shape() == b.shape();
}

size_t bytes_of(const Tensor& t) {
  return static_cast<size_t>(t.numel()) * static_cast<size_t>(dtype_size(t.dtype()));
}

// The same values, row-major and with the type of `like`'s, where `t` lies.
Tensor straight(const Tensor& t, const Sizes& shape, DType dtype) {
  if (t.contiguous() && t.dtype() == dtype && t.shape() == shape) return t;
  const Tensor s = empty(shape, dtype, t.device());
  backend_of(t.device()).copy(s, t);
  return s;
}

}  // namespace

const char* row_name(int row) {
  static const char* const names[] = {
#define ROW(name, ...) #name,
#include "engine/ops/elementwise/elementwise.def"
  };
  return names[row];
}

std::string row_source(int row, const char* lanes, const int32_t* dtypes, int count, bool packed) {
  const char* type = lanes[0] == 'i' ? "int64_t" : lanes[1] == '6' ? "double" : "float";
  std::string source = packed ? "#define TYCHO_ROW_PACKED\n" : "";
  source += "#define TYCHO_ROW_TYPES ";
  for (int k = 0; k < count; ++k) source += format(k ? ", %d" : "%d", dtypes[k]);
  return source +
         format(
             "\n#include \"engine/cuda/kernels/rows.cuh\"\nextern \"C\" __global__ void row_%s_%s("
             "tycho::cuda::Operands w) {\n  tycho::cuda::row<tycho::cpu::scalar::Value_%s, %d, "
             "%s>(w);\n}\n",
             row_name(row), lanes, row_name(row), count - 1, type);
}

void run_row(int row, DType compute, const Value* args, int n, Impl* out) {
  if (!out->numel) return;
  const bool truth = row_info[row].type == RowType::Test;
  const Impl* tensors[kOperands + 1] = {out};
  Tensor kept[kOperands];
  for (int k = 0; k < n; ++k) {
    if (args[k].tag != Tag::Tensor) continue;
    tensors[k + 1] = args[k].t;
    // A number of the host, or one that is compared in the promoted type.
    if (args[k].t->device.is_cpu() ||
        (truth && args[k].t->numel == 1 && out->numel != 1 && args[k].t->dtype != compute &&
         is_floating(args[k].t->dtype)))
      tensors[k + 1] = nullptr;
  }
  Operands w = walk_of(tensors, n + 1);
  for (int k = 0; k < n; ++k) {
    if (tensors[k + 1]) continue;
    const Value& v = args[k];
    if (v.tag == Tag::Tensor) {
      w.number[k + 1] = number_at(v.t, 0);
      w.integer[k + 1] = is_floating(v.t->dtype) ? 0 : integer_at(v.t, 0);
    } else {
      w.number[k + 1] = v.number();
      w.integer[k + 1] = v.tag == Tag::Int     ? v.i
                         : v.tag == Tag::Float ? static_cast<int64_t>(v.d)
                                               : static_cast<int64_t>(v.b);
    }
    if (truth) w.number[k + 1] = rounded_to(compute, w.number[k + 1]);
  }
  const Device device = out->device;
  for (int k = 0; k < n; ++k)
    if (args[k].tag == Tag::Tensor && !args[k].t->device.is_cpu())
      backend_of(device).use(args[k].t, false);
  backend_of(device).use(out, true);
  launch_row(device, row, compute, w);
}

void launch_row(Device device, int row, DType compute, Operands& w) {
  const char* lanes = lanes_of(compute);
  const Stream stream = stream_of(device);
  const bool packed = can_be_packed(w);
  if (packed) w.rank = -1;  // kPacked there
  const KernelHandle kernel = row_kernel(device, row, lanes, w, packed);
  int widest = 1;
  for (int k = 0; k < w.count; ++k) widest = std::max(widest, dtype_size(DType(w.dtype[k])));
  const int64_t each = packed ? 16 / widest : 1;  // elements of a thread
  const Grid grid = grid_for(device, (w.numel + each - 1) / each, kThreads);
  void* arguments[] = {&w, nullptr};
  check(driver().launch(kernel, grid.x, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr),
        row_name(row));
}

void copy(const Tensor& to, const Tensor& from) {
  if (!to.numel()) return;
  const Device there = to.device(), here = from.device();
  if (!here.is_cpu()) backend_of(here).use(from.get(), false);
  if (!there.is_cpu()) backend_of(there).use(to.get(), true);
  if (there == here) {
    if (!same_bytes(to, from)) return move_on(there, to, from);
    return check(
        driver().copy_within(address_of(to), address_of(from), bytes_of(to), stream_of(there)),
        "copying on a device");
  }
  if (!same_bytes(to, from)) {
    // One side makes the values straight, the other spreads them; converted where they come from.
    const Tensor s = straight(from, from.shape(), to.dtype());
    if (to.contiguous() && to.shape() == s.shape()) return copy(to, s);
    const Tensor arrived = empty(s.shape(), s.dtype(), there);
    copy(arrived, s);
    return backend_of(there).copy(to, arrived);
  }
  if (here.is_cpu()) {
    if (recording_on(there)) return copy_later(to, from);
    DeviceContext& d = context_of(there);
    check(driver().copy_up(address_of(to), from.data(), bytes_of(to), stream_of(there)),
          "copying to a device");
    // The host may change pinned memory as soon as this returns.
    if (is_pinned(*from->storage)) finish(d, stream_of(there));
    return;
  }
  if (there.is_cpu()) {
    not_while_capturing(here, "a copy to the host that is waited for");
    DeviceContext& d = context_of(here);
    const Stream stream = stream_of(here);
    finish(d, stream);
    check(driver().copy_down(to.data(), address_of(from), bytes_of(to), stream),
          "copying from a device");
    check(driver().finish_stream(stream), "copying from a device");
    return raise_faults(here);
  }
  not_while_capturing(here, "a copy between devices");
  not_while_capturing(there, "a copy between devices");
  // The copy stands in the giver's stream; the taker goes on when it is done.
  Backend& backend = backend_of(here);
  const Context taker = context_of(there).context;
  const StreamId ours = current_stream(here), theirs = current_stream(there);
  backend.wait_on_device(here, ours, there, theirs, backend.mark(there, theirs));
  DeviceContext& giver = context_of(here);
  check(driver().copy_across(address_of(to), taker, address_of(from), giver.context, bytes_of(to),
                             giver.stream(ours)),
        "copying between devices");
  backend.wait_on_device(there, theirs, here, ours, backend.mark(here, ours));
}

void fill(const Tensor& to, const void* element) {
  if (!to.numel()) return;
  const int bytes = dtype_size(to.dtype());
  backend_of(to.device()).use(to.get(), true);
  const Impl* one[] = {to.get()};
  Operands w = walk_of(one, 1);
  std::memcpy(&w.integer[0], element, static_cast<size_t>(bytes));
  const char* kernel = bytes == 1   ? "fill_1"
                       : bytes == 2 ? "fill_2"
                       : bytes == 4 ? "fill_4"
                                    : "fill_8";
  launch(to.device(), {"move", kernel}, grid_for(to.device(), to.numel(), kThreads),
         Block{kThreads}, 0, w);
}

}  // namespace tycho::cuda
