// The job's token, 128 random bits, which a rank and its server prove to each other that they know
// without showing it: each answers the other's random number with an HMAC. On one host a rank that
// was told no token gets it from the server through a unix socket that only its own user may use.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "engine/dist/segment.h"

namespace tycho::dist {

using Nonce = std::array<char, 16>;
using Mac = std::array<char, 32>;

std::string random_token();  // 32 hexadecimal digits
Nonce random_nonce();
// HMAC-SHA256 of who speaks and both numbers. Raises Reason::System where libcrypto is missing.
Mac prove(std::string_view token, std::string_view speaker, const Nonce& mine, const Nonce& other);
bool same_mac(const Mac& a, std::string_view b);  // in constant time

// An abstract unix socket, one per network namespace and name, as ports are. Whoever of the same
// user connects is told the text. An invalid descriptor: the name is taken.
std::string port_offer(int port);  // the name that goes with a TCP port
Descriptor offer(const std::string& name);
void answer_offer(int listener, std::string_view text);
// Empty: nobody of this user offers under this name (now).
std::string take_offer(const std::string& name);

}  // namespace tycho::dist
