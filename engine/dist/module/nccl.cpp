// NCCL as a transport, for tensors on GPUs. Collectives are calls for one communicator, on a stream of
// its own: it waits for what was asked of the user's stream before, and what the user asks next waits
// for it. Works that are not waited for are looked after on the group's thread until they are done.
// Messages have communicators of their own (nccl_post.h); tensors of the CPU go over what moves the
// host's bytes. Part of the CUDA module.
//
// A death is seen by the job's watch, and ends what waits in the GPU for ever: ncclCommAbort.
#include "engine/cuda/nccl.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>

#include "engine/base/module.h"
#include "engine/cuda/context.h"
#include "engine/dist/module/nccl.h"
#include "engine/dist/module/nccl_channel.h"
#include "engine/dist/module/nccl_post.h"
#include "engine/dist/socket.h"
#include "engine/dist/wait.h"
#include "engine/tensor/graph.h"

namespace tycho::dist {
namespace {

using cuda::Nccl;
using cuda::nccl::Comm;
using cuda::nccl::Red;
using cuda::nccl::Status;
using cuda::nccl::Type;

// What moves only is bytes; what is combined has a type. Of booleans a sum is "or", a product "and".
Type type_of(DType t, const Desc& desc) {
  switch (t) {
    case DType::Bool:
    case DType::UInt8:
      return Type::U8;
    case DType::Int8:
      return Type::I8;
    case DType::Int32:
      return Type::I32;
    case DType::Int64:
      return Type::I64;
    case DType::Float16:
      return Type::F16;
    case DType::BFloat16:
      return Type::BF16;
    case DType::Float32:
      return Type::F32;
    case DType::Float64:
      return Type::F64;
    default:
      fail(Kind::DType, format("%s: NCCL combines no %s", verb_name(desc.verb), dtype_name(t)),
           "x:int(), or backend \"gloo\"");
  }
}
Red red_of(const Desc& desc) {
  const bool truth = desc.dtype == DType::Bool;
  switch (desc.red) {
    case RedOp::Sum:
      return truth ? Red::Max : Red::Sum;
    case RedOp::Product:
      return truth ? Red::Min : Red::Product;
    case RedOp::Avg:
      return Red::Avg;
    case RedOp::Max:
      return Red::Max;
    case RedOp::Min:
      return Red::Min;
    default:
      if (truth && desc.red == RedOp::Bor) return Red::Max;
      if (truth && desc.red == RedOp::Band) return Red::Min;
      fail(Kind::DType, format("%s: NCCL has no %s", verb_name(desc.verb), red_name(desc.red)),
           "backend \"gloo\" has it");
  }
}

bool good(Status s) { return s == cuda::nccl::kGood || s == cuda::nccl::kInProgress; }

class NcclTransport final : public Transport {
 public:
  NcclTransport(const Members& members, std::unique_ptr<Transport> host)
      : members_(members), host_(std::move(host)), channel_(*members_.job) {
    if (host_) post_ = std::make_unique<NcclPost>(members_, *host_);
    listener_ = members_.job->on_failure([this](const Failure& f) {
      if (f.reason != Reason::None && members_.job->failed()) abort();
    });
  }
  ~NcclTransport() override;

  const char* name() const override { return "nccl"; }
  bool agrees() const override { return false; }
  bool takes(Device) const override { return true; }
  void issue(Desc& desc, Span in, Span out) override;
  void run(const Desc& desc, Span in, Span out) override;
  void issue_message(Message& m) override { post_->issue(m); }
  void start_message(Message& m) override { post_->start(m); }
  bool poll_messages(const std::vector<Message*>&) override { return post_ && post_->poll(); }
  void wait_for_messages(Seconds at_most) override {
    if (post_) post_->wait(at_most);
  }
  void wake() override {
    if (host_) host_->wake();
  }

 private:
  Backend& backend() const { return backend_of(channel_.device()); }
  void connect(Device device, const Desc& desc);
  void check_gpus(const Desc& desc);
  void launch(const Desc& desc, Span in, Span out);
  void abort();

