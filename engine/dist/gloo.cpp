// Gloo between hosts: a mesh of all members, rings over it, and where several members share a host,
// shared memory there and a ring of one leader per host.
#include "engine/dist/gloo.h"

#include <algorithm>
#include <cstring>

#include "engine/base/module.h"
#include "engine/dist/letters.h"
#include "engine/dist/rings.h"

namespace tycho::dist {
namespace {

MakeMesh* gloo() {
  std::string why;
  const auto make = reinterpret_cast<MakeMesh*>(module_symbol("gloo", "tycho_make_mesh", &why));
  if (!make) throw DistError({Reason::System, {}, "ranks on several machines need Gloo: " + why});
  return make;
}

// Members by host, in the order of each host's first one.
std::vector<std::vector<int>> hosts_of(const Members& m) {
  std::vector<std::vector<int>> hosts;
  std::vector<std::string> names;
  for (int k = 0; k < m.size(); ++k) {
    const std::string& name = m.job->peer(m.ranks[static_cast<size_t>(k)]).machine;
    const auto at =
        static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size()) {
      names.push_back(name);
      hosts.emplace_back();
    }
    hosts[at].push_back(k);
  }
  return hosts;
}

int index_of(const std::vector<int>& v, int x) {
  const auto it = std::find(v.begin(), v.end(), x);
  return it == v.end() ? -1 : static_cast<int>(it - v.begin());
}

class GlooTransport final : public Transport {
 public:
  GlooTransport(const Members& members, bool flat) : members_(members), courier_(members, gloo()) {
    std::vector<std::vector<int>> hosts = hosts_of(members);
    if (!flat && hosts.size() < members.ranks.size()) split(hosts);
    for (int k = 0; k < members.size(); ++k) all_.members.push_back(k);
    all_.me = members.rank;
    listener_ = members.job->on_failure([this](const Failure&) { wake(); });
  }
  ~GlooTransport() override {
    members_.job->remove_listener(listener_);
    letters_.reset();
  }

  const char* name() const override { return "gloo"; }
  bool agrees() const override { return false; }
  bool takes(Device device) const override { return device.is_cpu(); }
  void run(const Desc& desc, Span in, Span out) override {
    try {
      courier_.check(desc);
      if (two_levels_)
        run_by_host(desc, in, out);
      else
        run_flat(desc, in, out);
    } catch (const std::exception& e) {
      courier_.close(e.what());
      throw;
    }
  }

  void start_message(Message& m) override {
    std::call_once(first_message_, [&] { letters_ = std::make_unique<Letters>(courier_); });
    letters_->start(m);
  }
  bool poll_messages(const std::vector<Message*>& open) override {
    return letters_ && letters_->poll(open);
  }
  void wait_for_messages(Seconds at_most) override {
    if (letters_) letters_->wait(at_most);
  }
  void wake() override {
    courier_.wake();
    if (local_) local_->wake();
  }

 private:
  void split(const std::vector<std::vector<int>>& hosts);
  void run_flat(const Desc& desc, Span in, Span out);
  void run_by_host(const Desc& desc, Span in, Span out);
  void run_local(const Desc& desc, Verb verb, RedOp red, int root, Span in, Span out);
  void permute(Span to, Span from, bool by_host) const;
  bool leads() const { return leaders_.me >= 0; }

