// Copies of calls, and calling them again.
#include "engine/ops/table/recorded_call.h"

#include <utility>

#include "engine/ops/table/apply.h"
#include "engine/tensor/backend.h"

namespace tycho {

Tensor as_it_lies(const Tensor& t) {
  const Tensor kept = alias(t, t.shape(), Sizes(t->stride, t->rank), t->offset);
  kept->is_number = t->is_number;
  return kept;
}

Tensor RecordedArgs::keep(Impl* t) {
  if (!t) return {};
  // A row or cast that could not join what is held still waits for it: the call comes behind those.
  ready(*t->storage);
  for (const auto& [seen, kept] : tensors_)
    if (seen == t) return kept;
  Tensor kept = as_it_lies(Tensor(t));
  if (t->device.is_cpu() && t->numel == 1) {
    kept = empty(Sizes(t->shape, t->rank), t->dtype);
    copy_raw(kept, Tensor(t));
    kept->is_number = t->is_number;
  }
  tensors_.emplace_back(t, kept);
  return kept;
}

Value RecordedArgs::keep(const Value& v) {
  switch (v.tag) {
    case Tag::Tensor:
      return Value(keep(v.t));
    case Tag::Tensors: {
      auto& list = lists_.emplace_back();
      for (uint32_t k = 0; k < v.n; ++k) list.push_back(keep(v.tensors[k]));
      return Value(list);
    }
    case Tag::Ints:
      return Value(ints_.emplace_back(v.ints, v.ints + v.n));
    case Tag::String:
      return Value(strings_.emplace_back(v.s).c_str());
    case Tag::Generator:
      return Value(&generators_.emplace_back(*v.generator));
    default:
      return v;
  }
}

RecordedCall::RecordedCall(const Call& c, Kernel kernel) : call_(*c.op), kernel_(kernel) {
  call_.n = c.n;
  call_.inplace = c.inplace;
  for (int i = 0; i < c.n; ++i) call_.arg[i] = args_.keep(c.arg[i]);
  for (const Tensor& t : c.out) call_.out.push_back(args_.keep(t.get()));
}

void RecordedCall::run() {
  NoGrad quiet;
  const Eager eager;
  const bool autocast = std::exchange(mode.autocast, false);
  struct Back {
    bool autocast;
    ~Back() { mode.autocast = autocast; }
  } back{autocast};
  uint32_t devices = 0;
  const auto touch = [&](const Impl* t) {
    if (t) devices |= KernelScope::bit(t->device);
  };
  for (int i = 0; i < call_.n; ++i) {
    if (call_.arg[i].tag == Tag::Tensor) touch(call_.arg[i].t);
    if (call_.arg[i].tag == Tag::Tensors)
      for (int k = 0; k < call_.count(i); ++k) touch(call_.tensor(i, k).get());
  }
  for (const Tensor& t : call_.out) touch(t.get());
  const SmallVec<Tensor, 2> results = call_.out;
  {
    const KernelScope scope(devices);
    kernel_(call_);
  }
  // A kernel may have put another tensor in its result's place.
  for (int i = 0; i < results.size(); ++i) {
    if (!results[i]) continue;
    if (call_.out[i].get() != results[i].get()) copy_raw(results[i], call_.out[i]);
    ++results[i]->storage->version;
  }
  call_.out = results;
  for (const int i : call_.op->written_inputs)
    for (int k = 0; k < call_.count(i); ++k) ++call_.tensor(i, k)->storage->version;
}

}  // namespace tycho
