// What a thread holds back, and from how many elements on: one for the program and its modules.
#include "engine/tensor/defer.h"

namespace tycho {

constinit Deferral* deferral = nullptr;
constinit std::atomic<int64_t> deferred_from{INT64_MAX}, deferred_on_devices{INT64_MAX};
constinit thread_local int rows_held = 0;
constinit thread_local bool rows_may_end = false;
constinit thread_local DropUnseen drop_unseen = nullptr;

}  // namespace tycho
