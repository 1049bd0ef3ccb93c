// Open MPI as a transport, for clusters whose networks it knows better than sockets do. Collectives
// are MPI's own, begun and then looked after, so that waiting can end; messages are letters over a
// mesh of MPI's messages. A module: the program starts without libmpi.
//
// MPI knows no survivors: mpirun ends all ranks when one dies.
#include <dlfcn.h>
#define OMPI_SKIP_MPICXX 1  // its C++ is another library
#include <mpi.h>
#include <sched.h>

#include <cstring>
#include <deque>

#include "engine/base/module.h"
#include "engine/cpu/reduce/ranks.h"
#include "engine/dist/letters.h"
#include "engine/dist/socket.h"

namespace tycho::dist {
namespace {

// All calls of MPI: it need not be ready for several threads at once.
std::mutex mpi_mutex;
std::atomic<bool> broken{false};  // MPI's requests have been abandoned: it is not called any more

void check(int error, const char* what) {
  if (error == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int n = 0;
  MPI_Error_string(error, text, &n);
  throw MeshError(std::string(what) + ": " + std::string(text, static_cast<size_t>(n)));
}

void finalize() {
  if (!broken) MPI_Finalize();
}

// Once in a process, for all groups.
void start_mpi(const Job& job) {
  const std::lock_guard lock(mpi_mutex);
  int running = 0;
  MPI_Initialized(&running);
  if (!running) {
    if (!std::getenv("OMPI_COMM_WORLD_SIZE"))
      throw DistError({Reason::System, {}, "backend \"mpi\" is for ranks that mpirun has started"},
                      "mpirun -n 2 tycho FILE.lua");
    // MPI opens parts of its own, which want to see it.
    dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    int level = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    if (level < MPI_THREAD_SERIALIZED)
      throw DistError({Reason::System, {}, "this MPI can only be called by one thread"});
    std::atexit(finalize);
  }
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != job.env().rank || size != job.env().world_size)
    throw DistError(
        {Reason::System,
         {job.env().rank},
         format("this process is rank %d of %d for mpirun, but rank %d of %d of the job: "
                "leave RANK and WORLD_SIZE to mpirun",
                rank, size, job.env().rank, job.env().world_size)});
}

// Nearly at once for short things, without burning a core for long ones.
class Patience {
 public:
  void wait() {
    ++turns_;
    if (turns_ < 100) return;
    if (turns_ < 2000) {
      sched_yield();
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(turns_ < 4000 ? 50 : 500));
  }

 private:
  int turns_ = 0;
};

// So many bytes as a type of which there is one: MPI counts with 32 bits.
class Bytes {
 public:
  explicit Bytes(size_t bytes) {
    constexpr size_t kBlock = size_t{1} << 20;
    const int lengths[] = {static_cast<int>(bytes / kBlock), static_cast<int>(bytes % kBlock)};
    const MPI_Aint at[] = {0, static_cast<MPI_Aint>(bytes - bytes % kBlock)};
    MPI_Datatype block;
    MPI_Type_contiguous(kBlock, MPI_BYTE, &block);
    const MPI_Datatype types[] = {block, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, at, types, &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&block);
  }
  ~Bytes() { MPI_Type_free(&type_); }
  Bytes(const Bytes&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_;
};

class MpiMesh final : public Mesh {
 public:
  class MpiBuffer final : public Buffer {
   public:
    MpiBuffer(MpiMesh& mesh, void* p) : mesh_(mesh), p_(static_cast<char*>(p)) {}
    ~MpiBuffer() override {
      const std::lock_guard lock(mpi_mutex);
      if (broken) return;
      for (auto* all : {&sends_, &receives_})
        for (MPI_Request& r : *all) {
          int done = 0;
          MPI_Test(&r, &done, MPI_STATUS_IGNORE);
          if (done) continue;
          if (all == &receives_) MPI_Cancel(&r);
          MPI_Request_free(&r);
        }
    }
    void send(int to, uint64_t slot, size_t offset, size_t bytes) override {
      const std::lock_guard lock(mpi_mutex);
      const Bytes type(bytes);
      sends_.emplace_back();
      check(MPI_Isend(p_ + offset, 1, type.get(), to, tag(slot), mesh_.messages, &sends_.back()),
            "MPI_Isend");
    }
    void receive(int from, uint64_t slot, size_t offset, size_t bytes) override {
      const std::lock_guard lock(mpi_mutex);
      const Bytes type(bytes);
      receives_.emplace_back();
      check(
          MPI_Irecv(p_ + offset, 1, type.get(), from, tag(slot), mesh_.messages, &receives_.back()),
          "MPI_Irecv");
    }
    void receive_any(uint64_t slot, size_t offset, size_t bytes) override {
      receive(MPI_ANY_SOURCE, slot, offset, bytes);
    }
    bool wait_sent() override { return wait(sends_, nullptr); }
    bool wait_received(int* from) override { return wait(receives_, from); }
    void stop() override { stop_ = true; }

