// The rows that a thread holds back (see fuse.h).
#include "engine/fuse/fuse.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "engine/fuse/lying.h"
#include "engine/fuse/start.h"
#include "engine/ops/elementwise/row_program.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/observer.h"
#include "engine/ops/table/op.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/defer.h"
#include "engine/tensor/graph.h"
#include "engine/tensor/half.h"
#include "engine/tensor/read.h"

namespace tycho::fuse {
namespace {

// Larger results are computed at once: if there is no memory for them, it should be said where they
// are asked for.
constexpr size_t kMostBytes = size_t{256} << 20, kMostBytesOnDevices = size_t{2} << 30;
// Devices write so many times as fast: that much less is a result worth that nobody can see.
constexpr int64_t kDevicesWrite = 100;
constexpr int64_t kSmall = 64 << 10;  // bytes that a device always has
// Chains that are held together: two, for a * b + c * d. Rows that have nothing to do with each other
// would only take memory at once that could be used again.
constexpr int kMostEnds = 2;

// Operations whose kernels take in a row's result without memory between (RowEnd).
constexpr std::string_view kEnds[] = {
    "sum",      "nansum",   "mean",          "prod",          "amax",       "amin",
    "max",      "min",      "any",           "all",           "var",        "std",
    "var_mean", "std_mean", "count_nonzero", "count_numbers", "vector_norm"};

using From = RowProgram::From;

// Is what lies densely, but not row by row, held back? Views of all operands cost a microsecond more.
bool turned_pays(const Impl* like) {
  constexpr int64_t kLonger = 8;  // than the least that is held
  return like->numel / kLonger >= deferred_from.load(std::memory_order_relaxed) && is_dense(like);
}

// How the elements of a tensor that lies row by row repeat in a result of the shape of `like`: false
// when it is not as one block along dimensions that follow each other.
bool repeats(const Impl* t, const Impl* like, RowProgram::Input& in) {
  in.count = in.inner = 1;
  enum { Before, Block, After } part = Before;  // from the last dimension to the first
  for (int d = 1; d <= like->rank; ++d) {
    const int64_t size = like->shape[like->rank - d];
    if (size == 1) continue;
    if (d > t->rank || t->shape[t->rank - d] == 1) {
      if (part == Before)
        in.inner *= size;
      else
        part = After;
    } else if (part == After) {
      return false;
    } else {
      part = Block;
      in.count *= size;
    }
  }
  constexpr int64_t kShort = 16;  // below, a call for each element would cost more than it saves
  return in.inner == 1 || in.inner >= kShort || !like->device.is_cpu();
}

// A comparison of halves knows numbers as halves.
double rounded_to(DType type, double x) {
  if (type == DType::Float16) return double{from_float16(to_float16(x))};
  if (type == DType::BFloat16) return double{from_bfloat16(to_bfloat16(x))};
  return x;
}

// One per thread, and only its thread runs it: what crosses to another thread is waited for first.
class Held final : public InFlight {
 public:
  ~Held() { let_go(); }

  bool holds(const Storage& s) const {
    return s.in_flight == this && (step_of(s) >= 0 || &s == start_out_.get());
  }

  bool start(std::unique_ptr<RowStart>& s, const Tensor& out) {
    run();
    if (rows_held || out->storage->count.load() != 1 || out->offset != 0) return false;
    start_ = std::move(s);
    start_out_ = out->storage;
    p_.lanes = DType::Float32, p_.numel = out.numel(), p_.device = out.device();
    rows_held = 1;
    set_in_flight(*start_out_, this);
    return true;
  }

  bool end(const Impl* x, std::unique_ptr<RowEnd>& e, const Tensor* out, int n) {
    const int k = step_of(*x->storage);
    if (k < 0 || !p_.device.is_cpu() || p_.ends == p_.kMostEnds || !x->contiguous ||
        x->offset != 0 || x->numel != p_.numel || x->dtype != p_.step[k].type || n > kMostResults)
      return false;
    if (p_.ends && (e->unit != p_.end[0]->unit || e->piece != p_.end[0]->piece)) return false;
    for (int i = 0; i < n; ++i)  // made just now, and nobody else's
      if (out[i]->storage->count.load() != 1 || !out[i].device().is_cpu()) return false;
    for (int i = 0; i < n; ++i) {
      end_out_[p_.ends][i] = out[i]->storage;
      set_in_flight(*out[i]->storage, this);
    }
    e->step = k;
    ended_[k] = true;
    end_[p_.ends] = std::move(e);
    p_.end[p_.ends] = end_[p_.ends].get();
    ++p_.ends;
    return true;
  }

