// The collectives that only move bytes.
#include <cstring>

#include "engine/dist/rings.h"

namespace tycho::dist {

void Rings::broadcast_tree(Span data, int root) {
  const int v = (me_ - root + n_) % n_;
  const int64_t bytes = data.bytes();
  const auto coming = courier_.buffer(data.p, bytes), leaving = courier_.buffer(data.p, bytes);
  int bit = 1;
  while (bit < n_ && !(v & bit)) bit <<= 1;
  if (v > 0) {
    const int from = circle_.at(v - bit + root);
    receive(*coming, from, kDown, 0, bytes);
    received(*coming, from);
  }
  Sends sends(courier_, looks_, desc_);
  for (bit >>= 1; bit > 0; bit >>= 1)
    if (v + bit < n_) sends.send(*leaving, circle_.at(v + bit + root), slot(kDown), 0, bytes);
  sends.finish();
}

void Rings::broadcast_chain(Span data, int root) {
  const int v = (me_ - root + n_) % n_;
  const int64_t total = pieces(data.bytes());
  const auto coming = courier_.buffer(data.p, data.bytes());
  const auto leaving = courier_.buffer(data.p, data.bytes());
  const int to = circle_.at(me_ + 1), from = circle_.at(me_ - 1);
  const auto post = [&](int64_t t) {
    if (t < total && v > 0) receive(*coming, from, kDown, t * kPiece, piece_bytes(data.bytes(), t));
  };
  Sends sends(courier_, looks_, desc_);
  post(0);
  for (int64_t t = 0; t < total; ++t) {
    post(t + 1);
    if (v > 0) received(*coming, from);
    if (v < n_ - 1) sends.send(*leaving, to, slot(kDown), t * kPiece, piece_bytes(data.bytes(), t));
  }
  sends.finish();
}

void Rings::broadcast(Span data, int root) {
  if (data.n == 0 || n_ == 1) return;
  return data.bytes() <= 4 * kShort ? broadcast_tree(data, root) : broadcast_chain(data, root);
}

void Rings::barrier() {
  char none = 0, token = 0;
  const auto coming = courier_.buffer(&none, 1), leaving = courier_.buffer(&token, 1);
  for (int d = 1; d < n_; d <<= 1) {
    const int from = circle_.at(me_ - d), to = circle_.at(me_ + d);
    receive(*coming, from, kBarrier, 0, 1);
    Sends sends(courier_, looks_, desc_);
    sends.send(*leaving, to, slot(kBarrier), 0, 1);
    received(*coming, from);
    sends.finish();
  }
}

void Rings::all_to_all(Span in, Span out) {
  const int64_t size = dtype_size(in.t);
  const bool split = !desc_.send.empty();
  const auto parts = [&](const std::vector<int64_t>& counts, int64_t even) {
    std::vector<Part> all;
    int64_t at = 0;
    for (int k = 0; k < n_; ++k) {
      const int64_t bytes = size * (split ? counts[static_cast<size_t>(k)] : even);
      all.push_back({at, bytes});
      at += bytes;
    }
    return all;
  };
  const auto give = parts(desc_.send, in.n / n_), take = parts(desc_.receive, out.n / n_);
  const auto me = static_cast<size_t>(me_);
  if (take[me].bytes > 0)
    std::memmove(bytes_of(out) + take[me].at, bytes_of(in) + give[me].at,
                 static_cast<size_t>(take[me].bytes));
  for (int d = 1; d < n_; ++d) {
    const int to = circle_.at(me_ + d), from = circle_.at(me_ - d);
    const Part g = give[static_cast<size_t>((me_ + d) % n_)];
    const Part t = take[static_cast<size_t>((me_ + n_ - d) % n_)];
    const auto leaving = courier_.buffer(in.p, in.bytes()),
               coming = courier_.buffer(out.p, out.bytes());
    const auto post = [&](int64_t p) {
      receive(*coming, from, kPairs, t.at + p * kPiece, piece_bytes(t.bytes, p));
    };
    Sends sends(courier_, looks_, desc_);
    post(0);
    for (int64_t p = 0; p < std::max(pieces(g.bytes), pieces(t.bytes)); ++p) {
      post(p + 1);
      sends.send(*leaving, to, slot(kPairs), g.at + p * kPiece, piece_bytes(g.bytes, p));
      if (piece_bytes(t.bytes, p) > 0) received(*coming, from);
    }
    sends.finish();
  }
}

void Rings::gather(Span in, Span out, int root) {
  const int64_t bytes = in.bytes(), count = pieces(bytes);
  if (me_ != root) {
    const auto leaving = courier_.buffer(in.p, bytes);
    Sends sends(courier_, looks_, desc_);
    for (int64_t p = 0; p < count; ++p)
      sends.send(*leaving, circle_.at(root), slot(kPairs), p * kPiece, piece_bytes(bytes, p));
    return sends.finish();
  }
  char* mine = bytes_of(out) + me_ * bytes;
  if (mine != in.p && bytes > 0) copy_bytes(mine, in.p, static_cast<size_t>(bytes));
  // One after the other, in pieces of which two are asked for at a time.
  const auto coming = [&](int k) { return courier_.buffer(bytes_of(out) + k * bytes, bytes); };
  for (int d = 1; d < n_; ++d) {
    const int k = (me_ + d) % n_, from = circle_.at(k);
    const auto buffer = coming(k);
    for (int64_t p = -1; p < count; ++p) {
      if (p + 1 < count)
        receive(*buffer, from, kPairs, (p + 1) * kPiece, piece_bytes(bytes, p + 1));
      if (p >= 0) received(*buffer, from);
    }
  }
}

void Rings::scatter(Span in, Span out, int root) {
  const int64_t bytes = out.bytes(), count = pieces(bytes);
  if (me_ != root) {
    const auto coming = courier_.buffer(out.p, bytes);
    for (int64_t p = -1; p < count; ++p) {
      if (p + 1 < count)
        receive(*coming, circle_.at(root), kPairs, (p + 1) * kPiece, piece_bytes(bytes, p + 1));
      if (p >= 0) received(*coming, circle_.at(root));
    }
    return;
  }
  char* mine = bytes_of(in) + me_ * bytes;
  if (out.p != mine && bytes > 0) copy_bytes(out.p, mine, static_cast<size_t>(bytes));
  const auto leaving = courier_.buffer(in.p, in.bytes());
  Sends sends(courier_, looks_, desc_);
  for (int64_t p = 0; p < count; ++p)
    for (int d = 1; d < n_; ++d) {
      const int k = (me_ + d) % n_;
      sends.send(*leaving, circle_.at(k), slot(kPairs), k * bytes + p * kPiece,
                 piece_bytes(bytes, p));
    }
  sends.finish();
}

}  // namespace tycho::dist
