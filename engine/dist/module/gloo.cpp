// Gloo as a mesh. Of Gloo only the transport is used: connections, and buffers bound to none of
// them. A module: the program starts without libgloo.
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include "engine/base/module.h"
#include "engine/dist/mesh.h"

namespace tycho::dist {
namespace {

namespace transport = gloo::transport;

// Waiting ends when all is done, when a connection breaks, or by `stop`: never by the clock, which
// would break all connections.
constexpr auto kForever = std::chrono::hours(24 * 365);

// Gloo's errors, which are of several types, as ours.
template <class F>
auto translated(F f) {
  try {
    return f();
  } catch (const std::exception& e) {
    throw MeshError(e.what());
  }
}

class GlooBuffer final : public Mesh::Buffer {
 public:
  GlooBuffer(std::unique_ptr<transport::UnboundBuffer> buffer, const std::vector<int>& others)
      : buffer_(std::move(buffer)), others_(others) {}
  void send(int to, uint64_t slot, size_t offset, size_t bytes) override {
    translated([&] { buffer_->send(to, slot, offset, bytes); });
  }
  void receive(int from, uint64_t slot, size_t offset, size_t bytes) override {
    translated([&] { buffer_->recv(from, slot, offset, bytes); });
  }
  void receive_any(uint64_t slot, size_t offset, size_t bytes) override {
    translated([&] { buffer_->recv(others_, slot, offset, bytes); });
  }
  bool wait_sent() override {
    return translated([&] { return buffer_->waitSend(nullptr, kForever); });
  }
  bool wait_received(int* from) override {
    return translated([&] { return buffer_->waitRecv(from, kForever); });
  }
  void stop() override {
    buffer_->abortWaitRecv();
    buffer_->abortWaitSend();
  }

 private:
  std::unique_ptr<transport::UnboundBuffer> buffer_;
  const std::vector<int>& others_;
};

class GlooMesh final : public Mesh {
 public:
  GlooMesh(int rank, int size, const char* host)
      : device_(transport::tcp::CreateDevice(transport::tcp::attr(host))),
        context_(device_->createContext(rank, size)) {
    context_->setTimeout(std::chrono::duration_cast<std::chrono::milliseconds>(kConnecting));
    for (int i = 0; i < size; ++i) {
      if (i == rank) continue;
      others_.push_back(i);
      const std::vector<char> bytes = context_->createPair(i)->address().bytes();
      address_bytes_ = bytes.size();
      addresses_.append(bytes.data(), bytes.size());
    }
  }
  std::string addresses() const override { return addresses_; }
  size_t address_bytes() const override { return address_bytes_; }
  void connect(int member, const std::string& address) override {
    translated([&] {
      context_->getPair(member)->connect(std::vector<char>(address.begin(), address.end()));
    });
  }
  std::unique_ptr<Buffer> buffer(void* p, size_t bytes) override {
    return std::make_unique<GlooBuffer>(context_->createUnboundBuffer(p, bytes), others_);
  }
  void close() override {
    for (const int i : others_) context_->getPair(i)->close();
  }

 private:
  static constexpr auto kConnecting =
      std::chrono::hours(1);  // the caller ends it before, by `close`
  const std::shared_ptr<transport::Device> device_;
  const std::shared_ptr<transport::Context> context_;
  std::vector<int> others_;
  std::string addresses_;
  size_t address_bytes_ = 0;
};

}  // namespace

TYCHO_MODULE_EXPORT std::unique_ptr<Mesh> tycho_make_mesh(int rank, int size, const char* host) {
  return translated(
      [&]() -> std::unique_ptr<Mesh> { return std::make_unique<GlooMesh>(rank, size, host); });
}

}  // namespace tycho::dist