  // Undefined when the row cannot join what is held; the call then comes again, or runs at once.
  Tensor take(int row, DType compute, DType result, const Value* args, int n, const Impl* like) {
    const Lying lying(like);
    if (!p_.steps && is_sign_row(row, compute)) return {};  // sooner done than held
    const DType lanes = compute == DType::Float64 ? DType::Float64 : DType::Float32;
    if (rows_held && (lanes != p_.lanes || like->numel != p_.numel || like->device != p_.device ||
                      p_.steps == p_.kMostSteps))
      run();
    if (!p_.steps) p_.lanes = lanes, p_.numel = like->numel, p_.device = like->device;
    // On a device that is nearly full, who finds no memory is the row that asked for it.
    const int64_t bytes = like->numel * dtype_size(result);
    if (!like->device.is_cpu() && bytes > kSmall && promised_ + bytes > room_on(like->device))
      return run(), Tensor();
    Tensor out = join(row, compute, result, args, n, lying);
    if (!out && p_.steps) {
      run();
      out = join(row, compute, result, args, n, lying);
    }
    return out;
  }

  // A row in place: its result takes the place of the one that is held there. What has been asked of the
  // old one still reads it. False when the row cannot join.
  bool take_in_place(int row, DType compute, const Value* args, int n, const Tensor& self) {
    const int k = step_of(*self->storage);
    const DType lanes = compute == DType::Float64 ? DType::Float64 : DType::Float32;
    return k >= 0 && p_.device.is_cpu() && lanes == p_.lanes && self->offset == 0 &&
           self->numel == p_.numel && self.dtype() == p_.step[k].type &&
           join(row, compute, self.dtype(), args, n, Lying(self.get()), self);
  }

  void run() {
    if (!rows_held || running_) return;
    if (const int64_t n = perhaps_unseen(); n && drop_unseen && !std::exchange(collecting_, true)) {
      const Eager eager;  // finalizers may compute
      const int64_t bytes = n * p_.numel * dtype_size(p_.lanes);
      drop_unseen(p_.device.is_cpu() ? bytes : bytes / kDevicesWrite);
      collecting_ = false;
      if (!rows_held) return;  // a finalizer has needed a value
    }
    struct Running {
      bool& flag;
      explicit Running(bool& f) : flag(f) { flag = true; }
      ~Running() { flag = false; }
    } running{running_};
    // An error or an interrupt leaves everything held: nothing that is read has changed.
    for (int i = 0; i < p_.inputs; ++i) {
      TYCHO_CHECK(Kind::Value, input_[i]->version == version_[i],
                  "internal: a tensor changed before a held row had read it");
      p_.input[i].data = static_cast<const char*>(input_[i]->data) + offset_[i];
      p_.input[i].storage = input_[i].get();
    }
    // Results are written when somebody has them. They are computed also otherwise: work that was asked
    // for is done.
    for (int k = 0; k < p_.steps; ++k) {
      p_.step[k].to = nullptr;
      if (out_[k]->count.load() == 1) continue;
      give_memory(*out_[k]);
      p_.step[k].to = static_cast<char*>(out_[k]->data);
      p_.step[k].storage = out_[k].get();
    }
    using Clock = std::chrono::steady_clock;
    const Clock::time_point began = program_observer ? Clock::now() : Clock::time_point();
    RowProgram rest;
    const bool begun = start_ && run_start(rest);
    if (const RowProgram& p = begun ? rest : p_; p.steps) backend_of(p.device).run_rows(p);
    if (program_observer) {
      const std::chrono::duration<double> took = Clock::now() - began;
      program_observer->ran(p_, {line_, static_cast<size_t>(p_.steps)}, took.count());
    }
    let_go();
  }

  void wait(Storage& s) override {
    TYCHO_CHECK(Kind::Value, this == &held(),
                "internal: a held row is asked for by another thread");
    run();
    (void)s;
  }

  static Held& held() {
    static thread_local Held rows;
    return rows;
  }

 private:
  static constexpr int kMostResults = 2;  // of an end

  static int64_t room_on(Device device) {
    Backend& backend = backend_of(device);
    return backend.capacity(device) - backend.live_bytes(device);
  }

  int step_of(const Storage& s) const {
    for (int k = 0; k < p_.steps; ++k)
      if (out_[k].get() == &s) return k;
    return -1;
  }

