// The machine that reads pickles (see pickle.h): a stack of nodes, marks in it, and a memo. What a
// REDUCE may make stands in pickle_make.cpp.
#include "engine/io/pickle.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>

#include "engine/base/interrupt.h"
#include "engine/io/file.h"
#include "engine/io/pickle_make.h"

namespace tycho::io {
namespace {

constexpr size_t kMostNodes = size_t{1} << 28;
constexpr uint32_t kNothing = 0xffffffff;

class Machine : public PickleMaker {
 public:
  Machine(std::string_view bytes, const std::string& name)
      : PickleMaker(name, bytes.size()), bytes_(bytes) {}

  Pickle run() {
    for (uint64_t steps = 1; step(take<uint8_t>()); ++steps)
      if (steps % 65536 == 0) check_interrupt();
    if (stack_.size() != 1 || !marks_.empty()) bad("it ends with more than one value");
    if (is_class(stack_[0])) wrong_class(stack_[0]);
    p_.root = stack_[0];
    p_.end = at_;
    return std::move(p_);
  }

 private:
  // --- bytes ---
  std::string_view part(uint64_t n) {
    if (n > bytes_.size() - at_) bad("it ends too early");
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  template <class T>
  T take() {
    const std::string_view s = part(sizeof(T));
    std::make_unsigned_t<T> x = 0;
    for (size_t k = 0; k < sizeof(T); ++k)
      x = static_cast<std::make_unsigned_t<T>>(
          x | static_cast<std::make_unsigned_t<T>>(static_cast<uint8_t>(s[k])) << 8 * k);
    return static_cast<T>(x);
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) bad("it ends too early");
    const std::string_view s = part(end - at_);
    ++at_;
    return s;
  }