  const Members members_;
  std::unique_ptr<Transport> host_;
  std::unique_ptr<NcclPost> post_;
  int listener_ = -1;
  Channel channel_;  // of collectives
  std::atomic<bool> connected_{false};
  void* word_ = nullptr;  // of the device, for barriers
};

void NcclTransport::check_gpus(const Desc& desc) {
  const int n = members_.size();
  const std::string bus = gpu_of(desc.device);
  const int world_rank = members_.ranks[static_cast<size_t>(members_.rank)];
  members_.store->set("nccl/gpu" + std::to_string(members_.rank),
                      members_.job->peer(world_rank).machine + " " + bus);
  std::map<std::string, int> owner;
  for (int r = 0; r < n; ++r) {
    const std::string gpu =
        members_.store->get("nccl/gpu" + std::to_string(r), members_.job->env().timeout);
    const auto [at, added] = owner.emplace(gpu, r);
    if (added) continue;
    DistError e = one_gpu(
        {members_.ranks[static_cast<size_t>(at->second)], members_.ranks[static_cast<size_t>(r)]},
        bus);
    e.op = verb_name(desc.verb);
    throw e;
  }
}

// At the first collective, whose tensors say on which device this rank works.
void NcclTransport::connect(Device device, const Desc& desc) {
  if (connected_) {
    TYCHO_CHECK(Kind::Device, device == channel_.device(),
                "this rank began with tensors on %s, and these are on %s: a group of NCCL has one "
                "device for each rank",
                device_name(channel_.device()).c_str(), device_name(device).c_str());
    return;
  }
  if (members_.size() > 1) check_gpus(desc);
  cuda::nccl::Id id{};
  if (members_.rank == 0) {
    id = new_nccl_id(*members_.job);
    if (members_.size() > 1) members_.store->set("nccl/id", std::string(id.bytes, sizeof id.bytes));
  } else {
    const std::string text = members_.store->get("nccl/id", members_.job->env().timeout);
    std::memcpy(id.bytes, text.data(), std::min(text.size(), sizeof id.bytes));
  }
  channel_.meet(device, id, members_.size(), members_.rank, desc);
  connected_ = true;
  channel_.wait_until_taken("meeting the others", desc);
  constexpr size_t kWord = 8;
  word_ = cuda::context_of(device).memory->allocate(kWord, channel_.stream());
  TYCHO_CHECK(Kind::Oom, word_, "out of memory on %s", device_name(device).c_str());
}

void NcclTransport::launch(const Desc& desc, Span in, Span out) {
  const Nccl& nccl = cuda::nccl_library();
  using cuda::Stream;
  const int root = desc.root, me = members_.rank, k = members_.size();
  const bool is_root = root == me;
  const auto bytes = [](const Span& s) { return static_cast<size_t>(s.bytes()); };
  const auto count = [](const Span& s) { return static_cast<size_t>(s.n); };
  const auto one = [&](const Channel::Call& f) {
    channel_.ask_and_wait(verb_name(desc.verb), desc, f);
  };
  // Parts for and from each rank, in one group; sizes in elements.
  const size_t each = static_cast<size_t>(dtype_size(desc.dtype));
  const auto exchange = [&](auto&& sends, auto&& receives) {
    one([&](Comm comm, Stream stream) {
      Status status = nccl.begin_group();
      size_t from = 0, to = 0;
      const auto add = [&](size_t n, auto&& what) {
        if (n && good(status)) status = what();
      };
      for (int r = 0; r < k; ++r) {
        const size_t s = sends(r) * each, g = receives(r) * each;
        add(s, [&] {
          return nccl.send(static_cast<char*>(in.p) + from, s, Type::I8, r, comm, stream);
        });
        add(g, [&] {
          return nccl.receive(static_cast<char*>(out.p) + to, g, Type::I8, r, comm, stream);
        });
        from += s, to += g;
      }
      const Status ended = nccl.end_group();
      return good(status) ? ended : status;
    });
  };
  switch (desc.verb) {
    case Verb::AllReduce:
      if (!in.n) return;
      return one([&, t = type_of(desc.dtype, desc), r = red_of(desc)](Comm comm, Stream stream) {
        return nccl.all_reduce(in.p, out.p, count(in), t, r, comm, stream);
      });
    case Verb::Broadcast: {
      const Span& mine = is_root ? in : out;
      if (!mine.n) return;
      return one([&](Comm comm, Stream stream) {
        return nccl.broadcast(mine.p, out.p ? out.p : in.p, bytes(mine), Type::I8, root, comm,
                              stream);
      });
    }
    case Verb::Reduce:
      if (!in.n) return;
      return one([&, t = type_of(desc.dtype, desc), r = red_of(desc)](Comm comm, Stream stream) {
        return nccl.reduce(in.p, out.p, count(in), t, r, root, comm, stream);
      });
    case Verb::AllGather:
      if (!in.n) return;
      return one([&](Comm comm, Stream stream) {
        return nccl.all_gather(in.p, out.p, bytes(in), Type::I8, comm, stream);
      });
    case Verb::ReduceScatter:
      if (!out.n) return;
      return one([&, t = type_of(desc.dtype, desc), r = red_of(desc)](Comm comm, Stream stream) {
        return nccl.reduce_scatter(in.p, out.p, count(out), t, r, comm, stream);
      });
    case Verb::Gather:
      return exchange([&](int r) { return r == root ? count(in) : 0; },
                      [&](int) { return is_root ? count(in) : 0; });
    case Verb::Scatter:
      return exchange([&](int) { return is_root ? count(out) : 0; },
                      [&](int r) { return r == root ? count(out) : 0; });
    case Verb::AllToAll: {
      const auto part = [&](const std::vector<int64_t>& splits, const Span& all, int r) {
        return splits.empty() ? count(all) / static_cast<size_t>(k)
                              : static_cast<size_t>(splits[static_cast<size_t>(r)]);
      };
      return exchange([&](int r) { return part(desc.send, in, r); },
                      [&](int r) { return part(desc.receive, out, r); });
    }
    case Verb::Barrier:
      return one([&](Comm comm, Stream stream) {
        return nccl.all_reduce(word_, word_, 1, Type::F32, Red::Max, comm, stream);
      });
  }
}

// On the user's thread: what the collective reads is there when this stream is as far as now.
void NcclTransport::issue(Desc& desc, Span in, Span out) {
  Device d = in.d.is_cpu() ? out.d : in.d;
  if (d.is_cpu()) {
    if (desc.verb != Verb::Barrier) return;
    d = connected_ ? channel_.device() : current_cuda_device();
  }
  if (desc.verb == Verb::AllReduce || desc.verb == Verb::Reduce || desc.verb == Verb::ReduceScatter)
    type_of(desc.dtype, desc), red_of(desc);  // raise on all ranks, before anything is sent
  not_while_capturing(d, "a collective of NCCL");
  desc.stream = current_stream(d);
  desc.mark = backend_of(d).mark(d, desc.stream);
  desc.device = d;
}

void NcclTransport::run(const Desc& desc, Span in, Span out) {
  if (desc.device.is_cpu() && host_) return host_->run(desc, in, out);
  if (desc.device.is_cpu()) return copy_bytes(out.p, in.p, static_cast<size_t>(in.bytes()));
  try {
    connect(desc.device, desc);
    const Device device = channel_.device();
    channel_.after(desc.stream, desc.mark);
    launch(desc, in, out);
    const uint64_t done = channel_.mark();
    if (!desc.async && desc.verb != Verb::Barrier)
      return backend().wait_on_device(device, desc.stream, device, channel_.stream(), done);
    Wait looks(*members_.job, desc);
    for (double next_look = now() + 0.02; !backend().passed(device, channel_.stream(), done);) {
      if (now() > next_look) {
        looks.look();
        next_look = now() + 0.02;
      }
      usleep(20);
    }
    if (members_.job->failed()) raise(members_.job->failure(), desc);
  } catch (...) {
    channel_.abort();  // what waits on the device would wait for ever
    throw;
  }
}

// Ends what the GPU waits for. On any thread.
void NcclTransport::abort() {
  channel_.abort();
  if (post_) post_->abort();
}

NcclTransport::~NcclTransport() {
  std::vector<Channel*> channels;
  if (post_) channels = post_->channels();
  if (channel_.met()) channels.push_back(&channel_);
  if (word_) cuda::context_of(channel_.device()).memory->release(word_, 8, channel_.stream());
  close_all(*members_.job, channels);
  members_.job->remove_listener(listener_);
}

}  // namespace

std::unique_ptr<Transport> make_nccl_over(const Members& members, std::unique_ptr<Transport> host) {
  cuda::nccl_library();
  return std::make_unique<NcclTransport>(members, std::move(host));
}

TYCHO_MODULE_EXPORT std::unique_ptr<Transport> tycho_make_nccl(const Members& members) {
  return make_nccl_over(members, members.size() > 1 ? make_host_transport(members) : nullptr);
}

}  // namespace tycho::dist
