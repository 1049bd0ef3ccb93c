// A client's connection to the server, for requests that are answered: used by any thread, one of
// which reads for all.
#pragma once
#include <condition_variable>
#include <map>
#include <mutex>

#include "engine/dist/socket.h"
#include "engine/dist/types.h"

namespace tycho::dist {

class Client {
 public:
  Client(std::string address, const std::string& token, const StoreOptions& options);
  // A request's frame begins with its number.
  Writer begin(Msg msg, uint32_t* request);
  // Sends it and waits for the answer: the body of Reply after the request's number. `until` is for
  // requests that wait for other processes; `late` is called when it has passed and raises. Raises
  // Reason::Lost when the server is gone.
  std::string ask(uint32_t request, Writer& frame);
  std::string ask(uint32_t request, Writer& frame, double until, const std::function<void()>& late,
                  const std::function<void()>& look = {});
  // Whoever waits looks at `check` at once.
  void wake();

 private:
  [[noreturn]] void lost();
  void forget(uint32_t request);
  void read_some(double until);

  const std::string address_;
  const std::function<void()> check_;
  Proven connection_;
  Descriptor wake_;
  std::mutex mutex_, sending_;
  std::condition_variable arrived_;
  bool reading_ = false, broken_ = false;
  uint32_t last_ = 0;
  std::map<uint32_t, std::optional<std::string>> open_;
};

}  // namespace tycho::dist
