// What goes over the wire between ranks and the server: frames of u32 length (of all that follows),
// u8 message, and fields in little-endian order. Texts and lists are preceded by their u32 length.
#pragma once
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tycho::dist {

static_assert(std::endian::native == std::endian::little);

enum class Msg : uint8_t {
  // Proof: who does not know the token gets no further.
  Challenge,  // server: nonce
  Proof,      // client: nonce, HMAC of both
  Proven,     // server: HMAC of both, the other way round
  Refused,    // server: u8 reason, ranks, text; the end

  // The store's connection, with rank and session; every request begins with its number.
  UseStore,    // i32 rank or -1, u32 session
  Set,         // key, value
  Get,         // key: answered when it is set
  TryGet,      // key
  Add,         // key, i64
  Append,      // key, what is put behind its value
  CompareSet,  // key, expected, desired
  Delete,      // key
  NumKeys,
  Cancel,  // u32 request
  Agree,   // see agreement.h
  Reply,   // server: u32 request, u8 Answer, ...

  // The watch connection.
  Join,          // i32 rank, i32 world, i64 pid, host, machine, f64 seconds left, f64 of
  Welcome,       // server: u32 session, i32 served by, machines, peers
  Again,         // server: it ends in order, and another may follow it at its place
  Failed,        // server: u32 generation, u8 reason, ranks, text
  Left,          // server: i32 rank, text
  Bye,           // u32 last collective, text of an error
  Report,        // u32 generation, u8 reason, ranks, text
  Late,          // u32 group, u32 seq, ranks missing, text
  Where,         // server: u32 question
  Doing,         // u32 question, text
  Say,           // server: text for stderr
  Shrink,        // u32 generation, ranks that leave, f64 seconds
  Regrouped,     // server: u32 generation, ranks that stay
  NotRegrouped,  // server: u8 reason, ranks, text
};

enum class Answer : uint8_t { Ok, Missing, Failed };  // Failed: u8 reason, ranks, text

constexpr size_t kFrameMost = size_t{1} << 30;

class Writer {
 public:
  explicit Writer(Msg msg) : data_(4, '\0') { u8(static_cast<uint8_t>(msg)); }
  Writer& u8(uint8_t v) { return raw(&v, 1); }
  Writer& u32(uint32_t v) { return raw(&v, 4); }
  Writer& i32(int32_t v) { return raw(&v, 4); }
  Writer& u64(uint64_t v) { return raw(&v, 8); }
  Writer& i64(int64_t v) { return raw(&v, 8); }
  Writer& f64(double v) { return raw(&v, 8); }
  Writer& text(std::string_view s) {
    u32(static_cast<uint32_t>(s.size()));
    return raw(s.data(), s.size());
  }
  Writer& list(const std::vector<int>& v) {
    u32(static_cast<uint32_t>(v.size()));
    return raw(v.data(), v.size() * sizeof(int));
  }
  Writer& raw(const void* p, size_t n) {
    data_.append(static_cast<const char*>(p), n);
    return *this;
  }
  // The whole frame.
  const std::string& frame() {
    const auto n = static_cast<uint32_t>(data_.size() - 4);
    std::memcpy(data_.data(), &n, 4);
    return data_;
  }

 private:
  std::string data_;
};

// A peer that does not keep to the protocol; its connection ends.
struct BadFrame {};

class Reader {
 public:
  explicit Reader(std::string_view data) : rest_(data) {}
  uint8_t u8() { return number<uint8_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  int32_t i32() { return number<int32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  int64_t i64() { return number<int64_t>(); }
  double f64() { return number<double>(); }
  std::string_view raw(size_t n) {
    if (n > rest_.size()) throw BadFrame{};
    const std::string_view s = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return s;
  }
  std::string_view rest() const { return rest_; }
  std::string_view text() { return raw(u32()); }
  std::string string() { return std::string(text()); }
  std::vector<int> list() {
    const size_t n = u32();
    const std::string_view s = raw(n * sizeof(int));
    std::vector<int> v(n);
    if (n > 0) std::memcpy(v.data(), s.data(), s.size());
    return v;
  }

 private:
  template <class T>
  T number() {
    T v;
    std::memcpy(&v, raw(sizeof(T)).data(), sizeof(T));
    return v;
  }
  std::string_view rest_;
};

struct Frame {
  Msg msg;
  std::string_view body;  // until the next call of the inbox
};

// Bytes as they come, cut into frames.
class Inbox {
 public:
  // Reads once, without waiting: bytes read, 0 at the end, -1 with errno.
  ssize_t read_from(int fd);
  std::optional<Frame> next();  // raises BadFrame for a length over `most`
  size_t size() const { return data_.size() - begin_; }
  size_t most = kFrameMost;

 private:
  std::string data_;
  size_t begin_ = 0;
};

}  // namespace tycho::dist
