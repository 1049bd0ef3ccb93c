// Values as packets, and the ends of connections as Lua values.
#include "bindings/processes/socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "bindings/codec/pack.h"
#include "bindings/processes/feeder.h"
#include "bindings/tools/check.h"
#include "engine/base/interrupt.h"
#include "engine/dist/types.h"

namespace tycho::lua {
namespace {

using Clock = std::chrono::steady_clock;

const char kSocket[] = "tycho.socket";
constexpr size_t kInline = 16 << 10;  // longer bodies lie in a segment of their own
constexpr int kSocketSliceMs = 50;    // within which Ctrl-C is seen

struct PacketHead {
  uint64_t bytes = 0;       // of the body
  uint32_t in_segment = 0;  // 1: the first segment is the body
  uint32_t segments = 0;    // descriptors: the segments, then the handles
  uint32_t handles = 0, unused = 0;
};

Packet make_packet(lua_State* L, int value, const char* who, const char* root) {
  Cargo cargo = kProcess;
  cargo.who = who;
  cargo.root = root;
  Message message = write_message(L, value, cargo);
  codec::Packed packed = codec::pack(message, true);
  const size_t pieces = packed.segments.size() + message.handles.size();
  TYCHO_CHECK(
      Kind::Value, pieces < dist::kDescriptorsMost,
      "%s: %s holds %zu pieces of shared memory, each with a descriptor, and less than %d go "
      "at once; share them together first (net:share_memory(), or torch.stack)",
      who, root, pieces, dist::kDescriptorsMost);
  PacketHead head{.bytes = packed.bytes.size()};
  Packet packet;
  if (packed.bytes.size() > kInline) {
    head.in_segment = 1;
    packet.segments.push_back(dist::Segment::make(packed.bytes.size(), "tycho message"));
    std::memcpy(packet.segments[0]->data, packed.bytes.data(), packed.bytes.size());
    packed.bytes.clear();
  }
  for (auto& s : packed.segments) packet.segments.push_back(std::move(s));
  packet.handles = std::move(message.handles);
  head.segments = static_cast<uint32_t>(packet.segments.size());
  head.handles = static_cast<uint32_t>(packet.handles.size());
  packet.bytes.assign(reinterpret_cast<const char*>(&head), sizeof head);
  packet.bytes += packed.bytes;
  return packet;
}

[[noreturn]] void damaged() {
  throw dist::DistError({dist::Reason::System, {}, "a packet from another process is damaged"});
}

void read_packet(lua_State* L, std::string_view bytes, std::vector<dist::Descriptor>& fds) {
  PacketHead head;
  if (bytes.size() < sizeof head) damaged();
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes.remove_prefix(sizeof head);
  if (fds.size() != uint64_t{head.segments} + head.handles) damaged();
  std::vector<Ref<dist::Segment>> segments;
  for (uint32_t i = 0; i < head.segments; ++i)
    segments.push_back(dist::Segment::open(std::move(fds[i])));
  std::span<const Ref<dist::Segment>> tensors = segments;
  if (head.in_segment) {
    if (segments.empty() || segments[0]->bytes < head.bytes) damaged();
    bytes = {segments[0]->data, head.bytes};
    tensors = tensors.subspan(1);
  }
  if (bytes.size() != head.bytes) damaged();
  Message message = codec::unpack(bytes, tensors);
  for (size_t i = head.segments; i < fds.size(); ++i)
    message.handles.push_back(std::make_shared<dist::Descriptor>(std::move(fds[i])));
  read_message(L, message);
  pace_collector(L);
}

Handle& handle_at(lua_State* L) {
  Handle* h = to_handle(L, 1);
  TYCHO_CHECK(Kind::Argument, h != nullptr, "_socket: wants the end of a connection");
  TYCHO_CHECK(Kind::Value, *h != nullptr, "this end of the connection was closed");
  return *h;
}

// _socket_pair(): two ends, each the other's.
int socket_pair(lua_State* L) {
  dist::raise_descriptor_limit();
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
    throw dist::DistError(
        {dist::Reason::System,
         {},
         std::string("no connection between processes can be made: ") + std::strerror(errno)},
        errno == EMFILE ? "ulimit -n 65536 before tycho starts" : "");
  for (const int fd : fds) {
    const int room = 4 << 20;  // as much as the system allows
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    push_handle(L, std::make_shared<dist::Descriptor>(fd));
  }
  return 2;
}

// end:send(value, who, root): false when nobody is at the other end. Never waits.
int socket_send(lua_State* L) {
  const Handle to = handle_at(L);
  const std::string who(check_text(L, 3, "_socket")), root(check_text(L, 4, "_socket"));
  lua_pushboolean(L, send_or_keep(to, make_packet(L, 2, who.c_str(), root.c_str())));
  pace_collector(L);
  return 1;
}

// end:receive(seconds): true and the value; false and "empty" or "closed".
int socket_receive(lua_State* L) {
  const Handle from = handle_at(L);
  const double seconds = check_seconds(L, 2, "_socket");
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
  const auto nothing = [L](const char* why) {
    lua_pushboolean(L, 0);
    lua_pushstring(L, why);
    return 2;
  };
  std::string room(sizeof(PacketHead) + kInline, '\0');
  for (;;) {
    std::vector<dist::Descriptor> fds;
    const ssize_t got = dist::receive_message(from->get(), room, fds, MSG_DONTWAIT);
    if (got == 0) return nothing("closed");
    if (got > 0) {
      lua_pushboolean(L, 1);
      read_packet(L, std::string_view(room.data(), static_cast<size_t>(got)), fds);
      return 2;
    }
    if (errno == ECONNRESET || errno == EPIPE || errno == ENOTCONN) return nothing("closed");
    if (errno != EAGAIN && errno != EINTR)
      throw dist::DistError(
          {dist::Reason::System,
           {},
           std::string("receiving from another process: ") + std::strerror(errno)});
    check_interrupt();
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (Clock::now() >= until) return nothing("empty");
    pollfd wait{from->get(), POLLIN, 0};
    poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left + 1, 1, kSocketSliceMs)));
  }
}

