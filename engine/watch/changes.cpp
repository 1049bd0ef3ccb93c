// Copies of storages before their first change (see changes.h).
#include "engine/watch/changes.h"

#include <cstring>
#include <new>
#include <utility>

#include "engine/ops/table/before_change.h"

namespace tycho::watch {
namespace {
constinit thread_local Changes* listening = nullptr;
}

Changes::Changes(size_t most_bytes, std::unordered_set<const Storage*> of)
    : most_(most_bytes), of_(std::move(of)) {
  listening = this;
  before_change = listen;
}

void Changes::stop() {
  if (listening != this) return;
  listening = nullptr;
  before_change = nullptr;
}

void Changes::listen(Impl* t, const char* op, bool shape) {
  if (listening) listening->keep(t, op, shape);
}

void Changes::keep(Impl* t, const char* op, bool shape) {
  Storage& s = *t->storage;
  const Storage*& settled = settled_[reinterpret_cast<uintptr_t>(&s) / sizeof(Storage) % kSettled];
  if (settled == &s && !shape) return;
  if (has_no_values(s)) return;
  settled = &s;
  if (!of_.contains(&s)) return;
  if (shape && other_.empty()) other_ = op;
  if (kept_.contains(&s)) return;
  Kept kept{Ref<Storage>(&s), nullptr, s.bytes, s.data, s.passes, s.stepped};
  const bool plain = s.device.is_cpu() && s.inner == nullptr && s.free_data == nullptr;
  if (plain && bytes_ + s.bytes <= most_) {
    ready(s);
    kept.bytes.reset(new (std::nothrow) char[s.bytes]);
    if (kept.bytes) {
      std::memcpy(kept.bytes.get(), s.data, s.bytes);
      bytes_ += s.bytes;
    }
  }
  if (!kept.bytes) lost_ += s.bytes;
  kept_.emplace(&s, std::move(kept));
}

void Changes::restore() {
  for (auto& [storage, kept] : kept_) {
    Storage& s = *storage;
    if (!kept.bytes) continue;
    if (s.data != kept.data || s.bytes != kept.size || s.inner) {
      lost_ += kept.size;
      continue;
    }
    ready(s);
    std::memcpy(s.data, kept.bytes.get(), kept.size);
    ++s.version;
    s.changed_by = "undo";
    s.passes = kept.passes;
    s.stepped = kept.stepped;
  }
}

}  // namespace tycho::watch
