// Where: a place in the user's script. Whoever runs scripts (the binding) registers how to find it.
#pragma once
#include <cstdint>
#include <string>

namespace tycho {

struct Where {
  uint32_t source = 0;  // see source_name; 0: unknown
  int32_t line = 0;
  bool operator==(const Where&) const = default;
};

extern Where (*current_where)();  // null: places are not known
inline Where here() { return current_where ? current_where() : Where{}; }  // the running line
uint32_t intern_source(const char* name);
const std::string& source_name(uint32_t source);
std::string to_string(Where w);  // "train.lua:41", or "" when unknown
std::string at(Where w);         // " at train.lua:41", or ""

}  // namespace tycho