  const Members members_;
  Courier courier_;
  Circle all_;
  bool two_levels_ = false;
  std::unique_ptr<Transport> local_;  // null: alone on its host
  std::vector<std::vector<int>> hosts_;
  std::vector<int64_t> host_sizes_;
  bool by_host_ = true;  // members of one host follow each other
  Circle leaders_;       // me: -1 if this member is none
  int host_ = 0;         // this one's
  uint32_t local_seq_ = 0;
  std::vector<char> room_, other_room_;
  std::once_flag first_message_;
  std::unique_ptr<Letters> letters_;
  int listener_ = -1;
};

void GlooTransport::split(const std::vector<std::vector<int>>& hosts) {
  two_levels_ = true;
  hosts_ = hosts;
  int next = 0;
  for (const auto& host : hosts) {
    leaders_.members.push_back(host[0]);
    host_sizes_.push_back(static_cast<int64_t>(host.size()));
    for (const int k : host) by_host_ &= k == next++;
    if (index_of(host, members_.rank) >= 0) host_ = static_cast<int>(leaders_.members.size()) - 1;
  }
  leaders_.me = index_of(leaders_.members, members_.rank);
  const std::vector<int>& here = hosts_[static_cast<size_t>(host_)];
  if (here.size() == 1) return;
  Members local = members_;
  local.ranks.clear();
  for (const int k : here) local.ranks.push_back(members_.ranks[static_cast<size_t>(k)]);
  local.rank = index_of(here, members_.rank);
  local.store = prefix_store("host" + std::to_string(host_) + "/", members_.store);
  local_ = make_shm(local);
}

void GlooTransport::run_flat(const Desc& desc, Span in, Span out) {
  Rings rings(courier_, all_, desc, members_.size());
  switch (desc.verb) {
    case Verb::AllReduce:
      return rings.all_reduce(in, out);
    case Verb::Broadcast:
      if (members_.rank == desc.root && in.p != out.p && in.n > 0)
        copy_bytes(out.p, in.p, static_cast<size_t>(in.bytes()));
      return rings.broadcast(out, desc.root);
    case Verb::Reduce:
      return rings.reduce(in, out, desc.root);
    case Verb::AllGather:
      return rings.all_gather(in, out);
    case Verb::ReduceScatter:
      return rings.reduce_scatter(in, out);
    case Verb::AllToAll:
      return rings.all_to_all(in, out);
    case Verb::Gather:
      return rings.gather(in, out, desc.root);
    case Verb::Scatter:
      return rings.scatter(in, out, desc.root);
    case Verb::Barrier:
      return rings.barrier();
  }
}

void GlooTransport::run_local(const Desc& desc, Verb verb, RedOp red, int root, Span in, Span out) {
  if (!local_) {
    if (in.p != out.p && in.n > 0) copy_bytes(out.p, in.p, static_cast<size_t>(in.bytes()));
    return;
  }
  Desc d = desc;
  d.verb = verb;
  d.red = red;
  d.root = root;
  d.seq = ++local_seq_;
  local_->run(d, in, out);
}

// The members' equal parts, from the group's order into that of the hosts, or back.
void GlooTransport::permute(Span to, Span from, bool by_host) const {
  const int64_t part = to.bytes() / members_.size();
  int64_t next = 0;
  for (const auto& host : hosts_)
    for (const int k : host) {
      const int64_t at = part * next++;
      copy_bytes(static_cast<char*>(to.p) + (by_host ? at : part * k),
                 static_cast<char*>(from.p) + (by_host ? part * k : at), static_cast<size_t>(part));
    }
}

// What gets smaller in a host's memory goes through it first: sums, and what all of a host's
// members want. The rest has as many bytes to carry from host to host either way.
void GlooTransport::run_by_host(const Desc& desc, Span in, Span out) {
  const RedOp sum = desc.red == RedOp::Avg ? RedOp::Sum : desc.red;
  const bool parted = desc.verb == Verb::AllGather || desc.verb == Verb::ReduceScatter;
  Rings rings(courier_, leaders_, desc, members_.size(),
              parted ? host_sizes_ : std::vector<int64_t>{});
  int root_host = 0, root_here = 0;  // the root's host, and its place there
  for (size_t h = 0; desc.root >= 0 && h < hosts_.size(); ++h) {
    const int at = index_of(hosts_[h], desc.root);
    if (at < 0) continue;
    root_host = static_cast<int>(h);
    root_here = at;
  }
  const bool with_root = root_host == host_, is_root = desc.root == members_.rank;
  const auto room = [](std::vector<char>& room, Span like) {
    room.resize(static_cast<size_t>(like.bytes()));
    return Span{room.data(), like.n, like.t, {}};
  };
  // This host's members' part of what is in the order of the hosts.
  const auto of_host = [&](Span all, int64_t part) {
    int64_t before = 0;
    for (int h = 0; h < host_; ++h) before += host_sizes_[static_cast<size_t>(h)];
    all.p = static_cast<char*>(all.p) + before * part * dtype_size(all.t);
    all.n = part * host_sizes_[static_cast<size_t>(host_)];
    return all;
  };
  switch (desc.verb) {
    case Verb::AllReduce:
      run_local(desc, Verb::Reduce, sum, 0, in, leads() ? out : Span{});
      if (leads()) rings.all_reduce(out, out);
      return run_local(desc, Verb::Broadcast, sum, 0, out, out);
    case Verb::Barrier:
      run_local(desc, Verb::Barrier, sum, -1, {}, {});
      if (leads()) rings.barrier();
      return run_local(desc, Verb::Barrier, sum, -1, {}, {});
    case Verb::Broadcast:
      if (with_root) run_local(desc, Verb::Broadcast, sum, root_here, in, out);
      if (leads()) rings.broadcast(out, root_host);
      if (!with_root) run_local(desc, Verb::Broadcast, sum, 0, out, out);
      return;
    case Verb::Reduce: {
      // To the leaders, then to the root's leader, then to the root.
      const Span part = leads() ? room(room_, in) : in;
      run_local(desc, Verb::Reduce, sum, 0, in, leads() ? part : Span{});
      if (leads()) rings.reduce(part, with_root ? part : Span{}, root_host);
      if (!with_root) return;
      const Span all = leads() ? part : is_root ? out : room(room_, in);
      if (root_here == 0) {
        if (is_root && all.n > 0) copy_bytes(out.p, all.p, static_cast<size_t>(all.bytes()));
        return;
      }
      return run_local(desc, Verb::Broadcast, sum, 0, all, all);
    }
    case Verb::AllGather: {
      const Span all = !leads() ? Span{} : by_host_ ? out : room(room_, out);
      run_local(desc, Verb::Gather, sum, 0, in, leads() ? of_host(all, in.n) : Span{});
      if (leads()) rings.all_gather(all);
      if (leads() && !by_host_) permute(out, all, false);
      return run_local(desc, Verb::Broadcast, sum, 0, out, out);
    }
    case Verb::ReduceScatter: {
      Span all = leads() ? room(room_, in) : Span{};
      run_local(desc, Verb::Reduce, sum, 0, in, all);
      if (leads() && !by_host_) {
        const Span ordered = room(other_room_, in);
        permute(ordered, all, true);
        all = ordered;
      }
      const Span mine = leads() ? of_host(all, out.n) : Span{};
      if (leads()) rings.reduce_scatter(all, mine);
      return run_local(desc, Verb::Scatter, sum, 0, mine, out);
    }
    default:
      return run_flat(desc, in, out);
  }
}

}  // namespace

std::unique_ptr<Transport> make_gloo(const Members& members) {
  return std::make_unique<GlooTransport>(members, false);
}

std::unique_ptr<Transport> make_flat_gloo(const Members& members) {
  return std::make_unique<GlooTransport>(members, true);
}

}  // namespace tycho::dist
