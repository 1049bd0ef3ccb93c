// Told before a tensor that was there before is changed in place, by who keeps what it held (the
// prompt's %undo). Nobody listens in scripts.
#pragma once
#include "engine/tensor/defer.h"

namespace tycho {

namespace grad {
void keep_before_change(const Storage& s);  // grad/again.h
}

// `op` changes the tensor's values, or its shape as well.
using BeforeChange = void (*)(Impl*, const char* op, bool shape);
extern constinit thread_local BeforeChange before_change;

inline void about_to_change(const Tensor& t, const char* op, bool shape = false) {
  if (t && t->storage->read_again) [[unlikely]]
    grad::keep_before_change(*t->storage);
  run_held_rows();  // they may read it
  if (before_change && t) [[unlikely]]
    before_change(t.get(), op, shape);
}

}  // namespace tycho
