// The collectives that reduce, and their rings, trees and exchanges.
#include "engine/dist/rings.h"

#include <algorithm>
#include <cstring>

#include "engine/cpu/reduce/ranks.h"

namespace tycho::dist {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;
constexpr int64_t kShort = int64_t{64} << 10;  // a tree or an exchange is faster
constexpr int kFew = 8;                        // everyone may send to everyone

enum Phase { kExchange, kReduce, kGather, kTree, kChain, kDown, kPairs, kBarrier };

int64_t pieces(int64_t bytes) { return (bytes + kPiece - 1) / kPiece; }
int64_t piece_bytes(int64_t bytes, int64_t p) {
  return std::clamp(bytes - p * kPiece, int64_t{0}, kPiece);
}
char* bytes_of(const Span& s) { return static_cast<char*>(s.p); }

}  // namespace

Rings::Rings(Courier& courier, const Circle& circle, const Desc& desc, double divisor)
    : courier_(courier),
      circle_(circle),
      desc_(desc),
      divisor_(divisor),
      n_(circle.size()),
      me_(circle.me),
      looks_(courier.job(), desc) {}

Rings::Part Rings::share(int64_t n, int64_t size, int k) const {
  k = (k % n_ + n_) % n_;
  const int64_t begin = n * k / n_;
  return {begin * size, (n * (k + 1) / n_ - begin) * size};
}

void Rings::receive(Buffer& b, int from, int phase, int64_t at, int64_t bytes) {
  if (bytes == 0) return;
  try {
    b.receive(from, slot(phase), static_cast<size_t>(at), static_cast<size_t>(bytes));
  } catch (const MeshError& e) {
    courier_.broken(from, e, desc_);
  }
}

void Rings::received(Buffer& b, int from) {
  courier_.wait(b, Courier::Way::Received, from, looks_, desc_);
}

void Rings::fold(void* out, const void* a, const void* b, int64_t bytes, bool last) {
  const void* in[] = {a, b};
  const RedOp op = desc_.red == RedOp::Avg && !last ? RedOp::Sum : desc_.red;
  cpu::level_of::fold_ranks(out, in, 2, bytes / dtype_size(desc_.dtype),
                            static_cast<int>(desc_.dtype), static_cast<int>(op), divisor_);
}

void Rings::divide(void* data, int64_t bytes) {
  if (desc_.red != RedOp::Avg) return;
  const void* in[] = {data};
  cpu::level_of::fold_ranks(data, in, 1, bytes / dtype_size(desc_.dtype),
                            static_cast<int>(desc_.dtype), static_cast<int>(RedOp::Avg), divisor_);
}

void Rings::alone(Span in, Span out) {
  if (in.p != out.p) copy_bytes(out.p, in.p, static_cast<size_t>(in.bytes()));
  divide(out.p, out.bytes());
}

template <class Give, class Take>
void Rings::exchange(int phase, Give give, Take take) {
  std::vector<std::unique_ptr<Buffer>> in(static_cast<size_t>(n_)), out(static_cast<size_t>(n_));
  for (int d = 1; d < n_; ++d) {
    const int k = (me_ + n_ - d) % n_;
    const auto [p, bytes] = take(k);
    if (bytes == 0) continue;
    in[static_cast<size_t>(k)] = courier_.buffer(p, bytes);
    receive(*in[static_cast<size_t>(k)], circle_.at(k), phase, 0, bytes);
  }
  for (int d = 1; d < n_; ++d) {
    const int k = (me_ + d) % n_;
    const auto [p, bytes] = give(k);
    if (bytes == 0) continue;
    out[static_cast<size_t>(k)] = courier_.buffer(p, bytes);
    try {
      out[static_cast<size_t>(k)]->send(circle_.at(k), slot(phase), 0, static_cast<size_t>(bytes));
    } catch (const MeshError& e) {
      courier_.broken(circle_.at(k), e, desc_);
    }
  }
  for (int k = 0; k < n_; ++k)
    if (in[static_cast<size_t>(k)]) received(*in[static_cast<size_t>(k)], circle_.at(k));
  for (int k = 0; k < n_; ++k)
    if (out[static_cast<size_t>(k)])
      courier_.wait(*out[static_cast<size_t>(k)], Courier::Way::Sent, circle_.at(k), looks_, desc_);
}