   private:
    // Letters have the highest bit; of those on their way together, numbers differ.
    static int tag(uint64_t slot) {
      return slot >> 63 ? 16 + static_cast<int>(slot % 16384) : static_cast<int>(slot % 16);
    }
    bool wait(std::deque<MPI_Request>& all, int* from) {
      for (Patience patience; !stop_.exchange(false); patience.wait()) {
        const std::lock_guard lock(mpi_mutex);
        if (broken) throw MeshError("MPI has been abandoned");
        int done = 0;
        MPI_Status status;
        check(MPI_Test(&all.front(), &done, &status), "MPI_Test");
        if (!done) continue;
        all.pop_front();
        if (from) *from = status.MPI_SOURCE;
        return true;
      }
      return false;
    }
    MpiMesh& mesh_;
    char* const p_;
    std::deque<MPI_Request> sends_, receives_;
    std::atomic<bool> stop_{false};
  };

  explicit MpiMesh(const Members& members) : members_(members) {}
  ~MpiMesh() override {
    const std::lock_guard lock(mpi_mutex);
    if (broken || !connected_) return;
    MPI_Comm_free(&messages);
    MPI_Comm_free(&collectives);
  }
  std::string addresses() const override { return {}; }
  size_t address_bytes() const override { return 0; }
  // All members are there when the first one is to be connected.
  void connect(int, const std::string&) override {
    const std::lock_guard lock(mpi_mutex);
    if (std::exchange(connected_, true)) return;
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, members_.size(), members_.ranks.data(), &group);
    const int tag = static_cast<int>(members_.id & 0x7fff);
    check(MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &collectives), "MPI_Comm_create_group");
    check(MPI_Comm_dup(collectives, &messages), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(collectives, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(messages, MPI_ERRORS_RETURN);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
  }
  std::unique_ptr<Buffer> buffer(void* p, size_t) override {
    return std::make_unique<MpiBuffer>(*this, p);
  }
  void close() override { broken = true; }

  MPI_Comm collectives = MPI_COMM_NULL, messages = MPI_COMM_NULL;

 private:
  const Members& members_;
  bool connected_ = false;
};

// What MPI's own operations do otherwise, or not at all: both half types, and nan in the smallest and
// largest.
template <DType T, RedOp R>
void fold(void* in, void* inout, int* n, MPI_Datatype*) {
  const void* both[] = {in, inout};
  cpu::level_of::fold_ranks(inout, both, 2, static_cast<int64_t>(*n), static_cast<int>(T),
                            static_cast<int>(R), 1.0);
}

struct OwnOp {
  DType dtype;
  RedOp red;
  MPI_User_function* fold;
};
#define OWN(T, R) \
  { DType::T, RedOp::R, fold<DType::T, RedOp::R> }
constexpr OwnOp kOwnOps[] = {OWN(Float16, Sum),  OWN(Float16, Product), OWN(Float16, Min),
                             OWN(Float16, Max),  OWN(BFloat16, Sum),    OWN(BFloat16, Product),
                             OWN(BFloat16, Min), OWN(BFloat16, Max),    OWN(Float32, Min),
                             OWN(Float32, Max),  OWN(Float64, Min),     OWN(Float64, Max)};
#undef OWN

MPI_Op op_of(DType t, RedOp red) {
  if (red == RedOp::Avg) red = RedOp::Sum;
  static MPI_Op own[std::size(kOwnOps)] = {};
  for (size_t i = 0; i < std::size(kOwnOps); ++i) {
    if (kOwnOps[i].dtype != t || kOwnOps[i].red != red) continue;
    if (!own[i]) MPI_Op_create(kOwnOps[i].fold, 1, &own[i]);
    return own[i];
  }
  // Of booleans, a sum is "or", a product "and".
  const MPI_Op of_bools[] = {MPI_BOR, MPI_BOR,  MPI_BAND, MPI_BAND,
                             MPI_BOR, MPI_BAND, MPI_BOR,  MPI_BXOR};
  const MPI_Op ops[] = {MPI_SUM, MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR};
  return (t == DType::Bool ? of_bools : ops)[static_cast<int>(red)];
}

MPI_Datatype type_of(DType t) {
  static MPI_Datatype half = MPI_DATATYPE_NULL;
  if (dtype_size(t) == 2 && is_floating(t)) {
    if (half == MPI_DATATYPE_NULL) {
      MPI_Type_contiguous(2, MPI_BYTE, &half);
      MPI_Type_commit(&half);
    }
    return half;
  }
  const MPI_Datatype types[] = {MPI_UINT8_T, MPI_UINT8_T, MPI_INT8_T, MPI_INT16_T, MPI_INT32_T,
                                MPI_INT64_T, half,        half,       MPI_FLOAT,   MPI_DOUBLE};
  return types[static_cast<int>(t)];
}

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(const Members& members) : members_(members) {
    start_mpi(*members.job);
    courier_ = std::make_unique<Courier>(members_, [this](int, int, const char*) {
      auto mesh = std::make_unique<MpiMesh>(members_);
      mesh_ = mesh.get();
      return mesh;
    });
    listener_ = members_.job->on_failure([this](const Failure&) { wake(); });
  }
  ~MpiTransport() override { members_.job->remove_listener(listener_); }

