// The globals that a function uses, found in its compiled code: the form of lua_dump in Lua 5.4.
#include <cstring>

#include "bindings/codec/codec.h"

namespace tycho::lua {
namespace {

constexpr uint32_t kGetUpvalue = 9, kGetGlobal = 11, kSetGlobal = 15;  // OP_GETUPVAL, OP_*TABUP

class Scan {
 public:
  Scan(std::string_view dump, void* context, void (*found)(void*, std::string_view))
      : at_(dump.data()), end_(at_ + dump.size()), context_(context), found_(found) {}

  void run(const std::vector<bool>& environment) {
    constexpr size_t kHeader = 4 + 1 + 1 + 6 + 3 + 8 + 8;
    skip(kHeader + 1);
    function(environment, nullptr);
  }

 private:
  uint8_t byte() { return at_ < end_ ? static_cast<uint8_t>(*at_++) : 0; }
  void skip(size_t n) { at_ += std::min(n, static_cast<size_t>(end_ - at_)); }
  size_t number() {  // seven bits in each byte, the highest first; the last one is marked
    size_t n = 0;
    while (at_ < end_) {
      const uint8_t b = byte();
      n = n << 7 | (b & 0x7f);
      if (b & 0x80) break;
    }
    return n;
  }
  std::string_view text() {
    const size_t n = number();
    if (n == 0) return {};
    const char* p = at_;
    skip(n - 1);
    return {p, static_cast<size_t>(at_ - p)};
  }

  struct Constant {
    bool is_text = false;
    std::string_view text;
  };
  Constant constant() {
    switch (byte()) {
      case 0x03:  // an integer
      case 0x13:  // a float
        skip(8);
        return {};
      case 0x04:  // a short string
      case 0x14:  // a long one
        return {true, text()};
      default:
        return {};
    }
  }

  // `outer`: the upvalues of the function around this one that are the table of globals.
  void function(const std::vector<bool>& given, const std::vector<bool>* outer) {
    text();
    number();
    number();
    skip(3);
    const size_t instructions = number();
    const char* code = at_;
    skip(instructions * 4);
    std::vector<Constant> constants(std::min<size_t>(number(), end_ - at_));
    for (Constant& c : constants) c = constant();
    std::vector<bool> environment(std::min<size_t>(number(), end_ - at_));
    for (size_t i = 0; i < environment.size(); ++i) {
      const bool in_stack = byte();
      const uint8_t index = byte();
      byte();
      environment[i] = outer ? !in_stack && index < outer->size() && (*outer)[index]
                             : i < given.size() && given[i];
    }
    if (at_ > code + instructions * 4) look(code, instructions, constants, environment);
    for (size_t n = number(); n > 0 && at_ < end_; --n) function({}, &environment);
    skip(number());
    for (size_t n = number(); n > 0 && at_ < end_; --n) number(), number();
    for (size_t n = number(); n > 0 && at_ < end_; --n) text(), number(), number();
    for (size_t n = number(); n > 0 && at_ < end_; --n) text();
  }

  void look(const char* code, size_t n, const std::vector<Constant>& constants,
            const std::vector<bool>& environment) {
    const auto is_environment = [&](uint32_t i) {
      return i < environment.size() && environment[i];
    };
    const auto say = [&](uint32_t i) {
      if (i < constants.size() && constants[i].is_text) found_(context_, constants[i].text);
    };
    for (size_t pc = 0; pc < n; ++pc) {
      uint32_t word;
      std::memcpy(&word, code + pc * 4, 4);
      const uint32_t op = word & 0x7f, a = word >> 7 & 0xff, b = word >> 16 & 0xff, c = word >> 24;
      if (op == kGetGlobal && is_environment(b)) say(c);
      if (op == kSetGlobal && is_environment(a)) say(b);
      // The table itself is taken: by functions with very many constants, and for _ENV.
      if (op == kGetUpvalue && is_environment(b))
        for (uint32_t i = 0; i < constants.size(); ++i) say(i);
    }
  }

  const char *at_, *end_;
  void* context_;
  void (*found_)(void*, std::string_view);
};

}  // namespace

void find_globals(std::string_view dump, const std::vector<bool>& environment, void* context,
                  void (*found)(void*, std::string_view)) {
  Scan(dump, context, found).run(environment);
}

}  // namespace tycho::lua