void Rings::all_reduce(Span in, Span out) {
  const int64_t bytes = in.bytes();
  if (bytes == 0) return;
  if (n_ == 1) return alone(in, out);
  if (n_ <= kFew && bytes * (n_ - 1) <= 2 * kShort) {
    char* all = courier_.scratch(bytes * n_);
    std::vector<const void*> from;
    for (int k = 0; k < n_; ++k) from.push_back(all + k * bytes);
    copy_bytes(all + me_ * bytes, in.p, static_cast<size_t>(bytes));
    exchange(
        kExchange, [&](int) { return std::pair(all + me_ * bytes, bytes); },
        [&](int k) { return std::pair(all + k * bytes, bytes); });
    cpu::level_of::fold_ranks(out.p, from.data(), n_, in.n, static_cast<int>(desc_.dtype),
                              static_cast<int>(desc_.red), divisor_);
    return;
  }
  if (bytes <= kShort) {
    reduce_tree(in, bytes_of(out), 0);
    return broadcast_tree(out, 0);
  }
  reduce_ring(in, bytes_of(out), false);
  gather_ring(bytes_of(out), in.n, dtype_size(in.t));
}

// Chunk k starts at member k + 1 and comes to member k, each adding its own numbers.
void Rings::reduce_ring(Span in, char* out, bool scatter) {
  const int64_t size = dtype_size(in.t);
  int64_t most = 0;
  for (int k = 0; k < n_; ++k) most = std::max(most, share(in.n, size, k).bytes);
  const int64_t per_chunk = pieces(most), total = per_chunk * (n_ - 1);
  char* tmp = courier_.scratch(2 * kPiece + (scatter ? per_chunk * kPiece : 0));
  char* partial = tmp + 2 * kPiece;  // of the chunk at hand, on its way on
  const auto own = courier_.buffer(in.p, in.bytes());
  const auto arrived = courier_.buffer(tmp, 2 * kPiece);
  const auto onward =
      scatter ? courier_.buffer(partial, per_chunk * kPiece) : courier_.buffer(out, in.bytes());
  const int to = circle_.at(me_ + 1), from = circle_.at(me_ - 1);
  const auto post = [&](int64_t t) {
    const Part chunk = share(in.n, size, static_cast<int>(me_ - 2 - t / per_chunk));
    receive(*arrived, from, kReduce, t % 2 * kPiece, piece_bytes(chunk.bytes, t % per_chunk));
  };
  Sends sends(courier_, looks_, desc_);
  post(0);
  for (int64_t t = 0; t < total; ++t) {
    if (t + 1 < total) post(t + 1);
    const int step = static_cast<int>(t / per_chunk);
    const int64_t p = t % per_chunk;
    const bool last = step == n_ - 2;
    const Part leaving = share(in.n, size, me_ - 1 - step),
               coming = share(in.n, size, me_ - 2 - step);
    sends.send(step == 0 ? *own : *onward, to, slot(kReduce),
               (step > 0 && scatter ? 0 : leaving.at) + p * kPiece, piece_bytes(leaving.bytes, p));
    const int64_t bytes = piece_bytes(coming.bytes, p);
    if (bytes == 0) continue;
    received(*arrived, from);
    if (scatter && step > 0 && !last) sends.finish();  // it leaves from where this one goes
    char* target = !scatter ? out + coming.at : last ? out : partial;
    fold(target + p * kPiece, tmp + t % 2 * kPiece, bytes_of(in) + coming.at + p * kPiece, bytes,
         last);
  }
  sends.finish();
}

// Every member has its own chunk in `out`, which is of n elements, and ends with all of them.
void Rings::gather_ring(char* out, int64_t n, int64_t size) {
  int64_t most = 0;
  for (int k = 0; k < n_; ++k) most = std::max(most, share(n, size, k).bytes);
  const int64_t per_chunk = pieces(most), total = per_chunk * (n_ - 1);
  const auto leaving = courier_.buffer(out, n * size), coming = courier_.buffer(out, n * size);
  const int to = circle_.at(me_ + 1), from = circle_.at(me_ - 1);
  const auto part = [&](int chunk, int64_t p) {
    const Part c = share(n, size, chunk);
    return Part{c.at + p * kPiece, piece_bytes(c.bytes, p)};
  };
  const auto incoming = [&](int64_t t) {
    return part(static_cast<int>(me_ - 1 - t / per_chunk), t % per_chunk);
  };
  const auto post = [&](int64_t t) {
    if (t < total) receive(*coming, from, kGather, incoming(t).at, incoming(t).bytes);
  };
  Sends sends(courier_, looks_, desc_);
  post(0);
  post(1);
  for (int64_t t = 0; t < total; ++t) {
    const Part p = part(static_cast<int>(me_ - t / per_chunk), t % per_chunk);
    sends.send(*leaving, to, slot(kGather), p.at, p.bytes);
    if (incoming(t).bytes > 0) received(*coming, from);
    post(t + 2);
  }
  sends.finish();
}

