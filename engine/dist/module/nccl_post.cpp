// Offers, answers, and giving messages to NCCL.
#include "engine/dist/module/nccl_post.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "engine/tensor/graph.h"

namespace tycho::dist {
namespace {

constexpr int kAnswers = INT_MIN;  // the tag of what answers offers

void put(char* to, size_t room, const std::string& text) {
  const size_t n = std::min(text.size(), room - 1);
  copy_bytes(to, text.data(), n);
  to[n] = 0;
}

Desc desc_of(const Transport::Message& m) {
  Desc d;
  d.line = m.line;
  return d;
}

std::string described(int64_t n, DType t, const std::string& line) {
  return format("%lld elements of %s%s%s", static_cast<long long>(n), dtype_name(t),
                line.empty() ? "" : " at ", line.c_str());
}

}  // namespace

void NcclPost::issue(Message& m) {
  const Device d = m.span.d;
  TYCHO_CHECK(Kind::Value, m.tag != kAnswers, "tag %d is not for messages", m.tag);
  if (d.is_cpu()) return;
  TYCHO_CHECK(Kind::Device, device_.is_cpu() || device_ == d,
              "this rank's messages began with tensors on %s, and this one is on %s: a group of "
              "NCCL has one device for each rank",
              device_name(device_).c_str(), device_name(d).c_str());
  not_while_capturing(d, "a message of NCCL");
  device_ = d;
  m.stream = current_stream(d);
  m.mark = backend_of(d).mark(d, m.stream);
}

// Bytes that the host carries as a message like another one.
void NcclPost::carry(Message& m, Message like, void* p, size_t bytes) {
  m = like;
  m.span = {p, static_cast<int64_t>(bytes), DType::UInt8, {}};
  m.moved = 0;
  m.done = false;
  hosted_.push_back(&m);
  host_.start_message(m);
}

void NcclPost::start(Message& m) {
  if (m.span.d.is_cpu()) {
    hosted_.push_back(&m);
    return host_.start_message(m);
  }
  Parcel& p = *parcels_.emplace_back(std::make_unique<Parcel>());
  p.message = &m;
  if (m.send) {
    p.offer.id = ++offers_;
    p.offer.n = m.span.n;
    p.offer.dtype = m.span.t;
    put(p.offer.gpu, sizeof p.offer.gpu, gpu_of(m.span.d));
    put(p.offer.line, sizeof p.offer.line, to_string(m.line));
    ++peers_[m.peer].unanswered;
    listen(m.peer);
  }
  carry(p.offering, m, &p.offer, sizeof p.offer);
}

// One answer at a time is waited for; they come in the order in which they were given.
void NcclPost::listen(int number) {
  Peer& peer = peers_[number];
  if (peer.listens || peer.unanswered == 0) return;
  peer.listens = true;
  Message m;
  m.peer = number;
  m.tag = kAnswers;
  carry(peer.hearing, m, &peer.heard, sizeof peer.heard);
}

bool NcclPost::hear() {
  bool some = false;
  for (auto& [number, peer] : peers_) {
    if (!peer.listens || !peer.hearing.done) continue;
    some = true;
    peer.listens = false;
    --peer.unanswered;
    const Answer answer = peer.heard;
    const auto it = std::find_if(parcels_.begin(), parcels_.end(), [&](const auto& p) {
      return p->message->send && p->offer.id == answer.id;
    });
    if (it == parcels_.end()) continue;
    if (answer.refused != Reason::None)
      throw DistError({answer.refused, {answer.first, answer.second}, answer.text});
    enter(**it, answer.begins ? &answer.name : nullptr);
    listen(number);
  }
  return some;
}

// Of a receive whose offer has come: answers it.
bool NcclPost::take_offer(Parcel& p) {
  Message& m = *p.message;
  p.offered = true;
  m.peer = p.offering.peer;
  const int from = world_rank(m.peer), me = world_rank(members_.rank);
  p.answer.id = p.offer.id;
  Job& job = *members_.job;
  const std::string gpu = gpu_of(m.span.d);
  if (p.offer.n != m.span.n || p.offer.dtype != m.span.t) {
    refuse(p, DistError({Reason::Disagree,
                         {from, me},
                         format("ranks disagree in a message; r%d sends %s, r%d expects %s", from,
                                described(p.offer.n, p.offer.dtype, p.offer.line).c_str(), me,
                                described(m.span.n, m.span.t, to_string(m.line)).c_str())}));
  } else if (gpu == p.offer.gpu && job.peer(from).machine == job.peer(me).machine) {
    refuse(p, one_gpu({std::min(from, me), std::max(from, me)}, gpu));
  } else {
    const bool begins = m.span.n > 0 && !lanes_.contains({m.peer, false});
    if (begins) p.answer.name = new_nccl_id(job);
    p.answer.begins = begins;
    enter(p, begins ? &p.answer.name : nullptr);
  }
  Message like = m;
  like.send = true;
  like.tag = kAnswers;
  carry(p.answering, like, &p.answer, sizeof p.answer);
  return true;
}

void NcclPost::refuse(Parcel& p, const DistError& e) {
  p.answer.refused = e.reason;
  p.answer.first = e.ranks[0];
  p.answer.second = e.ranks[1];
  put(p.answer.text, sizeof p.answer.text, e.text);
}

// Both sides agree: the message stands behind those of its direction that were answered before.
void NcclPost::enter(Parcel& p, const cuda::nccl::Id* name) {
  Message& m = *p.message;
  p.moves = m.span.n > 0;
  if (!p.moves) {
    p.over = true;
    return;
  }
  Lane* lane;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Lane>& at = lanes_[{m.peer, m.send}];
    if (!at) at = std::make_unique<Lane>(*members_.job);
    lane = at.get();
    if (aborted_) lane->channel.abort();
  }
  if (name) {
    lane->channel.meet(m.span.d, *name, 2, m.send ? 0 : 1, desc_of(m));
    lane->busy = true;
  }
  lane->parcels.push_back(&p);
}

