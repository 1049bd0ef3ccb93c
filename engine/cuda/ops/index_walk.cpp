// Making walks and launching their kernels.
#include "engine/cuda/ops/index_walk.h"

#include "engine/cuda/context.h"
#include "engine/cuda/faults.h"
#include "engine/ops/shape/create.h"

namespace tycho::cuda {
namespace {

// From so many on, elements that meet in one place are found by sorting, not one after the other.
constexpr int64_t kSortedLine = 64;

// Elements from x's first to its last.
size_t extent(const Tensor& x) {
  int64_t n = 1;
  for (int d = 0; d < x.rank(); ++d) n += (x.size(d) - 1) * x.stride(d);
  return static_cast<size_t>(n);
}

}  // namespace

Tensor positions_of(const Tensor& index) {
  if (index.dtype() == DType::Int64) return packed(index);
  const Tensor t = empty(index.shape(), DType::Int64, index.device());
  copy_raw(t, index);
  return t;
}

DType meeting_type(DType t) {
  return dtype_size(t) == 2 && is_floating(t) ? DType::Float32 : is_floating(t) ? t : DType::Int64;
}
Tensor as(const Tensor& t, DType type) {
  if (t.dtype() == type) return t;
  const Tensor y = empty(t.shape(), type, t.device());
  copy_raw(y, t);
  return y;
}

Tensor scalar(const Tensor& like, const Value& number, DType type) {
  const Tensor t = empty(Sizes(), type, like.device());
  fill_raw(t, number);
  return t;
}

Tensor apart(const Tensor& t, const Tensor& changed) {
  if (t->storage.get() != changed->storage.get()) return t;
  const Tensor copy = empty(t.shape(), t.dtype(), t.device());
  copy_raw(copy, t);
  return copy;
}

Changed::Changed(Call& c, bool meets) : out(c.out[0]), work(out) {
  const DType type = meets ? meeting_type(out.dtype()) : out.dtype();
  if (type != out.dtype()) work = empty(out.shape(), type, out.device());
  if (work.get() != out.get() || !c.inplace) copy_raw(work, c.tensor(0));
}

void Walk::add_index(const Tensor& index, int64_t limit, int64_t step) {
  hold_.push_back(positions_of(index));
  indices_.push_back({hold_.back().data<int64_t>(), {}, limit, step});
}

template <class... More>
void Walk::run(Device device, const char* name, const Indexed& w, const More&... more) const {
  launch(device, {"index", name}, grid_for(device, w.numel), {256}, 0, w, more...);
}
void Walk::clear(Device device, const Scratch& memory, size_t bytes) const {
  check(driver().set_bytes(reinterpret_cast<Address>(memory.as()), 0, bytes, stream_of(device)),
        name_);
}

Indexed Walk::made(const Tensor& x, const Tensor& other) {
  Indexed w{};
  w.numel = w.per_line = 1;
  w.x = x.data<void>();
  w.other = other.data<void>();
  w.negative = negative_;
  w.op = fault_number(name_);
  w.fault = fault_of(x.device());
  for (const IndexTensor& index : indices_) w.index[w.count++] = index;
  for (const bool repeats : {false, true})
    for (const Dim& d : dims_) {
      if (d.repeats != repeats) continue;
      w.numel *= d.size;
      if (repeats) w.per_line *= d.size;
      if (d.size == 1) continue;
      w.size[w.rank] = d.size;
      w.x_stride[w.rank] = d.x;
      w.other_stride[w.rank] = d.other;
      for (int k = 0; k < w.count; ++k) w.index[k].stride[w.rank] = d.index[k];
      ++w.rank;
    }
  return w;
}

bool Walk::lines_alike() const {
  for (const Dim& d : dims_)
    for (size_t k = 0; k < indices_.size(); ++k)
      if (!d.repeats && d.size > 1 && d.index[k] != 0) return false;
  return true;
}

void Walk::take(const Tensor& x, const Tensor& out) {
  Indexed w = made(x, out);
  const char* const names[] = {"take_1", "take_2", "take_4", "take_8"};
  run(x.device(), by_size(names, x.dtype()), w);
}
void Walk::put(const Tensor& x, const Tensor& source, Meeting how) {
  const Device device = x.device();
  const Scratch bad(device, sizeof(uint32_t));
  clear(device, bad, sizeof(uint32_t));
  Indexed w = made(x, source);
  w.bad = bad.as<uint32_t>();
  for (size_t k = 0; k < indices_.size(); ++k) {
    CheckedPositions p{};
    p.data = indices_[k].data;
    p.numel = hold_[k].numel();
    p.limit = indices_[k].limit;
    p.negative = negative_;
    p.op = w.op;
    p.fault = w.fault;
    p.bad = bad.as<uint32_t>();
    launch(device, {"index", "check_positions"}, grid_for(device, p.numel), {256}, 0, p);
  }
  if (how == Meeting::Set) {
    const char* const names[] = {"set_1", "set_2", "set_4", "set_8"};
    if (w.numel == 0) return;
    const bool one_value = source.numel() == 1;
    const size_t places = one_value ? 0 : sizeof(int64_t) * extent(x);
    const Scratch last(device, places);
    if (!one_value) {
      clear(device, last, places);
      w.last = last.as<unsigned long long>();
      run(device, "find_last", w);
    }
    return run(device, by_size(names, x.dtype()), w);
  }
  const bool wide = x.dtype() == DType::Float64;
  if (!is_floating(x.dtype())) return run(device, "meet_any_i64", w, how);
  if (how == Meeting::Max || how == Meeting::Min)
    return run(device, wide ? "meet_any_f64" : "meet_any_f32", w, how);
  if (w.numel == 0) return;
  if (w.per_line >= kSortedLine && lines_alike()) {
    const Tensor places = empty({w.per_line}, DType::Int64, device);
    launch(device, {"index", "line_places"}, grid_for(device, w.per_line), {256}, 0, w,
           places.data<int64_t>());
    const auto sorted = ops<"sort">(places, 0, false, true);
    const PlaceRuns runs{sorted[0].data<int64_t>(), sorted[1].data<int64_t>()};
    return run(device, wide ? "meet_runs_f64" : "meet_runs_f32", w, how, runs);
  }
  launch(device, {"index", wide ? "meet_lines_f64" : "meet_lines_f32"},
         grid_for(device, w.numel / w.per_line), {256}, 0, w, how);
}

}  // namespace tycho::cuda
