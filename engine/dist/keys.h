// The server's half of the store: keys, values, and who waits for a key.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/dist/wire.h"

namespace tycho::dist {

using ConnId = uint64_t;  // never used twice

// How the parts of the server answer.
class Sender {
 public:
  virtual ~Sender() = default;
  virtual void send(ConnId to, Writer& frame) = 0;
  virtual void end(ConnId who) = 0;  // after what was sent to it
};

inline Writer reply(uint32_t request, Answer answer) {
  Writer w(Msg::Reply);
  w.u32(request).u8(static_cast<uint8_t>(answer));
  return w;
}

class Keys {
 public:
  explicit Keys(Sender& out) : out_(out) {}
  void handle(ConnId from, Msg msg, Reader body);
  void gone(ConnId who);  // it waits no longer

 private:
  void changed(const std::string& key);
  struct Waiter {
    ConnId who;
    uint32_t request;
  };
  Sender& out_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::vector<Waiter>> waiting_;
};

}  // namespace tycho::dist
