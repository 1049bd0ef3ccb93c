// The store of the job's server, seen through one connection, which agreement uses too.
#pragma once
#include "engine/dist/client.h"

namespace tycho::dist {

class RemoteStore final : public Store {
 public:
  RemoteStore(const std::string& address, const std::string& token, const StoreOptions& options);
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Seconds timeout) override;
  std::optional<std::string> try_get(const std::string& key) override;
  void append(const std::string& key, const std::string& more) override;
  int64_t add(const std::string& key, int64_t amount) override;
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override;
  bool delete_key(const std::string& key) override;
  int64_t num_keys() override;
  Client& client() { return client_; }

 private:
  std::optional<std::string> ask(Msg msg, const std::string& key,
                                 const std::vector<std::string_view>& fields = {});
  static std::optional<std::string> value(const std::string& answer);
  Client client_;
};

}  // namespace tycho::dist
