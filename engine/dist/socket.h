// TCP connections between ranks and the server: addresses, listening, connecting, and noticing that
// the other host is gone.
#pragma once
#include <functional>
#include <string>

#include "engine/dist/segment.h"
#include "engine/dist/store.h"
#include "engine/dist/wire.h"

namespace tycho::dist {

struct Address {
  std::string host;
  int port = 0;
};
// "h1:29500", "[::1]:29500". Raises Kind::Value.
Address parse_address(const std::string& text);
std::string to_string(const Address& a);
bool is_loopback(const std::string& host);

double now();  // seconds of a clock that never goes back

// Raises Reason::System; a taken port is said to be. `host` empty: all addresses.
Descriptor listen_at(const std::string& host, int port);
int port_of(int fd);
// One attempt; null with the reason in `why`. Looks for interrupts.
Descriptor connect_to(const Address& to, Seconds at_most, std::string* why);
// Answers at once (no collecting of small messages), and ends when the other host has not answered
// for about 3 s.
void prepare_connection(int fd);

// Waits for input on `fd` (or on `also`, if not -1) for at most 50 ms and never beyond `until`.
// False: nothing came.
bool wait_readable(int fd, double until, int also = -1);
// All of it, or false when the connection is gone or does not take it for 30 s.
bool send_all(int fd, std::string_view data);

// A connection to the server at which both sides have proved that they know the token. Tries until
// `until` while nobody serves there; raises Timeout (rank 0 is missing), Refused, Interrupt.
// `token` empty: asks the server's user socket (token.h) under `offered`.
struct Proven {
  Descriptor fd;
  Inbox inbox;
};
Proven connect_proven(const std::string& address, const std::string& token, double until,
                      double asked);

}  // namespace tycho::dist
