// Autocast's decision per call, and the cache of cast weights.
#include "engine/amp/autocast.h"

#include <unordered_map>

#include "engine/grad/record.h"
#include "engine/ops/table/apply.h"

namespace tycho::amp {
namespace {

thread_local Region region;

// A weight cast once per region: by the tensor, its version and the type. The leaf is kept alive,
// so its address cannot be taken by another.
struct Cast {
  Tensor from, to;
  uint32_t version;
  DType dtype;
};
thread_local std::unordered_map<const Impl*, Cast> casts;

bool castable(const Impl* t) { return is_floating(t->dtype) && t->dtype != DType::Float64; }

Tensor cast_to(const Tensor& t, DType dtype) {
  const bool keep =
      region.cache && dtype != DType::Float32 && t->requires_grad && !t->node && mode.grad;
  if (keep) {
    const auto it = casts.find(t.get());
    if (it != casts.end() && it->second.version == t->storage->version && it->second.dtype == dtype)
      return it->second.to;
  }
  Tensor to = op<"to.dtype">(t, dtype);
  if (keep) casts[t.get()] = {t, to, t->storage->version, dtype};
  return to;
}

template <class F>
void each_floating(Call& c, F&& f) {
  for (int i = 0; i < c.n; ++i) {
    if (c.arg[i].tag == Tag::Tensor && castable(c.arg[i].t)) f(c.arg[i].t);
    if (c.arg[i].tag == Tag::Tensors)
      for (uint32_t k = 0; k < c.arg[i].n; ++k)
        if (c.arg[i].tensors[k] && castable(c.arg[i].tensors[k])) f(c.arg[i].tensors[k]);
  }
}

}  // namespace

Region current() { return region; }

void set(const Region& r) {
  region = r;
  mode.autocast = r.cpu || r.cuda;
  if (!mode.autocast) casts.clear();
}

void clear_cache() { casts.clear(); }

void cast(Call& c) {
  if (c.op->amp == Amp::Keep || c.inplace) return;
  bool on_cpu = false, on_cuda = false;
  DType widest = DType::Float16;
  each_floating(c, [&](const Impl* t) {
    (t->device.is_cpu() ? on_cpu : on_cuda) = true;
    widest = t->dtype == widest ? widest : promote(t->dtype, widest);
  });
  if (!(on_cuda ? region.cuda : on_cpu && region.cpu)) return;
  const DType low = on_cuda ? region.cuda_dtype : region.cpu_dtype;
  const Amp amp = c.op->amp;
  if (!on_cuda && (amp == Amp::LowCuda || amp == Amp::F32Cuda)) return;
  DType target = DType::Float32;
  if (amp == Amp::Low || amp == Amp::LowCuda) target = low;
  if (c.op->amp == Amp::Widest) {
    bool any_f32 = false, all_same = true;
    DType first = DType::Bool;
    each_floating(c, [&](const Impl* t) {
      any_f32 = any_f32 || t->dtype == DType::Float32;
      if (first == DType::Bool) first = t->dtype;
      all_same = all_same && t->dtype == first;
    });
    if (all_same) return;
    target = any_f32 ? DType::Float32 : widest;
  }
  // Casts are recorded like any other op; autocast itself is off meanwhile.
  struct Off {
    Off() { mode.autocast = false; }
    ~Off() { mode.autocast = true; }
  } off;
  for (int i = 0; i < c.n; ++i) {
    if (c.arg[i].tag == Tag::Tensor && castable(c.arg[i].t) && c.arg[i].t->dtype != target) {
      c.set(i, cast_to(c.tensor(i), target));
    } else if (c.arg[i].tag == Tag::Tensors) {
      bool any = false;
      for (uint32_t k = 0; k < c.arg[i].n; ++k) {
        const Impl* t = c.arg[i].tensors[k];
        any = any || (t && castable(t) && t->dtype != target);
      }
      if (!any) continue;
      std::vector<Tensor> list;
      for (uint32_t k = 0; k < c.arg[i].n; ++k) {
        const Tensor& t = c.tensor(i, static_cast<int>(k));
        list.push_back(t && castable(t.get()) ? cast_to(t, target) : t);
      }
      c.keep_list(i, std::move(list));
    }
  }
}

}  // namespace tycho::amp
