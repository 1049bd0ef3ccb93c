// Joining, agreeing, and leaving.
#include "engine/dist/job.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "engine/base/interrupt.h"
#include "engine/dist/agreement.h"
#include "engine/dist/env.h"
#include "engine/dist/rank_job.h"
#include "engine/dist/wait.h"

namespace tycho::dist {
namespace {

// World 1, with nobody to meet.
class Alone final : public Job {
 public:
  explicit Alone(Env env) : env_(std::move(env)), store_(local_store()), self_(this_process()) {}
  const Env& env() const override { return env_; }
  std::shared_ptr<Store> store() override { return store_; }
  const Peer& peer(int) const override { return self_; }
  void agree(const Desc&, const std::vector<int>&) override {
    if (failed()) throw DistError(failure_);
  }
  void doing(const Desc*) override {}
  Failure failure() const override { return failed() ? failure_ : Failure{}; }
  Failure left(const std::vector<int>&) const override { return {}; }
  int on_failure(std::function<void(const Failure&)>) override { return 0; }
  void remove_listener(int) override {}
  void report(const Failure&) override {}
  void late(const Desc&, const std::vector<int>&, double) override {}
  std::vector<int> shrink(const std::vector<int>&) override { return {0}; }
  void close(const std::string&) override { failed_ = true; }

 private:
  const Env env_;
  const std::shared_ptr<Store> store_;
  const Peer self_;
  const Failure failure_{Reason::Refused, {}, "the process group is closed"};
};

}  // namespace

Job::Peer this_process() {
  Job::Peer p{getpid(), {}, {}};
  char room[256] = {};
  if (gethostname(room, sizeof room - 1) == 0) p.host = room;
  for (const char c : read_file("/proc/sys/kernel/random/boot_id"))
    if (c != '\n') p.machine += c;
  const ssize_t n = readlink("/proc/self/ns/net", room, sizeof room);
  if (n > 0) p.machine += " " + std::string(room, static_cast<size_t>(n));
  return p;
}

std::shared_ptr<Job> Job::join(const Env& env) {
  // A closed connection is an error of the call that writes, not the end of the process; libraries
  // (Gloo) write without saying so.
  std::signal(SIGPIPE, SIG_IGN);
  TYCHO_CHECK(Kind::Value, env.world_size >= 1, "world_size is %d: it counts from 1",
              env.world_size);
  TYCHO_CHECK(Kind::Value, env.rank >= 0 && env.rank < env.world_size,
              "rank is %d: in a world of %d it is from 0 to %d", env.rank, env.world_size,
              env.world_size - 1);
  if (env.world_size == 1 && env.address.empty() && !env.serves)
    return std::make_shared<Alone>(env);
  auto job = std::make_shared<RankJob>(env);
  job->start();
  return job;
}

void RankJob::start() {
  const double until = now() + env_.init_timeout.count();
  if (env_.serves)
    serve();
  else
    find_server(env_, until);
  meet(until);
  // The store may live longer than the job.
  const auto check = [weak = weak_from_this()] {
    const auto job = weak.lock();
    if (job && job->failed()) throw DistError(job->failure());
  };
  const StoreOptions o{env_.rank, session_, until, env_.init_timeout.count(), check};
  remote_ = std::make_shared<RemoteStore>(env_.address, env_.token, o);
  store_ = prefix_store("s" + std::to_string(session_) + "/", remote_);
  stop_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RankJob::~RankJob() {
  try {
    close({});
  } catch (...) {
  }
}

void RankJob::serve() {
  ServerOptions o;
  o.host = env_.bind;
  o.token = env_.token;
  o.world_size = env_.world_size;
  o.served_by = env_.rank;
  o.offered = env_.offered;
  if (!env_.address.empty()) {
    const Address a = parse_address(env_.address);
    o.name = a.host;
    o.port = a.port;
  }
  server_ = Server::start(o);
  env_.address = server_->address();
  env_.token = server_->token();
  if (!env_.file.empty()) write_meeting_file(env_.file, env_.address, env_.token);
  if (env_.print_line) print_meeting_line(env_);
}

void RankJob::meet(double until) {
  watch_ = connect_proven(env_.address, env_.token, until, env_.init_timeout.count());
  const Peer self = this_process();
  send(Writer(Msg::Join)
           .i32(env_.rank)
           .i32(env_.world_size)
           .i64(self.pid)
           .text(self.host)
           .text(self.machine)
           .f64(std::max(0.0, until - now()))
           .f64(env_.init_timeout.count()));
  try {
    for (;;) {
      if (const auto f = watch_.inbox.next()) {
        Reader body(f->body);
        if (f->msg == Msg::Welcome) return read_welcome(body);
        if (f->msg == Msg::Again) return meet(until);  // all ranks of the job start anew
        if (f->msg == Msg::Refused) throw DistError(read_failure(body));
        throw BadFrame{};
      }
      check_interrupt();
      // The server names who is missing; it may itself have stopped.
      if (now() > until + 5)
        throw DistError({Reason::Timeout, {}, "the store at " + env_.address + " does not answer"});
      if (!wait_readable(watch_.fd.get(), until + 6)) continue;
      const ssize_t n = watch_.inbox.read_from(watch_.fd.get());
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        throw DistError({Reason::Lost,
                         {},
                         "the store at " + env_.address +
                             " has ended while the "
                             "ranks were meeting"});
    }
  } catch (const BadFrame&) {
    throw DistError({Reason::Refused,
                     {},
                     "what serves at " + env_.address +
                         " is another version "
                         "of Tycho"});
  }
}

void RankJob::read_welcome(Reader body) {
  session_ = body.u32();
  served_by_ = body.i32();
  std::vector<std::pair<std::string, std::string>> machines(body.u32());
  for (auto& [host, machine] : machines) host = body.string(), machine = body.string();
  peers_.resize(body.u32());
  for (Peer& p : peers_) {
    const uint32_t at = body.u32();
    if (at >= machines.size()) throw BadFrame{};
    p = {body.i64(), machines[at].first, machines[at].second};
  }
  // All are here: nobody has to find the way any more.
  if (env_.serves && !env_.file.empty()) unlink(env_.file.c_str());
}

void RankJob::agree(const Desc& desc, const std::vector<int>& ranks) {
  if (failed()) raise(failure(), desc);
  Wait wait(*this, desc);
  Client& client = remote_->client();
  uint32_t request;
  Writer w = client.begin(Msg::Agree, &request);
  {
    const std::lock_guard lock(mutex_);
    w.u32(generation_);
  }
  const bool whole = static_cast<int>(ranks.size()) == env_.world_size;
  w.f64(env_.timeout.count()).u32(desc.group).u32(desc.seq).u64(desc.hash());
  w.text(desc.text()).text(to_string(desc.line)).list(whole ? std::vector<int>{} : ranks);
  try {
    const std::string answer = client.ask(
        request, w, now() + env_.timeout.count() + 6, [] {}, [&] { wait.look(); });
    Reader body(answer);
    if (body.u8() == static_cast<uint8_t>(Answer::Ok)) return;
    Failure f = read_failure(body);
    if (f.reason == Reason::Timeout) report(f);
    // What ends the whole group comes over the watch connection too, in a moment.
    if (f.reason != Reason::Disagree && f.reason != Reason::Left) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::seconds(1),
                        [&] { return failure_.reason != Reason::None; });
      if (failure_.reason != Reason::None) f = failure_;
    }
    raise(f, desc);
  } catch (DistError& e) {
    e.op = verb_name(desc.verb);
    e.seq = desc.seq;
    throw;
  }
}