// Children have the root's index plus one more bit; what they hold comes after what their parent
// holds.
void Rings::reduce_tree(Span in, char* out, int root) {
  const int v = (me_ - root + n_) % n_;
  const int64_t bytes = in.bytes();
  char* tmp = courier_.scratch(2 * bytes);
  char* sum = tmp + bytes;
  copy_bytes(sum, in.p, static_cast<size_t>(bytes));
  const auto coming = courier_.buffer(tmp, bytes), leaving = courier_.buffer(sum, bytes);
  for (int bit = 1; bit < n_; bit <<= 1) {
    if (v & bit) {
      Sends sends(courier_, looks_, desc_);
      sends.send(*leaving, circle_.at(v - bit + root), slot(kTree), 0, bytes);
      return sends.finish();
    }
    if (v + bit >= n_) continue;
    const int from = circle_.at(v + bit + root);
    receive(*coming, from, kTree, 0, bytes);
    received(*coming, from);
    fold(sum, sum, tmp, bytes, false);
  }
  divide(sum, bytes);
  copy_bytes(out, sum, static_cast<size_t>(bytes));
}

// From the last member to the root, piece by piece.
void Rings::reduce_chain(Span in, char* out, int root) {
  const int v = (me_ - root + n_) % n_;
  const int64_t total = pieces(in.bytes());
  constexpr int kRoom = 4;  // two arrive, two leave
  char* tmp = v < n_ - 1 ? courier_.scratch(kRoom * kPiece) : nullptr;
  const auto own = courier_.buffer(in.p, in.bytes());
  const auto coming = courier_.buffer(tmp, tmp ? kRoom * kPiece : 0);
  const auto leaving = courier_.buffer(tmp, tmp ? kRoom * kPiece : 0);
  const int to = circle_.at(me_ - 1), from = circle_.at(me_ + 1);
  const auto post = [&](int64_t t) {
    if (t < total && v < n_ - 1)
      receive(*coming, from, kChain, t % kRoom * kPiece, piece_bytes(in.bytes(), t));
  };
  Sends sends(courier_, looks_, desc_);
  post(0);
  for (int64_t t = 0; t < total; ++t) {
    const int64_t bytes = piece_bytes(in.bytes(), t);
    if (v == n_ - 1) {
      sends.send(*own, to, slot(kChain), t * kPiece, bytes);
      continue;
    }
    post(t + 1);  // its room has been sent: at most two are on their way
    received(*coming, from);
    char* piece = tmp + t % kRoom * kPiece;
    fold(v == 0 ? out + t * kPiece : piece, bytes_of(in) + t * kPiece, piece, bytes, v == 0);
    if (v > 0) sends.send(*leaving, to, slot(kChain), t % kRoom * kPiece, bytes);
  }
  sends.finish();
}

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

void Rings::reduce(Span in, Span out, int root) {
  if (in.n == 0) return;
  if (n_ == 1) return alone(in, out);
  return in.bytes() <= 4 * kShort ? reduce_tree(in, bytes_of(out), root)
                                  : reduce_chain(in, bytes_of(out), root);
}

void Rings::all_gather(Span in, Span out) {
  const int64_t bytes = in.bytes();
  char* mine = bytes_of(out) + me_ * bytes;
  if (bytes == 0) return;
  if (mine != in.p) copy_bytes(mine, in.p, static_cast<size_t>(bytes));
  if (n_ <= kFew && bytes * n_ <= 2 * kShort)
    return exchange(
        kExchange, [&](int) { return std::pair(mine, bytes); },
        [&](int k) { return std::pair(bytes_of(out) + k * bytes, bytes); });
  gather_ring(bytes_of(out), in.n * n_, dtype_size(in.t));
}

void Rings::reduce_scatter(Span in, Span out) {
  const int64_t bytes = out.bytes();
  if (bytes == 0) return;
  if (n_ > kFew || bytes * n_ > 2 * kShort) return reduce_ring(in, bytes_of(out), true);
  char* all = courier_.scratch(bytes * n_);
  std::vector<const void*> from;
  for (int k = 0; k < n_; ++k) from.push_back(all + k * bytes);
  copy_bytes(all + me_ * bytes, bytes_of(in) + me_ * bytes, static_cast<size_t>(bytes));
  exchange(
      kExchange, [&](int k) { return std::pair(bytes_of(in) + k * bytes, bytes); },
      [&](int k) { return std::pair(all + k * bytes, bytes); });
  cpu::level_of::fold_ranks(out.p, from.data(), n_, out.n, static_cast<int>(desc_.dtype),
                            static_cast<int>(desc_.red), divisor_);
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