  const char* name() const override { return "mpi"; }
  bool agrees() const override { return false; }
  bool takes(Device device) const override { return device.is_cpu(); }
  void run(const Desc& desc, Span in, Span out) override;
  void start_message(Message& m) override {
    std::call_once(first_message_, [&] { letters_ = std::make_unique<Letters>(*courier_); });
    letters_->start(m);
  }
  bool poll_messages(const std::vector<Message*>& open) override {
    return letters_ && letters_->poll(open);
  }
  void wait_for_messages(Seconds at_most) override {
    if (letters_) letters_->wait(at_most);
  }
  void wake() override { courier_->wake(); }

 private:
  void begin(const Desc& desc, Span in, Span out, MPI_Request* request);
  void finish(const Desc& desc, MPI_Request& request);

  const Members members_;
  MpiMesh* mesh_ = nullptr;
  std::unique_ptr<Courier> courier_;
  std::once_flag first_message_;
  std::unique_ptr<Letters> letters_;
  int listener_ = -1;
  std::vector<int> counts_[4];
};

void MpiTransport::begin(const Desc& desc, Span in, Span out, MPI_Request* request) {
  const MPI_Comm comm = mesh_->collectives;
  const MPI_Datatype type = type_of(desc.dtype);
  const MPI_Op op = op_of(desc.dtype, desc.red);
  const int n = static_cast<int>(in.n), m = static_cast<int>(out.n), root = desc.root;
  const bool is_root = root == members_.rank;
  // MPI wants to be told when the two are one.
  const int64_t own = members_.rank * dtype_size(desc.dtype);
  const auto inside = [&](const Span& part, const Span& whole) {
    return part.p == static_cast<char*>(whole.p) + own * part.n;
  };
  const void* const from = in.p == out.p ? MPI_IN_PLACE : in.p;
  switch (desc.verb) {
    case Verb::AllReduce:
      return check(MPI_Iallreduce(from, out.p, n, type, op, comm, request), "MPI_Iallreduce");
    case Verb::Broadcast:
      return check(MPI_Ibcast(is_root ? in.p : out.p, is_root ? n : m, type, root, comm, request),
                   "MPI_Ibcast");
    case Verb::Reduce:
      return check(MPI_Ireduce(is_root ? from : in.p, out.p, n, type, op, root, comm, request),
                   "MPI_Ireduce");
    case Verb::AllGather:
      return check(MPI_Iallgather(inside(in, out) ? MPI_IN_PLACE : in.p, n, type, out.p, n, type,
                                  comm, request),
                   "MPI_Iallgather");
    case Verb::ReduceScatter:
      return check(MPI_Ireduce_scatter_block(in.p, out.p, m, type, op, comm, request),
                   "MPI_Ireduce_scatter_block");
    case Verb::Gather:
      return check(MPI_Igather(is_root && inside(in, out) ? MPI_IN_PLACE : in.p, n, type, out.p, n,
                               type, root, comm, request),
                   "MPI_Igather");
    case Verb::Scatter:
      return check(MPI_Iscatter(in.p, m, type, is_root && inside(out, in) ? MPI_IN_PLACE : out.p, m,
                                type, root, comm, request),
                   "MPI_Iscatter");
    case Verb::AllToAll: {
      const int k = members_.size();
      if (desc.send.empty())
        return check(MPI_Ialltoall(in.p, n / k, type, out.p, n / k, type, comm, request),
                     "MPI_Ialltoall");
      const std::vector<int64_t>* asked[] = {&desc.send, &desc.receive};
      for (int i = 0; i < 2; ++i) {
        counts_[i].assign(asked[i]->begin(), asked[i]->end());
        counts_[i + 2].assign(static_cast<size_t>(k), 0);
        for (size_t r = 1; r < static_cast<size_t>(k); ++r)
          counts_[i + 2][r] = counts_[i + 2][r - 1] + counts_[i][r - 1];
      }
      return check(MPI_Ialltoallv(in.p, counts_[0].data(), counts_[2].data(), type, out.p,
                                  counts_[1].data(), counts_[3].data(), type, comm, request),
                   "MPI_Ialltoallv");
    }
    case Verb::Barrier:
      return check(MPI_Ibarrier(comm, request), "MPI_Ibarrier");
  }
}

void MpiTransport::finish(const Desc& desc, MPI_Request& request) {
  Wait looks(*members_.job, desc);
  double next_look = now() + 0.02;
  for (Patience patience;; patience.wait()) {
    {
      const std::lock_guard lock(mpi_mutex);
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done) return;
    }
    if (!members_.job->failed() && now() < next_look) continue;
    looks.look();
    next_look = now() + 0.02;
  }
}

void MpiTransport::run(const Desc& desc, Span in, Span out) {
  courier_->check(desc);
  if (in.n > INT_MAX || out.n > INT_MAX)
    fail(Kind::Value,
         format("MPI moves at most %d elements at a time, and these are %lld", INT_MAX,
                static_cast<long long>(std::max(in.n, out.n))),
         "call it for pieces, or use backend \"gloo\"");
  try {
    if (desc.verb == Verb::Broadcast && members_.rank == desc.root && in.p != out.p && in.n > 0)
      std::memcpy(out.p, in.p, static_cast<size_t>(in.bytes()));
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const std::lock_guard lock(mpi_mutex);
      begin(desc, in, out, &request);
    }
    finish(desc, request);
  } catch (const MeshError& e) {
    courier_->close(e.what());
    const int me = members_.job->env().rank;
    members_.job->report({Reason::System, {me}, format("rank %d: %s", me, e.what())});
    raise(members_.job->failure(), desc);
  } catch (const DistError& e) {
    courier_->close(e.text);
    throw;
  } catch (...) {
    courier_->close("a collective was interrupted");
    throw;
  }
  if (desc.red != RedOp::Avg || out.n == 0) return;
  const bool has = desc.verb == Verb::AllReduce || desc.verb == Verb::ReduceScatter ||
                   (desc.verb == Verb::Reduce && members_.rank == desc.root);
  const void* const sums[] = {out.p};
  if (has)
    cpu::level_of::fold_ranks(out.p, sums, 1, out.n, static_cast<int>(desc.dtype),
                              static_cast<int>(RedOp::Avg), static_cast<double>(members_.size()));
}

}  // namespace

TYCHO_MODULE_EXPORT std::unique_ptr<Transport> tycho_make_mpi(const Members& members) {
  return std::make_unique<MpiTransport>(members);
}

}  // namespace tycho::dist
