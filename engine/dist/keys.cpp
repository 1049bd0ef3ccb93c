// Requests for keys.
#include "engine/dist/keys.h"

#include <charconv>

namespace tycho::dist {

void Keys::changed(const std::string& key) {
  const auto it = waiting_.find(key);
  if (it == waiting_.end()) return;
  const std::vector<Waiter> list = std::move(it->second);
  waiting_.erase(it);
  for (const Waiter& w : list)
    out_.send(w.who, reply(w.request, Answer::Ok).raw(values_[key].data(), values_[key].size()));
}

void Keys::handle(ConnId from, Msg msg, Reader body) {
  const uint32_t request = body.u32();
  const auto answer = [&](std::string_view value) {
    out_.send(from, reply(request, Answer::Ok).raw(value.data(), value.size()));
  };
  const auto missing = [&] {
    Writer w = reply(request, Answer::Missing);
    out_.send(from, w);
  };
  if (msg == Msg::NumKeys) return answer(std::to_string(values_.size()));
  if (msg == Msg::Cancel) {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      std::erase_if(it->second,
                    [&](const Waiter& w) { return w.who == from && w.request == request; });
      it = it->second.empty() ? waiting_.erase(it) : std::next(it);
    }
    return;
  }
  const std::string key = body.string();
  const auto it = values_.find(key);
  switch (msg) {
    case Msg::Set:
      values_[key] = body.string();
      answer({});
      return changed(key);
    case Msg::Get:
      if (it != values_.end()) return answer(it->second);
      waiting_[key].push_back({from, request});
      return;
    case Msg::TryGet:
      return it != values_.end() ? answer(it->second) : missing();
    case Msg::Add: {
      int64_t n = 0;
      if (it != values_.end()) {
        const std::string& s = it->second;
        const auto [end, e] = std::from_chars(s.data(), s.data() + s.size(), n);
        if (e != std::errc() || end != s.data() + s.size()) return missing();
      }
      const std::string sum =
          std::to_string(static_cast<int64_t>(static_cast<uint64_t>(n) + body.u64()));
      values_[key] = sum;
      answer(sum);
      return changed(key);
    }
    case Msg::Append:
      values_[key] += body.string();
      answer({});
      return changed(key);
    case Msg::CompareSet: {
      const std::string expected = body.string(), desired = body.string();
      // PyTorch's rule: a missing key is set when nothing is expected, else the caller gets back
      // what it expected.
      if (it == values_.end() && !expected.empty()) return answer(expected);
      if (it != values_.end() && it->second != expected) return answer(it->second);
      values_[key] = desired;
      answer(desired);
      return changed(key);
    }
    case Msg::Delete:
      return answer(values_.erase(key) ? "1" : "0");
    default:
      throw BadFrame{};
  }
}

void Keys::gone(ConnId who) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    std::erase_if(it->second, [&](const Waiter& w) { return w.who == who; });
    it = it->second.empty() ? waiting_.erase(it) : std::next(it);
  }
}

}  // namespace tycho::dist
