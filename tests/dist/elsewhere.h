// A job whose ranks say that they are on other machines: what several hosts do, on one.
#pragma once
#include "engine/dist/job.h"

namespace tycho::dist {

// `hosts`: a letter for each rank's machine.
class Elsewhere final : public Job {
 public:
  Elsewhere(std::shared_ptr<Job> job, const std::string& hosts) : job_(std::move(job)) {
    for (int r = 0; r < job_->env().world_size; ++r) {
      peers_.push_back(job_->peer(r));
      peers_.back().machine += hosts[static_cast<size_t>(r)];
    }
  }
  const Env& env() const override { return job_->env(); }
  std::shared_ptr<Store> store() override { return job_->store(); }
  const Peer& peer(int rank) const override { return peers_[static_cast<size_t>(rank)]; }
  void agree(const Desc& d, const std::vector<int>& ranks) override { job_->agree(d, ranks); }
  void doing(const Desc* d) override { job_->doing(d); }
  Failure failure() const override { return job_->failure(); }
  Failure left(const std::vector<int>& ranks) const override { return job_->left(ranks); }
  int on_failure(std::function<void(const Failure&)> f) override {
    return job_->on_failure([this, f](const Failure& why) {
      failed_ = job_->failed();
      f(why);
    });
  }
  void remove_listener(int id) override { job_->remove_listener(id); }
  void report(const Failure& f) override { job_->report(f); }
  void late(const Desc& d, const std::vector<int>& missing, double waited) override {
    job_->late(d, missing, waited);
  }
  std::vector<int> shrink(const std::vector<int>& leave) override { return job_->shrink(leave); }
  void close(const std::string& error) override { job_->close(error); }

 private:
  std::shared_ptr<Job> job_;
  std::vector<Peer> peers_;
};

}  // namespace tycho::dist