bool NcclPost::advance(Lane& lane) {
  if (lane.parcels.empty() && !lane.busy) return false;
  static const Desc none;
  Channel& channel = lane.channel;
  if (lane.busy) {
    if (!channel.taken("a message", none)) return false;
    lane.busy = false;
    if (lane.asked) {
      Parcel& p = *lane.parcels.front();
      lane.parcels.pop_front();
      lane.asked = false;
      Message& m = *p.message;
      m.mark = channel.mark();
      m.stream = channel.stream();
      m.moved = m.span.bytes();
      m.on_stream = p.over = true;
    }
    return true;
  }
  const Message& m = *lane.parcels.front()->message;
  channel.after(m.stream, m.mark);
  channel.ask(m.send ? "send" : "recv", desc_of(m), [&](cuda::nccl::Comm comm, cuda::Stream s) {
    const auto bytes = static_cast<size_t>(m.span.bytes());
    const auto type = cuda::nccl::Type::I8;
    const cuda::Nccl& nccl = cuda::nccl_library();
    return m.send ? nccl.send(m.span.p, bytes, type, 1, comm, s)
                  : nccl.receive(m.span.p, bytes, type, 0, comm, s);
  });
  lane.asked = lane.busy = true;
  return true;
}

// Raises what a message was refused for, when the other side knows.
void NcclPost::end(Parcel& p) {
  if (p.answer.refused == Reason::None) {
    p.message->done = true;
    return;
  }
  throw DistError({p.answer.refused, {p.answer.first, p.answer.second}, p.answer.text});
}

bool NcclPost::poll() {
  bool some = false;
  try {
    some = !hosted_.empty() && host_.poll_messages(hosted_);
  } catch (DistError& e) {
    if (e.reason == Reason::Disagree)
      e.hint = "in a group of NCCL both ends of a message lie on GPUs, or both on the CPU";
    throw;
  }
  std::erase_if(hosted_, [](const Message* m) { return m->done; });
  some |= hear();
  for (size_t i = 0; i < parcels_.size(); ++i) {
    Parcel& p = *parcels_[i];
    if (!p.message->send && !p.offered && p.offering.done) some |= take_offer(p);
  }
  for (auto& [way, lane] : lanes_) some |= advance(*lane);
  std::erase_if(parcels_, [&](const std::unique_ptr<Parcel>& p) {
    const bool told = p->offering.done && (p->message->send || (p->offered && p->answering.done));
    const bool refused = p->answer.refused != Reason::None;
    if (!told || !(p->over || refused)) return false;
    end(*p);
    some = true;
    return true;
  });
  return some;
}

void NcclPost::wait(Seconds at_most) {
  constexpr int kPause = 20;  // us
  for (const auto& [way, lane] : lanes_)
    if (lane->busy) return (void)usleep(kPause);
  host_.wait_for_messages(at_most);
}

void NcclPost::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (const auto& [way, lane] : lanes_) lane->channel.abort();
}

std::vector<Channel*> NcclPost::channels() {
  std::vector<Channel*> all;
  for (const auto& [way, lane] : lanes_)
    if (lane->channel.met()) all.push_back(&lane->channel);
  return all;
}

}  // namespace tycho::dist