  // Runs what starts the program; true when it did so with the first step, and `rest` comes after.
  bool run_start(RowProgram& rest) {
    int at = 0;
    while (at < p_.inputs && input_[at].get() != start_out_.get()) ++at;
    const bool seen = start_out_->count.load() > 2;  // by others than start_out_ and input_
    if (p_.steps && at < p_.inputs && start_with_step(p_, *start_, at, seen, *out_[0], rest))
      return true;
    start_->run();
    return false;
  }

  // Results before the last that somebody still has: temporaries, maybe, or replaced since.
  int64_t perhaps_unseen() const {
    int64_t n = start_ && p_.steps && start_out_->count.load() > 2;
    for (int k = 0; k < p_.steps; ++k)
      n += (k + 1 < p_.steps || ended_[k]) && out_[k]->count.load() > 1;
    return n;
  }

  // `self`: of a row in place.
  Tensor join(int row, DType compute, DType result, const Value* args, int n, const Lying& lying,
              const Tensor& self = Tensor()) {
    if (p_.steps == p_.kMostSteps) return {};
    const int inputs = p_.inputs;
    RowProgram::Step& step = p_.step[p_.steps];
    bool fits = true, connected = false;
    for (int j = 0; j < n && fits; ++j) {
      // One element of a device, compared in another type than its own, would have to be rounded.
      if (const Impl* t = args[j].tag == Tag::Tensor ? args[j].t : nullptr;
          t && result == DType::Bool && t->numel == 1 && !t->device.is_cpu() &&
          t->dtype != compute) {
        fits = false;
        break;
      }
      fits = operand(args[j], lying, step.operand[j]);
      // Comparisons of halves: as run.cpp does.
      if (result == DType::Bool && step.operand[j].from == From::Number &&
          (args[j].tag == Tag::Float ||
           (args[j].tag == Tag::Tensor && is_floating(args[j].t->dtype))))
        step.operand[j].number = rounded_to(compute, step.operand[j].number);
      connected = connected || step.operand[j].from == From::Step;
    }
    if (!fits || (!connected && ends_ == kMostEnds)) {
      forget_inputs(inputs);
      return {};
    }
    Ref<Storage> unseen;  // what was held there, which no tensor has any more
    if (self) unseen = promised_storage(self->storage->bytes, self.device());
    const Tensor out = self ? self : promised_like(Tensor(const_cast<Impl*>(lying.own())), result);
    step.row = row, step.n = n, step.type = result;
    for (int j = 0; j < n; ++j)
      if (step.operand[j].from == From::Step)
        ends_ -= !std::exchange(read_[step.operand[j].index], true);
    ++ends_;
    if (self) {
      set_in_flight(*unseen, this);
      out_[step_of(*self->storage)] = std::move(unseen);
    }
    out_[p_.steps] = out->storage;
    ended_[p_.steps] = false;
    if (program_observer) line_[p_.steps] = here();
    read_[p_.steps++] = false;
    rows_held = p_.steps;
    promised_ += static_cast<int64_t>(out->storage->bytes);
    set_in_flight(*out->storage, this);
    return out;
  }

  bool operand(const Value& v, const Lying& lying, RowProgram::Operand& o) {
    if (v.tag != Tag::Tensor) {
      o = {From::Number, 0, v.number()};
      return true;
    }
    const Impl* const like = lying.seen();
    const Tensor seen = lying.of(v.t);
    const Impl* const t = seen.get();
    Storage& s = *t->storage;
    const bool here = t->device == like->device;
    if (!here && !t->device.is_cpu()) return false;
    // Of a device's tensors the values are not looked at.
    if (t->numel == 1 && (!here || (like->numel != 1 && t->device.is_cpu()))) {
      // A double holds the value exactly, so it becomes the lanes' type as the tensor itself would.
      o = {From::Number, 0, number_at(t, 0)};
      return is_floating(t->dtype) || std::abs(o.number) < 0x1p53;
    }
    RowProgram::Input in;
    if (!here || !t->contiguous || !repeats(t, like, in)) return false;
    if (const int k = step_of(s); k >= 0) {
      if (t->offset != 0 || t->dtype != p_.step[k].type || in.count != p_.numel) return false;
      o = {From::Step, static_cast<uint8_t>(k), 0};
      return true;
    }
    // Others may write to memory that is shared with them at any time.
    const bool starts = &s == start_out_.get();
    if (starts && (t->offset != 0 || in.count != p_.numel)) return false;
    if ((s.in_flight && !starts) || s.free_data) return false;
    const size_t offset = static_cast<size_t>(t->offset * dtype_size(t->dtype));
    const auto same = [&](int i) {
      const RowProgram::Input& other = p_.input[i];
      return input_[i].get() == &s && offset_[i] == offset && other.dtype == t->dtype &&
             other.count == in.count && other.inner == in.inner;
    };
    int i = 0;
    while (i < p_.inputs && !same(i)) ++i;
    if (i == p_.kMostInputs) return false;
    if (i == p_.inputs) {
      input_[i] = t->storage;
      offset_[i] = offset;
      version_[i] = s.version;
      in.dtype = t->dtype;
      p_.input[p_.inputs++] = in;
    }
    o = {From::Input, static_cast<uint8_t>(i), 0};
    return true;
  }