// end:ready(seconds): is there something to receive (an end counts)? Waits so long for it.
int socket_ready(lua_State* L) {
  const Handle from = handle_at(L);
  const double seconds = lua_isnoneornil(L, 2) ? 0.0 : check_seconds(L, 2, "_socket");
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd look{from->get(), POLLIN, 0};
    const bool ready =
        poll(&look, 1, static_cast<int>(std::clamp<int64_t>(left, 0, kSocketSliceMs))) > 0;
    check_interrupt();
    if (!ready && left > 0) continue;
    lua_pushboolean(L, ready && (look.revents & (POLLIN | POLLHUP)) != 0);
    return 1;
  }
}
int socket_unsent(lua_State* L) {
  lua_pushinteger(L, packets_kept(&handle_at(L)));
  return 1;
}
int socket_close(lua_State* L) {
  Handle* h = to_handle(L, 1);
  TYCHO_CHECK(Kind::Argument, h != nullptr, "_socket: wants the end of a connection");
  h->reset();
  return 0;
}
int socket_is_closed(lua_State* L) {
  Handle* h = to_handle(L, 1);
  lua_pushboolean(L, !h || !*h);
  return 1;
}
int socket_gc(lua_State* L) {
  if (Handle* h = to_handle(L, 1)) h->reset();
  return 0;
}

// _flush_sockets(seconds): waits until what was put has left this process; how much has not.
int flush_sockets(lua_State* L) {
  wait_until_sent(check_seconds(L, 1, "_flush_sockets"));
  lua_pushinteger(L, packets_kept(nullptr));
  return 1;
}

}  // namespace

void push_handle(lua_State* L, Handle handle) {
  new (lua_newuserdatauv(L, sizeof(Handle), 0)) Handle(std::move(handle));
  luaL_setmetatable(L, kSocket);
}

Handle* to_handle(lua_State* L, int i) {
  return static_cast<Handle*>(luaL_testudata(L, i, kSocket));
}

void open_sockets(lua_State* L, int torch) {
  static const luaL_Reg methods[] = {{"send", guarded<socket_send>},
                                     {"receive", guarded<socket_receive>},
                                     {"ready", guarded<socket_ready>},
                                     {"unsent", guarded<socket_unsent>},
                                     {"close", guarded<socket_close>},
                                     {"is_closed", socket_is_closed},
                                     {"__gc", socket_gc},
                                     {nullptr, nullptr}};
  luaL_newmetatable(L, kSocket);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "end of a connection");
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
  lua_pushcfunction(L, guarded<socket_pair>);
  lua_setfield(L, torch, "_socket_pair");
  lua_pushcfunction(L, guarded<flush_sockets>);
  lua_setfield(L, torch, "_flush_sockets");
}

}  // namespace tycho::lua
