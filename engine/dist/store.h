// Store: keys and values that all processes of a job see, as PyTorch's TCPStore. It serves from the
// launcher or the spawning parent, else from rank 0 (server.h); a client has one connection, used
// by any thread.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/dist/types.h"

namespace tycho::dist {

using Seconds = std::chrono::duration<double>;

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits until the key is set; Reason::Timeout after `timeout`. Looks for interrupts.
  virtual std::string get(const std::string& key, Seconds timeout) = 0;
  virtual std::optional<std::string> try_get(const std::string& key) = 0;
  // Puts text behind the value; a missing key counts as empty.
  virtual void append(const std::string& key, const std::string& more) = 0;
  virtual int64_t add(const std::string& key, int64_t amount) = 0;  // a missing key counts as 0
  // Sets the key if it has the expected value (or is missing and `expected` is empty); returns what
  // it has then.
  virtual std::string compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired) = 0;
  virtual bool delete_key(const std::string& key) = 0;
  virtual int64_t num_keys() = 0;
};

struct StoreOptions {
  int rank = -1;         // of the job; -1: of none
  uint32_t session = 0;  // of the job
  double until = 0;      // connecting, on the clock of socket.h
  double asked = 0;      // how long that was, for the text
  // Whoever waits looks here: raises when waiting is in vain.
  std::function<void()> check;
};
// A client of the server at `address`.
std::shared_ptr<Store> connect_store(const std::string& address, const std::string& token,
                                     const StoreOptions& options);
std::shared_ptr<Store> local_store();  // of this process alone

// The same store, with a prefix before each key.
std::shared_ptr<Store> prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace tycho::dist