void RankJob::late(const Desc& desc, const std::vector<int>& missing, double waited) {
  const int times = 1 + static_cast<int>(std::lround(std::log2(waited / env_.late.count())));
  const std::string head = format("tycho: rank %d has waited %g s in %s %u%s", env_.rank, waited,
                                  verb_name(desc.verb), desc.seq, at(desc.line).c_str());
  send(Writer(Msg::Late)
           .u32(desc.group)
           .u32(desc.seq)
           .list(missing)
           .text(head)
           .u32(static_cast<uint32_t>(times)));
}

std::vector<int> RankJob::shrink(const std::vector<int>& leave) {
  std::unique_lock lock(mutex_);
  if (closing_) throw DistError({Reason::Refused, {}, "the process group is closed"});
  regrouped_ = false;
  not_regrouped_ = {};
  const double seconds = env_.init_timeout.count(), until = now() + seconds + 5;
  Writer w(Msg::Shrink);
  w.u32(generation_).list(leave).f64(seconds);
  lock.unlock();
  send(w);
  lock.lock();
  for (;;) {
    if (regrouped_) return stay_;
    if (not_regrouped_.reason != Reason::None) throw DistError(not_regrouped_);
    if (over_) throw DistError(failure_);
    if (now() > until)
      throw DistError({Reason::Timeout, {}, "the store at " + env_.address + " does not answer"});
    changed_.wait_for(lock, std::chrono::milliseconds(50));
    lock.unlock();
    check_interrupt();
    lock.lock();
  }
}

void RankJob::close(const std::string& error) {
  if (!thread_.joinable()) return;  // it never met anybody
  uint32_t last;
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    closing_ = true;
    last = doing_.seq;
    if (failure_.reason == Reason::None)
      failure_ = {Reason::Refused, {}, "the process group is closed"};
    failed_ = true;
  }
  send(Writer(Msg::Bye).u32(last).text(error));
  {
    // The server answers by closing. Whoever does not is stopped or gone.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(2), [&] { return over_; });
  }
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof one) < 0) {
  }
  thread_.join();
  watch_.fd.reset();
  remote_->client().wake();
  if (!server_) return;
  try {
    if (!server_->wait_for_goodbyes(Seconds(2))) {
      std::fprintf(
          stderr,
          "tycho: rank %d serves the store of all; it waits up to 30 s for %d of them to end\n",
          env_.rank, server_->ranks_here());
      server_->wait_for_goodbyes(Seconds(28));
    }
  } catch (const Error&) {
    request_interrupt();  // it ends the wait, and is for whoever called
  }
  server_.reset();
}

}  // namespace tycho::dist
