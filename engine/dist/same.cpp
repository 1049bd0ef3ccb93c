// Making ranks equal before they train together: the same things on each, and the same values.
#include <algorithm>
#include <cstring>
#include <map>

#include "engine/dist/reducer.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/read.h"

namespace tycho::dist {
namespace {

constexpr int64_t kPiece = int64_t{250} << 20;  // bytes

Tensor bytes_of(const std::string& text, int64_t room) {
  const Tensor t = filled(Sizes{room}, 0, DType::UInt8);
  copy_bytes(t.host(), text.data(), text.size());
  return t;
}

}  // namespace

void check_same(Group& group, const char* what, const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& t : texts) all += t + "\n";
  const Tensor mine = empty(Sizes{2}, DType::Int64);
  uint64_t hash = 1469598103934665603u;
  for (const char c : all) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  mine.host<int64_t>()[0] = static_cast<int64_t>(hash);
  mine.host<int64_t>()[1] = static_cast<int64_t>(all.size());
  const std::vector<int64_t> heads = items<int64_t>(op<"all_gather">(mine, group.handle()));
  int64_t longest = 0;
  bool same = true;
  for (size_t r = 0; r < heads.size(); r += 2) {
    same = same && heads[r] == heads[0];
    longest = std::max(longest, heads[r + 1]);
  }
  if (same) return;
  const Tensor rows = op<"all_gather">(bytes_of(all, longest), group.handle());
  const auto line_of = [&](int rank, int line) -> std::string {
    const char* p = rows.host() + rank * longest;
    const char* const end = p + heads[2 * rank + 1];
    for (; p < end; --line) {
      const char* stop = std::find(p, end, '\n');
      if (line == 0) return {p, stop};
      p = stop + 1;
    }
    return "nothing";
  };
  const Members& m = group.members();
  for (int line = 0;; ++line) {
    Failure f{Reason::Disagree, {}, format("%s, the first one in number %d:", what, line + 1)};
    for (int r = 0; r < m.size(); ++r) {
      const std::string one = line_of(r, line);
      if (one != line_of(0, line)) f.ranks.push_back(m.ranks[r]);
      f.text += format("\n   r%d  %s", m.ranks[r], one.c_str());
    }
    if (!f.ranks.empty()) throw DistError(std::move(f));
  }
}

void broadcast_all(Group& group, const std::vector<Tensor>& tensors, int root, bool compare) {
  if (group.members().size() == 1) return;
  const NoGrad quiet;
  const AsksFor values("DistributedDataParallel's parameters and buffers");
  const bool giver = group.members().rank == root;
  std::map<std::pair<int, std::string>, std::vector<Tensor>> kinds;
  for (const Tensor& t : tensors)
    if (t.numel()) kinds[{static_cast<int>(t.dtype()), device_name(t.device())}].push_back(t);
  for (auto& [kind, list] : kinds) {
    const int64_t most = std::max<int64_t>(1, kPiece / dtype_size(list[0].dtype()));
    for (size_t from = 0; from < list.size();) {
      size_t to = from;
      int64_t n = 0;
      do n += list[to++].numel();
      while (to < list.size() && n + list[to].numel() <= most);
      const Tensor flat = empty(Sizes{n}, list[from].dtype(), list[from].device());
      int64_t at = 0;
      std::vector<Tensor> places;
      for (size_t i = from; i < to; at += list[i++].numel()) {
        places.push_back(alias(flat, list[i].shape(), row_major(list[i].shape()), at));
        if (giver) copy_raw(places.back(), list[i]);
      }
      for (int64_t done = 0; done < n; done += most)
        op_<"broadcast">(alias(flat, Sizes{std::min(most, n - done)}, Sizes{1}, done), root,
                         group.handle());
      for (size_t i = from; i < to && !giver; ++i) {
        const Tensor& got = places[i - from];
        if (!compare || !item<bool>(op<"equal">(list[i], got))) op_<"copy">(list[i], got);
      }
      from = to;
    }
  }
}

}  // namespace tycho::dist
