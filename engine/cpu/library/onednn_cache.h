// What the files that call oneDNN share: the engine, one-threaded execution with working memory of
// ours, a cache of held primitives, and the translation of its errors.
#pragma once
#include <dnnl.hpp>
#include <list>
#include <unordered_map>

#include "engine/base/check.h"
#include "engine/base/interrupt.h"

namespace tycho::cpu {

// Made at first use, per thread; also tells libgomp that this thread computes alone.
const dnnl::engine& onednn_engine();

// A primitive and the working memory it needs, which comes from our allocator: then it is counted,
// given back, and watched in guard mode.
struct HeldPrimitive {
  dnnl::primitive primitive;
  dnnl::memory scratch;
  size_t scratch_bytes = 0;

  // From a description that was made with onednn_attr().
  template <class P, class Desc>
  static HeldPrimitive of(const Desc& desc) {
    const auto scratch = desc.scratchpad_desc();
    return {P(desc), dnnl::memory(scratch, onednn_engine(), nullptr), scratch.get_size()};
  }
};
inline dnnl::primitive_attr onednn_attr() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}
constexpr int kMostArgs = 6;  // with the working memory, which onednn_run adds
void onednn_run(HeldPrimitive& held, dnnl_exec_arg_t (&args)[kMostArgs], int count);

// The last kMost values by key; a key is plain numbers without padding between them.
template <class Key, class Held>
class HeldCache {
 public:
  template <class Make>
  Held& get(const Key& key, Make&& make) {
    if (!order_.empty() && order_.front().first == key) return order_.front().second;
    const auto it = places_.find(key);
    if (it != places_.end()) {
      order_.splice(order_.begin(), order_, it->second);
      return order_.front().second;
    }
    onednn_engine();
    order_.emplace_front(key, make(key));
    places_[key] = order_.begin();
    if (order_.size() > kMost) {
      places_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }

 private:
  static constexpr size_t kMost = 512;
  struct Hash {
    size_t operator()(const Key& k) const { return k.hash(); }
  };
  std::list<std::pair<Key, Held>> order_;
  std::unordered_map<Key, typename std::list<std::pair<Key, Held>>::iterator, Hash> places_;
};

inline void hash_in(size_t& h, int64_t x) {
  h = (h ^ static_cast<size_t>(x)) * 0x9e3779b97f4a7c15u;
  h ^= h >> 29;
}

template <class F>
auto onednn_guard(F&& f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) fail(Kind::Oom, "oneDNN has no memory left for this");
    fail(Kind::Value, format("oneDNN cannot compute this: %s", e.what()));
  }
}

}  // namespace tycho::cpu