  // --- the stack ---
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  void push(uint32_t node) { stack_.push_back(node); }
  uint32_t pop() {
    if (stack_.size() <= floor()) bad("it takes a value that is not there");
    const uint32_t n = stack_.back();
    stack_.pop_back();
    return n;
  }
  uint32_t top() const {
    if (stack_.size() <= floor()) bad("it takes a value that is not there");
    return stack_.back();
  }
  std::vector<uint32_t> pop_mark() {
    if (marks_.empty()) bad("it takes a mark that is not there");
    std::vector<uint32_t> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<uint32_t> pop_last(size_t n) {
    std::vector<uint32_t> items(n);
    while (n > 0) items[--n] = pop();
    return items;
  }
  void push_node(PickleKind kind, int64_t integer = 0) {
    if (p_.nodes.size() >= kMostNodes) bad("it has too many values");
    push(node(kind, integer));
  }
  void push_list(PickleKind kind, std::vector<uint32_t> items) {
    if (p_.nodes.size() >= kMostNodes) bad("it has too many values");
    push(list(kind, std::move(items)));
  }
  void push_real(double x) {
    push_node(PickleKind::Float);
    p_.nodes.back().real = x;
  }
  void push_text(uint64_t n) { push(text(part(n))); }
  void append_to(PickleKind kind, const std::vector<uint32_t>& items) {
    const PickleNode& n = p_[top()];
    if (n.kind != kind) bad("it adds to a value of another kind");
    auto& list = p_.lists[static_cast<size_t>(n.integer)];
    if (kind == PickleKind::Dict) {
      if (items.size() % 2) bad("a key has no value");
      for (size_t i = 0; i < items.size(); i += 2) check_key(items[i]);
    }
    list.insert(list.end(), items.begin(), items.end());
  }

  // --- opcodes with words ---
  void decimal(std::string_view s) {
    if (s == "00" || s == "01") return push_node(PickleKind::Bool, s == "01");
    if (s.ends_with('L')) s.remove_suffix(1);
    int64_t x = 0;
    const auto r = std::from_chars(s.data(), s.data() + s.size(), x);
    if (r.ptr != s.data() + s.size() || s.empty()) bad("a number cannot be read");
    if (r.ec == std::errc::result_out_of_range) return push_real(real_of(s));
    push_node(PickleKind::Int, x);
  }
  double real_of(std::string_view s) {
    const std::string text(s);
    char* end;
    const double x = std::strtod(text.c_str(), &end);
    if (text.empty() || *end) bad("a number cannot be read");
    return x;
  }
  // Two's complement of any length; what has no room in 64 bits becomes the nearest float.
  void big(uint64_t n) {
    const std::string_view s = part(n);
    if (n == 0) return push_node(PickleKind::Int, 0);
    const bool negative = s.back() & 0x80;
    uint64_t x = negative ? ~uint64_t{0} : 0;
    bool fits = true;
    for (size_t k = n; k-- > 0;) {
      fits &= k < 8 || static_cast<uint8_t>(s[k]) == (negative ? 0xff : 0);
      x = x << 8 | static_cast<uint8_t>(s[k]);
    }
    if (fits && (static_cast<int64_t>(x) < 0) == negative)
      return push_node(PickleKind::Int, static_cast<int64_t>(x));
    double real = negative ? -1 : 0;
    for (size_t k = n; k-- > 0;) real = real * 256 + static_cast<uint8_t>(s[k]);
    push_real(real);
  }
  // Writers number from 0 or 1 upwards, so that a memo never has more numbers than the pickle
  // bytes.
  void memo_put(uint64_t k) {
    if (k > bytes_.size()) bad("it keeps a value under an impossible number");
    if (k >= memo_.size()) memo_.resize(std::max<size_t>(k + 1, 2 * memo_.size()), kNothing);
    kept_ += memo_[k] == kNothing;
    memo_[k] = top();
  }
  void memo_get(uint64_t k) {
    if (k >= memo_.size() || memo_[k] == kNothing) bad("it recalls a value that it never kept");
    push(memo_[k]);
  }
  uint64_t number_of(std::string_view s) {
    uint64_t k = 0;
    const auto r = std::from_chars(s.data(), s.data() + s.size(), k);
    if (r.ec != std::errc() || r.ptr != s.data() + s.size()) bad("a number cannot be read");
    return k;
  }

  bool step(uint8_t op);

  std::string_view bytes_;
  size_t at_ = 0;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::vector<uint32_t> memo_;
  size_t kept_ = 0;
};

bool Machine::step(uint8_t op) {
  using K = PickleKind;
  switch (op) {
    case '.':
      return false;
    case 0x80:  // PROTO
      if (take<uint8_t>() > 5) bad("it has a version that is not known");
      break;
    case 0x95:  // FRAME
      part(0), take<uint64_t>();
      break;
    case '(':
      marks_.push_back(stack_.size());
      break;
    case '0':
      if (stack_.size() > floor())
        pop();
      else
        pop_mark();
      break;
    case '1':
      pop_mark();
      break;
    case '2':
      push(top());
      break;
    // Plain values.
    case 'N':
      push_node(K::None);
      break;
    case 0x88:
    case 0x89:
      push_node(K::Bool, op == 0x88);
      break;
    case 'K':
      push_node(K::Int, take<uint8_t>());
      break;
    case 'M':
      push_node(K::Int, take<uint16_t>());
      break;
    case 'J':
      push_node(K::Int, take<int32_t>());
      break;
    case 'I':
    case 'L':
      decimal(line());
      break;
    case 0x8a:
      big(take<uint8_t>());
      break;
    case 0x8b:
      big(take<uint32_t>());
      break;
    case 'F':
      push_real(real_of(line()));
      break;
    case 'G':
      push_real(std::bit_cast<double>(__builtin_bswap64(take<uint64_t>())));
      break;
    case 0x8c:  // texts and bytes, by the width of their length
    case 'U':
    case 'C':
      push_text(take<uint8_t>());
      break;
    case 'X':
    case 'T':
    case 'B':
      push_text(take<uint32_t>());
      break;
    case 0x8d:
    case 0x8e:
    case 0x96:
      push_text(take<uint64_t>());
      break;
    // Containers.
    case ']':
      push_list(K::List, {});
      break;
    case ')':
      push_list(K::Tuple, {});
      break;
    case '}':
      push_list(K::Dict, {});
      break;
    case 0x8f:
      push_list(K::Set, {});
      break;
    case 'l':
      push_list(K::List, pop_mark());
      break;
    case 't':
      push_list(K::Tuple, pop_mark());
      break;
    case 0x91:
      push_list(K::Set, pop_mark());
      break;
    case 0x85:
    case 0x86:
    case 0x87:
      push_list(K::Tuple, pop_last(op - 0x84));
      break;
    case 'd': {
      const auto items = pop_mark();
      push_list(K::Dict, {});
      append_to(K::Dict, items);
      break;
    }
    case 'a':
      append_to(K::List, pop_last(1));
      break;
    case 'e':
      append_to(K::List, pop_mark());
      break;
    case 's':
      append_to(K::Dict, pop_last(2));
      break;
    case 'u':
      append_to(K::Dict, pop_mark());
      break;
    case 0x90:
      append_to(K::Set, pop_mark());
      break;
    // The memo.
    case 'q':
      memo_put(take<uint8_t>());
      break;
    case 'r':
      memo_put(take<uint32_t>());
      break;
    case 'p':
      memo_put(number_of(line()));
      break;
    case 0x94:
      memo_put(kept_);
      break;
    case 'h':
      memo_get(take<uint8_t>());
      break;
    case 'j':
      memo_get(take<uint32_t>());
      break;
    case 'g':
      memo_get(number_of(line()));
      break;
    // What PyTorch makes.
    case 'c': {
      const std::string_view module = line();
      push(global(module, line()));
      break;
    }
    case 0x93: {
      const auto names = pop_last(2);
      if (p_[names[0]].kind != K::Text || p_[names[1]].kind != K::Text) bad("a class has no name");
      push(global(p_[names[0]].view(), p_[names[1]].view()));
      break;
    }
    case 'R':
    case 0x81: {
      const auto parts = pop_last(2);
      if (p_.nodes.size() >= kMostNodes) bad("it has too many values");
      push(make(parts[0], parts[1]));
      break;
    }
    case 'b': {
      const uint32_t state = pop();
      build(top(), state);
      break;
    }
    case 'Q':
      push(storage(pop()));
      break;
    default:
      bad(format("it has the opcode 0x%02x, which no data needs", op));
  }
  return true;
}

}  // namespace

Pickle parse_pickle(std::string_view bytes, const std::string& name) {
  try {
    return Machine(bytes, name).run();
  } catch (const std::bad_alloc&) {
    fail(Kind::Oom, "out of memory reading " + name);
  }
}

}  // namespace tycho::io
