// A rank's job among others: the watch connection and the thread that reads it.
#pragma once
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "engine/dist/job.h"
#include "engine/dist/remote_store.h"
#include "engine/dist/server.h"

namespace tycho::dist {

class RankJob final : public Job, public std::enable_shared_from_this<RankJob> {
 public:
  explicit RankJob(const Env& env) : env_(env) {}
  void start();  // meets the others
  ~RankJob() override;
  const Env& env() const override { return env_; }
  std::shared_ptr<Store> store() override { return store_; }
  const Peer& peer(int rank) const override { return peers_.at(static_cast<size_t>(rank)); }
  void agree(const Desc& desc, const std::vector<int>& ranks) override;
  void doing(const Desc* desc) override;
  Failure failure() const override;
  Failure left(const std::vector<int>& ranks) const override;
  int on_failure(std::function<void(const Failure&)> listener) override;
  void remove_listener(int id) override;
  void report(const Failure& failure) override;
  void late(const Desc& desc, const std::vector<int>& missing, double waited) override;
  std::vector<int> shrink(const std::vector<int>& leave) override;
  void close(const std::string& error) override;

 private:
  void serve();
  void meet(double until);
  void read_welcome(Reader body);
  void run();  // on the watch thread
  void handle(const Frame& frame);
  void ended(int error);
  void fail(Failure failure);
  void tell(const Failure& failure);
  void send(Writer& frame);
  std::string where() const;  // "all_reduce 17 at train.lua:41", with the mutex

  Env env_;
  std::unique_ptr<Server> server_;
  Proven watch_;
  Descriptor stop_;
  std::shared_ptr<RemoteStore> remote_;
  std::shared_ptr<Store> store_;
  std::vector<Peer> peers_;
  int served_by_ = -1;
  uint32_t session_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t generation_ = 0;
  Failure failure_;
  std::map<int, std::string> left_;
  Desc doing_;
  bool busy_ = false;
  bool regrouped_ = false;  // an answer to shrink
  std::vector<int> stay_;
  Failure not_regrouped_;
  bool closing_ = false, over_ = false;

  std::mutex sending_, listening_;
  int last_listener_ = 0;
  std::map<int, std::function<void(const Failure&)>> listeners_;
  std::thread thread_;
};

}  // namespace tycho::dist
