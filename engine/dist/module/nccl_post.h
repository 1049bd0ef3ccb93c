// Messages between GPUs. The two ranks agree over the host first: the sender offers what it has, the
// receiver answers when it has asked for that, and only then do both give the message to NCCL, in the
// order of the answers. So a message never keeps a GPU waiting for a rank that is not there, tags and
// "from anybody" mean what they mean on the host, and what does not fit is an error before bytes move.
//
// Each direction between two ranks has a communicator and a stream of its own, made at its first
// message: messages of one direction stay in order, and crossing ones never wait for each other.
#pragma once
#include <deque>
#include <map>

#include "engine/dist/module/nccl_channel.h"
#include "engine/dist/transport.h"

namespace tycho::dist {

class NcclPost {
 public:
  using Message = Transport::Message;
  NcclPost(const Members& members, Transport& host) : members_(members), host_(host) {}

  // As Transport's; messages of the CPU's tensors go to the host's, in the same order.
  void issue(Message& m);
  void start(Message& m);
  bool poll();
  void wait(Seconds at_most);

  void abort();  // on any thread
  std::vector<Channel*> channels();

 private:
  struct Offer {
    uint64_t id = 0;  // counted by the sender
    int64_t n = 0;
    DType dtype = DType::Float32;
    char gpu[32] = {}, line[64] = {};
  };
  struct Answer {
    uint64_t id = 0;  // of the offer
    Reason refused = Reason::None;
    int first = 0, second = 0;  // the ranks that it is refused for
    bool begins = false;        // the direction's first: `name` is where the two meet
    cuda::nccl::Id name{};
    char text[256] = {};  // why it is refused
  };
  // A message and what the host carries for it.
  struct Parcel {
    Message* message;
    Offer offer;
    Answer answer;
    Message offering, answering;
    bool offered = false, moves = false, over = false;
  };
  // One direction between this rank and another.
  struct Lane {
    explicit Lane(Job& job) : channel(job) {}
    Channel channel;
    bool busy = false;   // NCCL has not yet taken what was asked last
    bool asked = false;  // the first one's move
    std::deque<Parcel*> parcels;
  };
  struct Peer {
    Answer heard;  // to this rank's offers
    Message hearing;
    bool listens = false;
    size_t unanswered = 0;
  };

  void carry(Message& m, Message like, void* p, size_t bytes);
  void listen(int peer);
  bool hear();
  bool take_offer(Parcel& p);
  void refuse(Parcel& p, const DistError& e);
  void enter(Parcel& p, const cuda::nccl::Id* name);
  bool advance(Lane& lane);
  void end(Parcel& p);
  int world_rank(int member) const { return members_.ranks[static_cast<size_t>(member)]; }

  const Members& members_;
  Transport& host_;
  Device device_;                 // of this rank's messages
  std::vector<Message*> hosted_;  // on their way over the host, in the order in which they began
  std::deque<std::unique_ptr<Parcel>> parcels_;
  std::map<int, Peer> peers_;
  uint64_t offers_ = 0;
  std::mutex mutex_;                                             // of what follows
  std::map<std::pair<int, bool>, std::unique_ptr<Lane>> lanes_;  // by the other, and whether to it
  bool aborted_ = false;
};

}  // namespace tycho::dist
