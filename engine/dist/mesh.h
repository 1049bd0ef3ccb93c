// Mesh: bytes between every two members of a group, in numbered slots, over the network. Gloo
// implements it, in a module of its own (module/gloo.cpp); who uses it knows nothing of Gloo.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace tycho::dist {

// A connection broke, or could not be made. The text is for experts: it names an address.
struct MeshError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Mesh {
 public:
  // Memory that is sent from or received into. A message is received whole, into as many bytes as
  // were sent; what is sent to a slot is received from it in the same order. Destroyed only when
  // all of its transfers are over, or after `close`.
  class Buffer {
   public:
    virtual ~Buffer() = default;
    virtual void send(int to, uint64_t slot, size_t offset, size_t bytes) = 0;
    virtual void receive(int from, uint64_t slot, size_t offset, size_t bytes) = 0;
    virtual void receive_any(uint64_t slot, size_t offset, size_t bytes) = 0;
    // Waits until one more has been sent or received than was waited for; false: `stop` was called.
    virtual bool wait_sent() = 0;
    virtual bool wait_received(int* from) = 0;
    // Ends one wait, the one at hand or the next one. On any thread.
    virtual void stop() = 0;
  };

  virtual ~Mesh() = default;
  // An address for each other member in turn, `address_bytes` long, to be told to them.
  virtual std::string addresses() const = 0;
  virtual size_t address_bytes() const = 0;
  // Waits for the connection to a member. `close` ends it, on any thread.
  virtual void connect(int member, const std::string& address) = 0;
  virtual std::unique_ptr<Buffer> buffer(void* p, size_t bytes) = 0;
  // Breaks all connections. Without it, what was sent still arrives.
  virtual void close() = 0;
};

// What a module defines: the mesh of `size` members, listening at an address of this machine.
// Throws MeshError.
using MakeMesh = std::unique_ptr<Mesh>(int rank, int size, const char* host);

}  // namespace tycho::dist
