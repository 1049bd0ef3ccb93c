// What joins a notebook's server with the kernel: Jupyter's five sockets, with signatures, and what the
// process writes on its standard streams. The module shell/module/jupyter.cpp has it, for it needs libzmq.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace tycho::shell {

// What the file says that the server writes for a kernel.
struct KernelConnection {
  std::string transport, address, key, digest;  // digest: "sha256"; an empty key: nothing is signed
  int shell = 0, control = 0, iopub = 0, input = 0, heartbeat = 0;
};

// A request; header, parent, metadata and content are JSON, `parts` the bytes that came behind.
struct KernelMessage {
  bool control = false;
  std::string header, type, content;
  std::vector<std::string> from;  // the client's addresses
};

struct KernelHooks {
  std::function<void()> interrupt;    // stops what the main thread runs; called by another one
  std::function<bool()> interrupted;  // on the main thread: does a stop wait?
  std::function<void(const char*)> remark;  // a line for whoever looks at the kernel's own log
  std::string info;                         // the content of kernel_info_reply
  int out = -1, err = -1;                   // where standard output and error can be read
};

// All calls are the main thread's.
class KernelWire {
 public:
  virtual ~KernelWire() = default;
  // Waits for a request, or takes one that is there already; null when nobody is left to send one.
  virtual const KernelMessage* next() = 0;
  virtual const KernelMessage* next_at_hand() = 0;
  virtual int waiting() = 0;  // how many requests are there
  // To the sender of the request that was taken last, and to all that listen. Whatever was written
  // on the standard streams before comes before it.
  virtual void reply(const std::string& type, const std::string& content) = 0;
  virtual void publish(const std::string& type, const std::string& content) = 0;
  // Asks the sender for a line; false when a stop came, or nobody is left.
  virtual bool ask(const std::string& prompt, std::string* line) = 0;
};

// In the module; null with a sentence in `why`.
using OpenKernelWire = KernelWire*(const KernelConnection&, const KernelHooks&, std::string* why);

}  // namespace tycho::shell
