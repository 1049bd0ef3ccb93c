// Making groups, and running collectives: on the calling thread, or on the group's.
#include "engine/dist/group.h"

#include <algorithm>
#include <cstdlib>

#include "engine/base/interrupt.h"
#include "engine/dist/wait.h"
#include "engine/ops/table/apply.h"

namespace tycho::dist {

namespace {

// Whether all ranks of the group lie on one machine.
bool on_one_machine(const Members& m) {
  const std::string& first = m.job->peer(m.ranks[0]).machine;
  return std::all_of(m.ranks.begin(), m.ranks.end(),
                     [&](int r) { return m.job->peer(r).machine == first; });
}

std::unique_ptr<Transport> make_transport(const Members& m, const std::string& backend) {
  TYCHO_CHECK(
      Kind::Value, backend != "shm" || on_one_machine(m),
      "backend \"shm\" is for ranks on one machine, and these are on several; use \"gloo\"");
  if (backend == "mpi") return make_mpi(m);
  if (backend == "nccl")
    if (auto nccl = make_nccl(m)) return nccl;
  return make_host_transport(m);
}

// The groups that live, by their handles.
struct Handles {
  std::mutex mutex;
  int64_t last = 0;
  std::unordered_map<int64_t, Group*> groups;
};
Handles& handles() {
  static Handles* const h = new Handles;  // outlives what runs after main
  return *h;
}

}  // namespace

std::unique_ptr<Transport> make_host_transport(const Members& m) {
  return on_one_machine(m) ? make_shm(m) : make_gloo(m);
}

Group::Group() {
  Handles& h = handles();
  const std::lock_guard lock(h.mutex);
  handle_ = ++h.last;
  h.groups[handle_] = this;
}

Ref<Group> Group::of(int64_t handle) {
  if (handle == 0) {
    static const Ref<Group> alone = [] {
      Env env;
      env.rank = 0;
      env.world_size = 1;
      return Group::make(Job::join(env), 0, {0}, "");
    }();
    return alone;
  }
  Handles& h = handles();
  const std::lock_guard lock(h.mutex);
  const auto it = h.groups.find(handle);
  TYCHO_CHECK(Kind::Value, it != h.groups.end(), "this process group has been destroyed");
  return Ref<Group>(it->second);
}

Span span_of(const Tensor& t) {
  if (!t) return {};
  return {t.data<void>(), t.numel(), t.dtype(), t.device()};
}

Ref<Group> Group::make(std::shared_ptr<Job> job, uint32_t id, std::vector<int> ranks,
                       const std::string& backend, MakeTransport* transport) {
  TYCHO_CHECK(Kind::Value,
              backend.empty() || backend == "gloo" || backend == "shm" || backend == "mpi" ||
                  backend == "nccl",
              "there is no backend \"%s\"; there are \"gloo\", \"shm\", \"mpi\" and \"nccl\"",
              backend.c_str());
  Ref<Group> group(new Group);
  Members& m = group->members_;
  m.id = id;
  m.ranks = std::move(ranks);
  const auto here = std::find(m.ranks.begin(), m.ranks.end(), job->env().rank);
  TYCHO_CHECK(Kind::Value, here != m.ranks.end(), "rank %d is no member of this group",
              job->env().rank);
  m.rank = static_cast<int>(here - m.ranks.begin());
  m.store = prefix_store("group" + std::to_string(id) + "/", job->store());
  m.job = std::move(job);
  group->backend_ = backend.empty() ? "gloo" : backend;
  const char* const check = std::getenv("TYCHO_DIST_CHECK");
  group->checks_ = !check || std::string_view(check) != "0";
  group->finished_ = Ref<Work>(new Work);
  group->finished_->done_ = true;
  if (m.size() > 1 || backend == "nccl")
    group->transport_ = transport      ? transport(m)
                        : m.size() > 1 ? make_transport(m, backend)
                                       : make_nccl(m);
  return group;
}

Group::~Group() {
  {
    const std::lock_guard lock(handles().mutex);
    handles().groups.erase(handle_);
  }
  try {
    close();
  } catch (...) {  // an interrupt: the threads end with their work
  }
  end_threads();
}

void Group::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread* t : {&thread_, &mover_})
    if (t->joinable()) t->join();
  reap();
}

