// The collectives that reduce or gather: rings, trees and exchanges.
#include "engine/dist/rings.h"

#include <algorithm>
#include <cstring>

#include "engine/cpu/reduce/ranks.h"

namespace tycho::dist {

Rings::Rings(Courier& courier, const Circle& circle, const Desc& desc, double divisor,
             const std::vector<int64_t>& weights)
    : courier_(courier),
      circle_(circle),
      desc_(desc),
      divisor_(divisor),
      n_(circle.size()),
      me_(circle.me),
      before_{0},
      looks_(courier.job(), desc) {
  for (size_t k = 0; k < static_cast<size_t>(n_); ++k)
    before_.push_back(before_.back() + (weights.empty() ? 1 : weights[k]));
}

Rings::Part Rings::share(int64_t n, int64_t size, int k) const {
  const auto at = static_cast<size_t>((k % n_ + n_) % n_);
  const int64_t begin = n * before_[at] / before_.back();
  return {begin * size, (n * before_[at + 1] / before_.back() - begin) * size};
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

void Rings::reduce(Span in, Span out, int root) {
  if (in.n == 0) return;
  if (n_ == 1) return alone(in, out);
  return in.bytes() <= 4 * kShort ? reduce_tree(in, bytes_of(out), root)
                                  : reduce_chain(in, bytes_of(out), root);
}

void Rings::all_gather(Span in, Span out) {
  const int64_t bytes = in.bytes();
  char* mine = bytes_of(out) + me_ * bytes;
  if (mine != in.p && bytes > 0) copy_bytes(mine, in.p, static_cast<size_t>(bytes));
  all_gather(out);
}

void Rings::all_gather(Span all) {
  if (all.n == 0 || n_ == 1) return;
  const int64_t size = dtype_size(all.t);
  if (n_ > kFew || all.bytes() > 2 * kShort) return gather_ring(bytes_of(all), all.n, size);
  const auto part = [&](int k) {
    const Part c = share(all.n, size, k);
    return std::pair(bytes_of(all) + c.at, c.bytes);
  };
  exchange(
      kExchange, [&](int) { return part(me_); }, part);
}

void Rings::reduce_scatter(Span in, Span out) {
  if (in.n == 0) return;
  if (n_ == 1) return alone(in, out);
  if (n_ > kFew || in.bytes() > 2 * kShort) return reduce_ring(in, bytes_of(out), true);
  const auto part = [&](int k) {
    const Part c = share(in.n, dtype_size(in.t), k);
    return std::pair(bytes_of(in) + c.at, c.bytes);
  };
  const int64_t bytes = out.bytes();
  char* all = courier_.scratch(bytes * n_);
  std::vector<const void*> from;
  for (int k = 0; k < n_; ++k) from.push_back(all + k * bytes);
  copy_bytes(all + me_ * bytes, part(me_).first, static_cast<size_t>(bytes));
  exchange(kExchange, part, [&](int k) { return std::pair(all + k * bytes, bytes); });
  cpu::level_of::fold_ranks(out.p, from.data(), n_, out.n, static_cast<int>(desc_.dtype),
                            static_cast<int>(desc_.red), divisor_);
}

}  // namespace tycho::dist