  void forget_inputs(int from) {
    for (; p_.inputs > from; --p_.inputs) input_[p_.inputs - 1] = nullptr;
  }

  void let_go() {
    for (int k = 0; k < p_.steps; ++k) {
      set_in_flight(*out_[k], nullptr);
      out_[k] = nullptr;
    }
    for (int i = 0; i < p_.ends; ++i) {
      for (Ref<Storage>& s : end_out_[i])
        if (s) set_in_flight(*s, nullptr), s = nullptr;
      end_[i] = nullptr;
    }
    if (start_) set_in_flight(*start_out_, nullptr);
    start_ = nullptr;
    start_out_ = nullptr;
    p_.steps = p_.ends = rows_held = ends_ = 0;
    promised_ = 0;
    forget_inputs(0);
  }

  RowProgram p_;
  Ref<Storage> out_[RowProgram::kMostSteps], input_[RowProgram::kMostInputs];
  size_t offset_[RowProgram::kMostInputs];  // bytes
  uint32_t version_[RowProgram::kMostInputs];
  bool read_[RowProgram::kMostSteps];   // by a later step
  Where line_[RowProgram::kMostSteps];  // while somebody wants to know
  bool ended_[RowProgram::kMostSteps];  // an end takes it in
  std::unique_ptr<RowEnd> end_[RowProgram::kMostEnds];
  Ref<Storage> end_out_[RowProgram::kMostEnds][kMostResults];
  std::unique_ptr<RowStart> start_;
  Ref<Storage> start_out_;
  int ends_ = 0;          // results that no later step has read
  int64_t promised_ = 0;  // bytes of all results
  bool collecting_ = false;
  bool running_ = false;  // who runs out of memory meanwhile may ask for it again
};

struct Fusion final : Deferral {
  Tensor take(int row, DType compute, DType result, const Value* args, int n,
              const Impl* like) override {
    if (!takes(compute, result, like)) return {};
    return Held::held().take(row, compute, result, args, n, like);
  }
  bool takes(DType compute, DType result, const Impl* like) override {
    const bool cpu = like->device.is_cpu();
    return is_floating(compute) && (is_floating(result) || result == DType::Bool) && !mode.eager &&
           !shapes_only && (like->contiguous || (cpu && turned_pays(like))) &&
           static_cast<size_t>(like->numel * dtype_size(result)) <=
               (cpu ? kMostBytes : kMostBytesOnDevices);
  }
  bool take_in_place(int row, DType compute, const Value* args, int n,
                     const Tensor& self) override {
    return takes(compute, self.dtype(), self.get()) &&
           Held::held().take_in_place(row, compute, args, n, self);
  }
  bool holds(const Storage& s) override { return Held::held().holds(s); }
  bool ends(const Op& op) override {
    return std::find(std::begin(kEnds), std::end(kEnds), std::string_view(op.name)) !=
           std::end(kEnds);
  }
  bool end(const Impl* x, std::unique_ptr<RowEnd>& e, const Tensor* out, int n) override {
    return Held::held().end(x, e, out, n);
  }
  bool start(std::unique_ptr<RowStart>& s, const Tensor& out) override {
    return may_be_deferred(out.numel(), out.device()) && !capturing_on(out.device()) &&
           Held::held().start(s, out);
  }
  void run() override { Held::held().run(); }
};

constinit Fusion fusion;

[[maybe_unused]] const bool registered = [] {
  deferral = &fusion;
  const char* text = std::getenv("TYCHO_FUSE");
  set_least(text ? std::atoll(text) : kLeast);
  return true;
}();

}  // namespace

void set_least(int64_t elements) {
  run_held_rows();
  deferred_from = elements > 0 ? elements : INT64_MAX;
  deferred_on_devices = elements == kLeast ? kLeastOnDevices : deferred_from.load();
}

int64_t least() {
  const int64_t from = deferred_from;
  return from == INT64_MAX ? 0 : from;
}

}  // namespace tycho::fuse