void Group::check_open(const char* what) const {
  if (closed_)
    throw DistError({Reason::Refused, {}, format("%s: the process group is closed", what)},
                    "dist.init_process_group()");
  if (!poisoned_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  std::rethrow_exception(poison_);
}

void Group::check(const Desc& d) const {
  const char* verb = verb_name(d.verb);
  TYCHO_CHECK(Kind::Value, d.root >= -1 && d.root < members_.size(),
              "%s: there is no rank %d in a group of %d", verb, d.root, members_.size());
  if (!reduces(d.verb)) return;
  TYCHO_CHECK(Kind::DType, d.red != RedOp::Avg || is_floating(d.dtype),
              "%s: a mean of %s is no %s; sum, and divide as float", verb, dtype_name(d.dtype),
              dtype_name(d.dtype));
  const bool bits = d.red == RedOp::Band || d.red == RedOp::Bor || d.red == RedOp::Bxor;
  TYCHO_CHECK(Kind::DType, !bits || !is_floating(d.dtype),
              "%s: %s works on the bits of integers and booleans, not on %s", verb, red_name(d.red),
              dtype_name(d.dtype));
}

Ref<Work> Group::start(Desc desc, const Tensor& in, const Tensor& out, bool async) {
  check_open(verb_name(desc.verb));
  check(desc);
  desc.group = members_.id;
  desc.seq = seq_ + 1;
  desc.async = async;
  const bool staged = transport_ && ((in && !transport_->takes(in.device())) ||
                                     (out && !transport_->takes(out.device())));
  // What is in flight by another group, or by other things than groups, comes first; what is by
  // this one is in order anyway.
  for (const Tensor* t : {&in, &out}) {
    if (!*t) continue;
    InFlight* const by = (*t)->storage->in_flight;
    if (!by) continue;
    const bool ours = std::any_of(issued_.begin(), issued_.end(),
                                  [&](const Ref<Work>& w) { return w.get() == by; });
    if (!ours || !async || staged) ready(*(*t)->storage);
  }
  if (!issued_.empty()) reap();
  if (staged) {
    ++seq_;
    return last_ = run_staged(desc, in, out);
  }
  if (!transport_) {
    ++seq_;
    run_local(in, out);
    return last_ = finished_;
  }
  transport_->issue(desc, span_of(in), span_of(out));
  if (!async && idle()) {
    ++seq_;
    run(desc, span_of(in), span_of(out));
    return last_ = finished_;
  }
  const Ref<Work> work = new_work(desc, in, out);
  enqueue(work);
  ++seq_;
  if (!async) work->wait();
  return last_ = work;
}

// Devices that the transport does not reach: through the host.
Ref<Work> Group::run_staged(const Desc& desc, const Tensor& in, const Tensor& out) {
  const auto staged = [](const Tensor& t) { return t ? empty(t.shape(), t.dtype()) : Tensor(); };
  const bool same = in && out && in.get() == out.get();
  const Tensor host_in = staged(in), host_out = same ? host_in : staged(out);
  if (in) copy_raw(host_in, in);
  if (!idle()) {
    const Ref<Work> work = new_work(desc, host_in, host_out);
    enqueue(work);
    work->wait();
  } else {
    run(desc, span_of(host_in), span_of(host_out));
  }
  if (out) copy_raw(out, host_out);
  return finished_;
}

void Group::run(const Desc& desc, Span in, Span out) {
  Job& job = *members_.job;
  struct Doing {
    Job& job;
    ~Doing() { job.doing(nullptr); }
  } doing{job};
  job.doing(&desc);
  try {
    if (job.failed()) raise(job.failure(), desc);
    if (checks_ && !transport_->agrees()) {
      job.agree(desc, members_.ranks);
      if (!desc.send.empty()) agree_on_splits(desc);
    }
    transport_->run(desc, in, out);
  } catch (...) {
    poison(verb_name(desc.verb), desc);
  }
}

// Where the transport does not compare splits itself: every rank learns those of all.
void Group::agree_on_splits(const Desc& desc) {
  const auto n = static_cast<size_t>(members_.size());
  std::vector<int64_t> mine(desc.send);
  mine.insert(mine.end(), desc.receive.begin(), desc.receive.end());
  std::vector<int64_t> all(2 * n * n);
  Desc d = desc;
  d.verb = Verb::AllGather;
  d.dtype = DType::Int64;
  d.send.clear();
  d.receive.clear();
  d.device = {};
  transport_->run(d, {mine.data(), static_cast<int64_t>(2 * n), DType::Int64, {}},
                  {all.data(), static_cast<int64_t>(2 * n * n), DType::Int64, {}});
  for (size_t from = 0; from < n; ++from)
    for (size_t to = 0; to < n; ++to)
      if (all[from * 2 * n + to] != all[to * 2 * n + n + from])
        raise(split_disagreement(desc, members_.ranks[from], members_.ranks[to],
                                 all[from * 2 * n + to], all[to * 2 * n + n + from]),
              desc);
}

// Called in a catch block.
void Group::poison(const char* op, const Desc& desc) {
  Job& job = *members_.job;
  const bool message = desc.seq == 0;
  const auto keep = [&](std::exception_ptr e) {
    const std::lock_guard lock(mutex_);
    if (!poison_) poison_ = std::move(e);
    poisoned_ = true;
  };
  try {
    throw;
  } catch (DistError& e) {
    e.op = op;
    if (e.reason == Reason::Died && backend_ == "mpi")
      e.hint =
          "mpirun ends all ranks when one dies, as MPI has it; backend \"gloo\" lets them go on";
    // All ranks have seen it at the same place of a collective, and can go on from there.
    if (e.reason == Reason::Disagree && !message && !job.failed()) throw;
    // Ctrl-C reaches all ranks of a terminal: then it is one, not the failure of another.
    if (e.reason == Reason::Left && interrupt_pending()) check_interrupt();
    keep(std::current_exception());
    throw;
  } catch (const Error& e) {
    const bool stopped = e.kind == Kind::Interrupt;
    const std::string doing =
        std::string(op) + (message ? "" : " " + std::to_string(desc.seq)) + at(desc.line);
    const Failure f{
        stopped ? Reason::Left : Reason::System,
        {job.env().rank},
        format("rank %d %s in %s%s", job.env().rank, stopped ? "was interrupted" : "has failed",
               doing.c_str(), stopped ? "" : (": " + e.text).c_str())};
    DistError later(f);
    later.op = op;
    later.seq = desc.seq;
    keep(std::make_exception_ptr(later));
    job.report(f);
    throw;
  }
}

// --- The queue ---

bool Group::idle() {
  if (!thread_.joinable()) return true;
  const std::lock_guard lock(mutex_);
  return queue_.empty() && !running_;
}

Ref<Work> Group::new_work(const Desc& desc, const Tensor& in, const Tensor& out) {
  Ref<Work> w(new Work);
  w->desc_ = desc;
  w->in_ = span_of(in);
  w->out_ = span_of(out);
  w->group_ = this;
  w->tensors_[0] = in;
  w->tensors_[1] = out;
  for (const Tensor& t : w->tensors_)
    if (t) w->mark(t);
  return w;
}

void Group::enqueue(const Ref<Work>& work) {
  issued_.push_back(work);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(work.get());
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { work_off(); });
  changed_.notify_all();
}

void Group::work_off() {
  const HoldInterrupts hold;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Work& w = *queue_.front();
    queue_.pop_front();
    running_ = true;
    std::exception_ptr error = poison_;
    lock.unlock();
    if (!error) try {
        run(w.desc_, w.in_, w.out_);
      } catch (...) {
        error = std::current_exception();
      }
    lock.lock();
    running_ = false;
    lock.unlock();
    finish(w, error);
    lock.lock();
  }
}

// The last that another thread does with a work.
void Group::finish(Work& w, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  w.error_ = std::move(error);
  w.done_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Group::reap() {
  for (auto it = issued_.begin(); it != issued_.end();) {
    if (!(*it)->passed()) {
      ++it;
      continue;
    }
    (*it)->settle();
    it = issued_.erase(it);
  }
}

void Group::close() {
  if (closed_) return;
  closed_ = true;
  for (const Ref<Work>& w : issued_) {
    try {
      w->wait();
    } catch (const Error& e) {
      if (e.kind == Kind::Interrupt) throw;
    }
  }
  end_threads();
  transport_.reset();
  unsent_.clear();
}

}  // namespace tycho::dist
