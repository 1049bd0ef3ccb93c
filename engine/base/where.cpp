// Names of script files, interned so that a node holds two small numbers. The numbers mean the same
// on every thread, because a storage that crosses threads remembers who changed it.
#include "engine/base/where.h"

#include <deque>
#include <mutex>
#include <unordered_map>

namespace tycho {
namespace {

struct Sources {
  std::mutex mutex;
  std::deque<std::string> names{""};
  std::unordered_map<std::string, uint32_t> index;
};
Sources& sources() {
  static Sources s;
  return s;
}

}  // namespace

Where (*current_where)() = nullptr;

uint32_t intern_source(const char* name) {
  Sources& s = sources();
  const std::lock_guard lock(s.mutex);
  const auto [it, fresh] = s.index.emplace(name, static_cast<uint32_t>(s.names.size()));
  if (fresh) s.names.emplace_back(name);
  return it->second;
}

const std::string& source_name(uint32_t source) {
  Sources& s = sources();
  const std::lock_guard lock(s.mutex);
  return s.names[source];  // a deque's items stay where they are
}

std::string to_string(Where w) {
  return w.source ? source_name(w.source) + ":" + std::to_string(w.line) : std::string();
}

std::string at(Where w) { return w.source ? " at " + to_string(w) : std::string(); }

}  // namespace tycho
