// Stores: of the job's server, of this process alone, and with a prefix.
#include "engine/dist/store.h"

#include <charconv>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>

#include "engine/base/interrupt.h"
#include "engine/dist/client.h"
#include "engine/dist/remote_store.h"

namespace tycho::dist {
namespace {

[[noreturn]] void not_set(const std::string& key, Seconds timeout) {
  const double seconds = std::round(timeout.count() * 1000) / 1000;
  throw DistError({Reason::Timeout,
                   {},
                   format("store: key \"%s\" was not set within %g s", key.c_str(), seconds)});
}

[[noreturn]] void no_number(const std::string& key) {
  fail(Kind::Value, "store: the value of key \"" + key + "\" is not a whole number");
}

class LocalStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key, Seconds timeout) override {
    const double until = now() + timeout.count();
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto it = values_.find(key);
      if (it != values_.end()) return it->second;
      if (now() > until) not_set(key, timeout);
      changed_.wait_for(lock, std::chrono::milliseconds(20));
      lock.unlock();
      check_interrupt();
      lock.lock();
    }
  }
  std::optional<std::string> try_get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const auto it = values_.find(key);
    return it == values_.end() ? std::nullopt : std::optional(it->second);
  }
  void append(const std::string& key, const std::string& more) override {
    const std::lock_guard lock(mutex_);
    values_[key] += more;
    changed_.notify_all();
  }
  int64_t add(const std::string& key, int64_t amount) override {
    const std::lock_guard lock(mutex_);
    std::string& s = values_[key];
    int64_t n = 0;
    const auto [end, e] = std::from_chars(s.data(), s.data() + s.size(), n);
    if (!s.empty() && (e != std::errc() || end != s.data() + s.size())) no_number(key);
    n = static_cast<int64_t>(static_cast<uint64_t>(n) + static_cast<uint64_t>(amount));
    s = std::to_string(n);
    changed_.notify_all();
    return n;
  }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    const std::lock_guard lock(mutex_);
    const auto it = values_.find(key);
    if (it == values_.end() && !expected.empty()) return expected;
    if (it != values_.end() && it->second != expected) return it->second;
    changed_.notify_all();
    return values_[key] = desired;
  }
  bool delete_key(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return values_.erase(key) > 0;
  }
  int64_t num_keys() override {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(values_.size());
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : prefix_(std::move(prefix)), store_(std::move(store)) {}
  void set(const std::string& key, const std::string& value) override {
    store_->set(prefix_ + key, value);
  }
  std::string get(const std::string& key, Seconds timeout) override {
    return store_->get(prefix_ + key, timeout);
  }
  std::optional<std::string> try_get(const std::string& key) override {
    return store_->try_get(prefix_ + key);
  }
  void append(const std::string& key, const std::string& more) override {
    store_->append(prefix_ + key, more);
  }
  int64_t add(const std::string& key, int64_t amount) override {
    return store_->add(prefix_ + key, amount);
  }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    return store_->compare_set(prefix_ + key, expected, desired);
  }
  bool delete_key(const std::string& key) override { return store_->delete_key(prefix_ + key); }
  int64_t num_keys() override { return store_->num_keys(); }

 private:
  const std::string prefix_;
  const std::shared_ptr<Store> store_;
};

}  // namespace

RemoteStore::RemoteStore(const std::string& address, const std::string& token,
                         const StoreOptions& options)
    : client_(address, token, options) {}

// The value of an answer, none if the key is missing.
std::optional<std::string> RemoteStore::ask(Msg msg, const std::string& key,
                                            const std::vector<std::string_view>& fields) {
  uint32_t request;
  Writer w = client_.begin(msg, &request);
  w.text(key);
  for (const std::string_view f : fields) w.text(f);
  return value(client_.ask(request, w));
}

std::optional<std::string> RemoteStore::value(const std::string& answer) {
  Reader r(answer);
  if (r.u8() != static_cast<uint8_t>(Answer::Ok)) return std::nullopt;
  return std::string(r.rest());
}

void RemoteStore::set(const std::string& key, const std::string& value) {
  ask(Msg::Set, key, {value});
}

std::string RemoteStore::get(const std::string& key, Seconds timeout) {
  uint32_t request;
  Writer w = client_.begin(Msg::Get, &request);
  w.text(key);
  return *value(client_.ask(request, w, now() + timeout.count(), [&] { not_set(key, timeout); }));
}

std::optional<std::string> RemoteStore::try_get(const std::string& key) {
  return ask(Msg::TryGet, key);
}

void RemoteStore::append(const std::string& key, const std::string& more) {
  ask(Msg::Append, key, {more});
}

int64_t RemoteStore::add(const std::string& key, int64_t amount) {
  uint32_t request;
  Writer w = client_.begin(Msg::Add, &request);
  w.text(key).i64(amount);
  const auto sum = value(client_.ask(request, w));
  if (!sum) no_number(key);
  return std::strtoll(sum->c_str(), nullptr, 10);
}

std::string RemoteStore::compare_set(const std::string& key, const std::string& expected,
                                     const std::string& desired) {
  return *ask(Msg::CompareSet, key, {expected, desired});
}

bool RemoteStore::delete_key(const std::string& key) { return ask(Msg::Delete, key) == "1"; }

int64_t RemoteStore::num_keys() {
  uint32_t request;
  Writer w = client_.begin(Msg::NumKeys, &request);
  return std::strtoll(value(client_.ask(request, w))->c_str(), nullptr, 10);
}

std::shared_ptr<Store> connect_store(const std::string& address, const std::string& token,
                                     const StoreOptions& options) {
  return std::make_shared<RemoteStore>(address, token, options);
}

std::shared_ptr<Store> local_store() { return std::make_shared<LocalStore>(); }

std::shared_ptr<Store> prefix_store(std::string prefix, std::shared_ptr<Store> store) {
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(store));
}

}  // namespace tycho::dist
