// Lua's memory and the tensors that hang on it. A tensor's userdata has no __gc: the state's
// allocator recognises the block when the collector frees it, and lets the tensor go then, which
// costs a fraction of a finaliser. The collector is paced by tensor bytes, which it cannot see.
#include "engine/base/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>

#include "bindings/core/autograd.h"
#include "bindings/core/insides.h"
#include "engine/amp/autocast.h"
#include "engine/base/pool.h"
#include "engine/grad/again.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/defer.h"

namespace tycho::lua {

constinit thread_local lua_State* running = nullptr;
constinit thread_local lua_State* entered = nullptr;
uint64_t box_secret = 0;
constinit thread_local uint64_t code_epoch = 0;

namespace {

constexpr size_t kBlock = 48;  // Lua's header of a userdata (32 bytes on 64-bit) and a Box
struct Block {
  char room[kBlock];
};
// Of the Box inside its block: measured once, by making one; 0 where that does not fit, and tensors
// have __gc instead. This and the secret are set by the first state, which is there before any
// other thread has one.
size_t box_offset = 0;
void** measured = nullptr;  // while measuring: the last block that was made

void drop_box(void* block) {
  Box* b = reinterpret_cast<Box*>(static_cast<char*>(block) + box_offset);
  if (b->tag != (box_secret ^ reinterpret_cast<uint64_t>(b))) {
    ++code_epoch;
    return;
  }
  b->tag = 0;
  if (b->p) Ref<Impl>::drop(std::exchange(b->p, nullptr));
}

void* allocate_lua(void*, void* block, size_t old_size, size_t new_size) {
  if (!block) old_size = 0;  // then it is a type tag
  if (new_size == 0) {
    if (old_size == kBlock) {
      if (box_offset)
        drop_box(block);
      else
        ++code_epoch;
      FreeList<Block>::give(block);
    } else {
      ++code_epoch;
      std::free(block);
    }
    return nullptr;
  }
  if (old_size != kBlock && new_size != kBlock) return std::realloc(block, new_size);
  void* to;
  if (new_size == kBlock) {
    try {
      to = FreeList<Block>::take();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    // What was here before must not look like a tensor.
    std::memset(static_cast<char*>(to) + kBlock - sizeof(Box), 0, sizeof(Box));
    if (measured) [[unlikely]]
      *measured = to;
  } else {
    to = std::malloc(new_size);
    if (!to) return nullptr;
  }
  if (block) {
    std::memcpy(to, block, old_size < new_size ? old_size : new_size);
    if (old_size == kBlock)
      FreeList<Block>::give(block);
    else
      std::free(block);
  }
  return to;
}

// The modes of a coroutine, packed into the 8 bytes Lua keeps for us per coroutine.
struct PackedModes {
  uint8_t grad : 1, inference : 1, cpu : 1, cuda : 1, cache : 1, set : 1;
  uint8_t cpu_dtype, cuda_dtype;
};
static_assert(sizeof(PackedModes) <= LUA_EXTRASPACE);

PackedModes& slot(lua_State* L) { return *static_cast<PackedModes*>(lua_getextraspace(L)); }

// A collection, and what only gradients hold that can compute it again.
void collect(lua_State* L) {
  lua_gc(L, LUA_GCCOLLECT);
  grad::let_go_unseen();
}

// Whole collections take a tenth of a nanosecond or two for each of Lua's bytes. That is a small part
// of the time in which some times as many bytes of tensors were written.
int64_t worth_a_whole(lua_State* L, int64_t times) {
  return std::max(int64_t{1} << 20, times * (int64_t{lua_gc(L, LUA_GCCOUNT)} << 10));
}
constexpr int64_t kWholeEvery = 16, kBeforeSweep = 4;

// GPUs write in microseconds what takes the host as long as a whole collection: garbage that they have room for
// waits for longer.
int64_t spare_on_devices() {
  static thread_local int64_t spare = -1;
  if (detail::device_count.load(std::memory_order_relaxed) == 0 ||
      detail::cuda_kernels != BackendKind::Cuda)
    return 0;
  if (spare < 0) {
    constexpr int64_t kPart = 64, kMost = int64_t{2} << 30;
    const Device first{0};
    if (backend_of(first).live_bytes(first) == 0) return 0;
    spare = std::min(backend_of(first).capacity(first) / kPart, kMost);
  }
  return spare;
}

// Bytes of tensors at which the collector is run next. The step is small enough that loops of
// temporaries stay in the cache (64 MB: 1.9 times slower at 40 KB), large enough that young
// collections pay (8 MB: full collections with a million other objects).
constexpr int64_t kStep = int64_t{16} << 20;
thread_local int64_t next_collection = kStep;
// A whole collection makes all that is in use old, so the next one must not follow at once: it comes
// when a young one leaves more than this.
thread_local int64_t most_after_young = kStep;
// Before that, young collections, which cost less than a microsecond: what they free is still in the
// caches. But what two of them have found in use is old, and only whole collections find it later. So
// where one of these frees little, or a whole one was needed, there are none for a while, each time
// for longer.
struct Looks {
  // Results that stay in the second cache; more where a look takes long (a large table has just changed), so
  // that looks take no longer than what is written between them, at some bytes a nanosecond.
  static constexpr int64_t kGrowth = int64_t{1} << 18, kMostGrowth = int64_t{1} << 20,
                           kWritten = 25;
  static constexpr int kMostPauses = 1024, kTrusted = 16;
  int64_t growth = kGrowth;
  int64_t next = kGrowth, left = 0;  // bytes at which to look; bytes after the last collection
  // With less than this, much was let go since: what was learnt of larger times no longer holds.
  int64_t low = 0;
  int64_t in_pauses = kStep;           // bytes from one to the next
  int pauses = 0, wait = 1, good = 0;  // collections of the other kind to wait for
  // The last look freed little: one last result may have been in use, which a whole collection would make
  // old. It would do so again and again where single results are worth one.
  bool doubted = false;
  bool late = false;  // the same at the last next_collection
  // Held rows have just looked (collect_young), before they gave memory to what may still be in use: a second
  // look so soon would make it old.
  bool done = false;
  bool fine(int64_t bytes) const {
    return static_cast<uint64_t>(bytes - low) < static_cast<uint64_t>(next - low);
  }
  void end(bool freed, bool paused, int64_t bytes, int64_t at_latest) {
    const bool again = std::exchange(doubted, !freed);
    if (!freed && (again || paused)) {
      pauses = wait;
      wait = std::min(2 * wait, kMostPauses);
      good = 0;
    } else if (freed && ++good == kTrusted) {
      wait = std::max(wait / 2, 1);
      good = 0;
    }
    begin(bytes, at_latest);
  }
  void begin(int64_t bytes, int64_t at_latest) {
    left = bytes;
    low = std::max<int64_t>(0, bytes / 2 - kStep);
    next = std::min(at_latest, bytes + (pauses ? in_pauses : growth));
  }
};
thread_local Looks looks;
thread_local lua_State* main_state = nullptr;
thread_local SmallVec<int, 8> dropped;

// This sweep began with a collection: a second one in it would only make old what the script holds.
thread_local bool looked_before_sweep = false;

// Asks no machine for its devices: who has used none has nothing there.
int64_t tensor_bytes() {
  int64_t n = live_bytes();
  for (int d = 0, all = detail::device_count; d < all; ++d) {
    const Device device{static_cast<int8_t>(d)};
    n += backend_of(device).live_bytes(device);
  }
  return n;
}

bool collect_for_memory(size_t) {
  if (!main_state) return false;
  const int64_t before = tensor_bytes();
  collect(main_state);
  return tensor_bytes() < before;
}

// Temporaries of a chain are younger than the last collection. A young collection takes well under a
// microsecond, but longer where a large table has just changed: then the next ones wait until the
// writes that they could save (at 10 bytes a nanosecond) are worth what it took. Where that seems long, the
// next time tells: by this thread's own clock, for on a busy machine it may have had to wait. To ask that
// clock takes as long as a short collection.
int64_t nanoseconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}
void collect_young(int64_t bytes) {
  constexpr int64_t kLong = 5000;  // nanoseconds
  static thread_local int64_t debt = 0;
  static thread_local bool seemed_long = false;
  debt -= bytes / 10;
  if (debt > 0 || looked_before_sweep || !main_state || !lua_gc(main_state, LUA_GCISRUNNING))
    return;
  const clockid_t clock = seemed_long ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const int64_t began = nanoseconds(clock);
  lua_gc(main_state, LUA_GCSTEP, 0);
  const int64_t took = nanoseconds(clock) - began;
  const bool sure = seemed_long || took <= kLong;
  seemed_long = took > kLong;
  debt = sure ? took : 0;
  looks.done = true;
}

void learn_layout(lua_State* L) {
  std::random_device random;
  box_secret = (static_cast<uint64_t>(random()) << 32 | random()) | 1;
  if (!insides::allowed()) return;
  // Where does Lua put a userdata's bytes inside the block it asks for?
  void* block = nullptr;
  measured = &block;
  const void* box = lua_newuserdatauv(L, sizeof(Box), 0);
  measured = nullptr;
  const auto offset = reinterpret_cast<uintptr_t>(box) - reinterpret_cast<uintptr_t>(block);
  if (block && offset + sizeof(Box) == kBlock) box_offset = offset;
  lua_pop(L, 1);
}

int drop_tensor(lua_State* L) {
  Box* b = static_cast<Box*>(lua_touserdata(L, 1));
  if (!to_impl(L, 1)) return 0;
  b->tag = 0;
  Ref<Impl>::drop(std::exchange(b->p, nullptr));
  return 0;
}

}  // namespace

void set_tensor_gc(lua_State* L, int meta) {
  if (box_offset) return;
  meta = lua_absindex(L, meta);
  lua_pushcfunction(L, drop_tensor);
  lua_setfield(L, meta, "__gc");
}

lua_State* new_state() {
  lua_State* L = lua_newstate(allocate_lua, nullptr);
  if (!L) return nullptr;
  if (!box_secret) learn_layout(L);
  main_state = L;
  running = entered = L;
  modes_changed(L);
  lua_gc(L, LUA_GCGEN, 0, 0);
  set_out_of_memory_handler(collect_for_memory);
  drop_unseen = collect_young;
  return L;
}

void modes_changed(lua_State* L) {
  const amp::Region r = amp::current();
  slot(L) = PackedModes{mode.grad,
                        mode.inference,
                        r.cpu,
                        r.cuda,
                        r.cache,
                        1,
                        static_cast<uint8_t>(r.cpu_dtype),
                        static_cast<uint8_t>(r.cuda_dtype)};
}

void enter_slowly(lua_State* L) {
  if (L != running) switch_modes(L);
  entered = L;
  settle_scope(L);
}

void switch_modes(lua_State* L) {
  running = L;
  entered = scope_is_open() ? nullptr : L;
  const PackedModes p = slot(L);
  mode.grad = p.grad;
  mode.inference = p.inference;
  amp::set({static_cast<bool>(p.cpu), static_cast<bool>(p.cuda), static_cast<DType>(p.cpu_dtype),
            static_cast<DType>(p.cuda_dtype), static_cast<bool>(p.cache)});
}

void pace_collector(lua_State* L) {
  if (!dropped.empty()) [[unlikely]]
    drop_refs(L);
  int64_t bytes = live_bytes();
  if (detail::device_count.load(std::memory_order_relaxed) > 0) [[unlikely]]
    bytes = tensor_bytes();
  if (looks.fine(bytes)) [[likely]]
    return;
  const int64_t spare = spare_on_devices();
  // Two results of the size that has just come, too: one may be in use still.
  const int64_t growth = bytes - looks.left;
  const auto room = [&] { return std::max({bytes / 4, kStep, spare, 2 * growth}); };
  const auto plan = [&] { next_collection = bytes + room(); };
  if (bytes < looks.low) {
    plan();
    looks.pauses = 0;
    return looks.begin(bytes, next_collection);
  }
  if (std::exchange(looks.done, false) && bytes < next_collection) {
    grad::let_go_unseen();
    return looks.begin(tensor_bytes(), next_collection);
  }
  const int64_t before = bytes, began = nanoseconds(CLOCK_MONOTONIC);
  lua_gc(L, LUA_GCSTEP, 0);  // generational: a young collection
  looks.growth = std::clamp(Looks::kWritten * (nanoseconds(CLOCK_MONOTONIC) - began),
                            Looks::kGrowth, Looks::kMostGrowth);
  grad::let_go_unseen();
  bytes = tensor_bytes();
  bool freed = 2 * (before - bytes) >= before - looks.left;
  looks.in_pauses = std::max(worth_a_whole(L, kWholeEvery), spare);
  if (!freed && looks.doubted && before - looks.left >= looks.in_pauses) {
    collect(L);
    bytes = tensor_bytes();
    freed = 2 * (before - bytes) >= before - looks.left;
  }
  // Looks in a pause, too, bring its end nearer: where they free enough, next_collection is never reached.
  const bool paused = looks.pauses > 0;
  if (paused) looks.pauses = freed ? looks.pauses / 2 : looks.pauses - 1;
  if (before >= next_collection) {
    freed = bytes <= most_after_young;
    if (!freed && looks.late) {
      collect(L);
      bytes = tensor_bytes();
      most_after_young = bytes + room();
      looks.late = false;
    } else {
      looks.late = !freed;
    }
    plan();
  }
  looks.end(freed, paused, bytes, next_collection);
}

void collect_before_sweep(lua_State* L) {
  static thread_local int64_t last = 0;  // bytes at the last sweep
  static thread_local bool doubted = false;
  looked_before_sweep = false;
  grad::let_go_unseen();
  const auto much = [&] { return live_bytes() - last >= worth_a_whole(L, kBeforeSweep); };
  if (much() && lua_gc(L, LUA_GCISRUNNING)) {
    // A young collection frees what a loop has replaced, unless a whole one has made that old: as it would each
    // time, were the first one that leaves much followed by a whole one at once.
    constexpr int64_t kTooMuch = 4 * kStep;
    lua_gc(L, LUA_GCSTEP, 0);
    grad::let_go_unseen();
    looked_before_sweep = true;
    const bool wait = !doubted && live_bytes() - last < kTooMuch;
    doubted = much() && wait;
    if (much() && !wait) collect(L);
  }
  last = live_bytes();
}

void look_from_here() {
  looked_before_sweep = false;
  if (const int64_t bytes = tensor_bytes(); bytes < looks.left) looks.begin(bytes, next_collection);
}

void drop_later(int ref) { dropped.push_back(ref); }

void drop_refs(lua_State* L) {
  for (int ref : dropped) luaL_unref(L, LUA_REGISTRYINDEX, ref);
  dropped.clear();
}

}  // namespace tycho::lua
