// What a full socket does not take yet: kept in order and sent by a thread, which starts with the
// first such packet, so that putting a value never waits for who reads it.
#pragma once
#include "bindings/codec/codec.h"

namespace tycho::lua {

struct Packet {
  std::string bytes;
  std::vector<Ref<dist::Segment>> segments;  // the body first, when it lies in one
  std::vector<Handle> handles;
};

enum class Sent { Yes, Full, Closed };
// Without waiting. Raises Reason::System when the system refuses it for another reason.
Sent try_send(int fd, const Packet& packet);

// Sends now or later; false when nobody is at the other end.
bool send_or_keep(const Handle& to, Packet packet);
int64_t packets_kept(const Handle* of);  // null: of all
// Waits until all kept packets have left; false when the time is over.
bool wait_until_sent(double seconds);

}  // namespace tycho::lua
