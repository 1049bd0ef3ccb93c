// Memory of tensors that is shared with other processes: moving it there, numbers in it that
// processes wait for, and locks. A lock tells when its owner died.
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <new>

#include "bindings/processes/processes.h"
#include "bindings/tools/check.h"
#include "engine/base/interrupt.h"
#include "engine/dist/shared.h"
#include "engine/ops/table/apply.h"

namespace tycho::lua {
namespace {

using Clock = std::chrono::steady_clock;
constexpr long kSliceNs = 50'000'000;  // within which Ctrl-C is seen

// _share(list of tensors): one segment for all that are not shared yet.
int share_tensors(lua_State* L) {
  TYCHO_CHECK(Kind::Argument, lua_istable(L, 1), "share_memory: wants a list of tensors");
  std::vector<Storage*> storages;
  for (lua_Integer i = 1; lua_rawgeti(L, 1, i) != LUA_TNIL; ++i) {
    const Tensor& t = check_tensor(L, -1, "share_memory");
    TYCHO_CHECK(Kind::Device, t.device().is_cpu(),
                "share_memory: a tensor on %s cannot be shared; only the CPU's memory is",
                device_name(t.device()).c_str());
    straighten(t);
    Storage* s = t->storage.get();
    if (std::find(storages.begin(), storages.end(), s) == storages.end()) storages.push_back(s);
    lua_pop(L, 1);
  }
  dist::share(storages);
  return 0;
}

int is_shared(lua_State* L) {
  lua_pushboolean(L, dist::is_shared(*check_tensor(L, 1, "is_shared")->storage));
  return 1;
}

// The memory of a shared tensor made for a word or a lock.
char* memory_at(lua_State* L, size_t bytes) {
  const Tensor& t = check_tensor(L, 1, "_word");
  TYCHO_CHECK(Kind::Argument,
              dist::is_shared(*t->storage) && t.dtype() == DType::Int32 && t.contiguous() &&
                  static_cast<size_t>(t.numel()) * sizeof(int32_t) >= bytes,
              "_word: wants a shared int32 tensor of %zu elements", bytes / sizeof(int32_t));
  return t.host();
}

Clock::time_point until_in(lua_State* L, int i) {
  const double seconds = check_seconds(L, i, "_word");
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::atomic<int32_t>& word_at(lua_State* L) {
  static_assert(std::atomic<int32_t>::is_always_lock_free);
  return *reinterpret_cast<std::atomic<int32_t>*>(memory_at(L, sizeof(int32_t)));
}
void wake(std::atomic<int32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

int word_add(lua_State* L) {
  auto& word = word_at(L);
  const auto n = static_cast<int32_t>(check_integer(L, 2, "_word"));
  lua_pushinteger(L, word.fetch_add(n) + n);
  wake(word);
  return 1;
}
int word_get(lua_State* L) {
  lua_pushinteger(L, word_at(L).load());
  return 1;
}
int word_set(lua_State* L) {
  auto& word = word_at(L);
  word.store(static_cast<int32_t>(check_integer(L, 2, "_word")));
  wake(word);
  return 0;
}
// _word_below(word, limit, seconds): adds 1 when the word is below the limit; false when it did not
// come to that in time.
int word_below(lua_State* L) {
  auto& word = word_at(L);
  const lua_Integer limit = check_integer(L, 2, "_word");
  const auto until = until_in(L, 3);
  for (;;) {
    int32_t now = word.load();
    if (now < limit) {
      if (!word.compare_exchange_strong(now, now + 1)) continue;
      lua_pushboolean(L, 1);
      return 1;
    }
    check_interrupt();
    if (Clock::now() >= until) break;
    const timespec slice{0, kSliceNs};
    syscall(SYS_futex, &word, FUTEX_WAIT, now, &slice, nullptr, 0);
  }
  lua_pushboolean(L, 0);
  return 1;
}
// _word_wait(word, value, seconds): waits until it is another one; false when it did not in time.
int word_wait(lua_State* L) {
  auto& word = word_at(L);
  const auto value = static_cast<int32_t>(check_integer(L, 2, "_word"));
  const auto until = until_in(L, 3);
  while (word.load() == value) {
    check_interrupt();
    const auto left = std::chrono::nanoseconds(until - Clock::now()).count();
    if (left <= 0) {
      lua_pushboolean(L, 0);
      return 1;
    }
    const timespec slice{0, static_cast<long>(std::min<int64_t>(left, kSliceNs))};
    syscall(SYS_futex, &word, FUTEX_WAIT, value, &slice, nullptr, 0);
  }
  lua_pushboolean(L, 1);
  return 1;
}

// --- locks: a robust mutex of the C library ---

struct SharedMutex {
  pthread_mutex_t mutex;
  std::atomic<int32_t> owner;  // its process
};

SharedMutex& mutex_at(lua_State* L) {
  return *reinterpret_cast<SharedMutex*>(memory_at(L, sizeof(SharedMutex)));
}

// _mutex_new(tensor, recursive); _mutex_words: how many int32 it takes
int mutex_new(lua_State* L) {
  auto& m = *new (memory_at(L, sizeof(SharedMutex))) SharedMutex;
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_settype(
      &a, lua_toboolean(L, 2) ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&m.mutex, &a);
  pthread_mutexattr_destroy(&a);
  m.owner = 0;
  return 0;
}

// _mutex_lock(tensor, seconds): "held", "busy", "own" (this thread has it), or "died" and the pid
// of the owner that died with it; then it is free again.
int mutex_lock(lua_State* L) {
  SharedMutex& m = mutex_at(L);
  const auto until = until_in(L, 2);
  for (;;) {
    int result = pthread_mutex_trylock(&m.mutex);
    // A recursive or checked one that is this thread's own says so only when it is waited for.
    if (result == EBUSY) {
      const auto left = std::chrono::nanoseconds(until - Clock::now()).count();
      timespec at;
      clock_gettime(CLOCK_REALTIME, &at);
      at.tv_nsec += static_cast<long>(std::clamp<int64_t>(left, 0, kSliceNs));
      at.tv_sec += at.tv_nsec / 1'000'000'000;
      at.tv_nsec %= 1'000'000'000;
      result = pthread_mutex_timedlock(&m.mutex, &at);
    }
    const char* said = nullptr;
    switch (result) {
      case 0:
        m.owner = getpid();
        said = "held";
        break;
      case EDEADLK:
        said = "own";
        break;
      case EOWNERDEAD:
        lua_pushliteral(L, "died");
        lua_pushinteger(L, m.owner);
        m.owner = 0;
        pthread_mutex_consistent(&m.mutex);
        pthread_mutex_unlock(&m.mutex);
        return 2;
      default:
        check_interrupt();
        if (Clock::now() >= until) said = "busy";
    }
    if (!said) continue;
    lua_pushstring(L, said);
    return 1;
  }
}

int mutex_unlock(lua_State* L) {
  lua_pushboolean(L, pthread_mutex_unlock(&mutex_at(L).mutex) == 0);
  return 1;
}

}  // namespace

void open_shared_words(lua_State* L, int torch) {
  static const luaL_Reg functions[] = {{"_share", guarded<share_tensors>},
                                       {"_is_shared", guarded<is_shared>},
                                       {"_word_add", guarded<word_add>},
                                       {"_word_get", guarded<word_get>},
                                       {"_word_set", guarded<word_set>},
                                       {"_word_wait", guarded<word_wait>},
                                       {"_word_below", guarded<word_below>},
                                       {"_mutex_new", guarded<mutex_new>},
                                       {"_mutex_lock", guarded<mutex_lock>},
                                       {"_mutex_unlock", guarded<mutex_unlock>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pushinteger(L, (sizeof(SharedMutex) + sizeof(int32_t) - 1) / sizeof(int32_t));
  lua_setfield(L, -2, "_mutex_words");
  lua_pop(L, 1);
}

}  // namespace tycho::lua
