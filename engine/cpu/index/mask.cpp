// Kernels of masks: positions, selecting and writing where a mask is true; membership.
#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/index/combine.h"
#include "engine/cpu/index/index.h"
#include "engine/ops/index/index.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kChunk = 16384;

const uint8_t* bytes_of(const Tensor& mask) { return mask.data<uint8_t>(); }

// How many elements are true before each chunk; the total at the end.
std::vector<int64_t> counts_before(const Tensor& mask) {
  const int64_t n = mask.numel(), chunks = (n + kChunk - 1) / kChunk;
  std::vector<int64_t> before(static_cast<size_t>(chunks) + 1);
  const uint8_t* m = bytes_of(mask);
  parallel_for(n, kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kChunk)
      before[static_cast<size_t>(i / kChunk) + 1] =
          level_of::count_bytes(m + i, std::min(kChunk, end - i));
  });
  for (size_t i = 1; i < before.size(); ++i) before[i] += before[i - 1];
  return before;
}

// Divides numbers up to `most` by a fixed size: where both have 32 bits, by a multiplication (with
// 2^64 / size rounded up, which is off by too little to matter), for the instruction is slow.
struct Divider {
  uint64_t size, magic;
  Divider(int64_t by, int64_t most)
      : size(static_cast<uint64_t>(by)),
        magic(by > 1 && most <= UINT32_MAX ? UINT64_MAX / size + 1 : 0) {}
  uint64_t operator()(uint64_t x) const {
    return magic ? static_cast<uint64_t>((static_cast<Wide>(x) * magic) >> 64) : x / size;
  }

 private:
  __extension__ using Wide = unsigned __int128;
};

// Writes which of the bytes [begin, end) are not 0, and returns how many; without branches on
// single bytes, so there is room for all.
int64_t places_in(const uint8_t* mask, int64_t begin, int64_t end, int64_t* to) {
  int64_t k = 0, i = begin;
  for (; i + 8 <= end; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, mask + i, 8);
    if (eight == 0) continue;
    for (int64_t j = i; j < i + 8; ++j) {
      to[k] = j;
      k += mask[j] != 0;
    }
  }
  for (; i < end; ++i) {
    to[k] = i;
    k += mask[i] != 0;
  }
  return k;
}

// The positions, from 1, of a packed mask's true elements: along dimension d, those of element k at
// to[d][k * step].
void write_positions(const Tensor& m, const std::vector<int64_t>& before, int64_t* const* to,
                     int64_t step) {
  constexpr int64_t kBlock = 1024;
  const int rank = m.rank();
  const uint8_t* b = bytes_of(m);
  std::vector<Divider> by;
  for (int d = 0; d < rank; ++d) by.emplace_back(m.size(d), m.numel());
  parallel_for(m.numel(), kChunk, [&](int64_t begin, int64_t end) {
    int64_t at[kBlock];  // over all elements; then over those of fewer and fewer dimensions
    int64_t k = before[static_cast<size_t>(begin / kChunk)];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = places_in(b, i, std::min(end, i + kBlock), at);
      for (int d = rank - 1; d > 0; --d) {
        const Divider divide = by[static_cast<size_t>(d)];
        int64_t* t = to[d] + k * step;
        for (int64_t j = 0; j < n; ++j) {
          const uint64_t x = static_cast<uint64_t>(at[j]), rest = divide(x);
          t[j * step] = static_cast<int64_t>(x - rest * divide.size) + 1;
          at[j] = static_cast<int64_t>(rest);
        }
      }
      for (int64_t j = 0; j < n; ++j) to[0][(k + j) * step] = at[j] + 1;
      k += n;
    }
  });
}

// One tensor of positions for each dimension.
void push_columns(Call& c, const Tensor& m) {
  const auto before = counts_before(m);
  int64_t* to[kMaxDims];
  for (int d = 0; d < m.rank(); ++d) {
    c.out.push_back(empty({before.back()}, DType::Int64, m.device()));
    to[d] = c.out[d].data<int64_t>();
  }
  write_positions(m, before, to, 1);
}

// Which elements are not zero, packed.
Tensor truths_of(const Tensor& x) {
  if (x.dtype() == DType::Bool) return packed(x);
  Tensor mask = empty(x.shape(), DType::Bool, x.device());
  copy_raw(mask, x);
  return mask;
}

}  // namespace

void mask_positions(Call& c) { push_columns(c, packed(c.tensor(0))); }

void where_found(Call& c) {
  const Tensor m = truths_of(c.tensor(0));
  push_columns(c, m.rank() ? m : alias(m, {1}, {1}, m->offset));
}

void nonzero(Call& c) {
  if (c.flag(1)) return where_found(c);
  const Tensor m = truths_of(c.tensor(0));
  const auto before = counts_before(m);
  const int rank = m.rank();
  c.out.push_back(empty({before.back(), rank}, DType::Int64, m.device()));
  if (rank == 0) return;
  int64_t* to[kMaxDims];
  for (int d = 0; d < rank; ++d) to[d] = c.out[0].data<int64_t>() + d;
  write_positions(m, before, to, rank);
}

void masked_select(Call& c) {
  const Tensor x = packed(c.tensor(0)), mask = packed(c.tensor(1));
  const int size = dtype_size(x.dtype());
  const auto before = counts_before(mask);
  c.out.push_back(empty({before.back()}, x.dtype(), x.device()));
  char* to = c.out[0].data();
  parallel_for(mask.numel(), kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kChunk) {
      const size_t chunk = static_cast<size_t>(i / kChunk);
      const int64_t n = std::min(kChunk, end - i);
      level_of::compress(size, to + before[chunk] * size, x.data() + i * size, bytes_of(mask) + i,
                         n, before[chunk + 1] - before[chunk]);
    }
  });
}

void masked_scatter(Call& c) {
  const Tensor& out = c.out[0];
  Tensor source = packed(c.tensor(2));
  const Tensor mask = packed(c.tensor(1));
  const auto before = counts_before(mask);
  const int64_t need = before.back();
  TYCHO_CHECK(Kind::Shape, need <= source.numel(),
              "masked_scatter: the mask has %lld true elements, the source %lld",
              static_cast<long long>(need), static_cast<long long>(source.numel()));
  const bool fresh = !c.inplace && out.contiguous();  // written once, from both
  const Tensor x = fresh ? packed(c.tensor(0)) : out;
  if (!c.inplace && !fresh) copy_raw(out, c.tensor(0));
  // In an unusual layout the values are written into a row-major copy and stored from there.
  Tensor work = out;
  if (!out.contiguous()) {
    work = empty(out.shape(), out.dtype(), out.device());
    copy_raw(work, out);
  }
  if (source->storage.get() == out->storage.get()) {
    Tensor copy = empty(source.shape(), source.dtype(), source.device());
    copy_raw(copy, source);
    source = copy;
  }
  const int size = dtype_size(out.dtype());
  char* const to = work.data();
  const char* const kept = fresh ? x.data() : to;
  parallel_for(mask.numel(), kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kChunk) {
      const size_t chunk = static_cast<size_t>(i / kChunk);
      level_of::expand(size, to + i * size, source.data() + before[chunk] * size,
                       before[chunk + 1] - before[chunk], kept + i * size, bytes_of(mask) + i,
                       std::min(kChunk, end - i));
    }
  });
  if (work.get() != out.get()) copy_raw(out, work);
}

void isin(Call& c) {
  const auto read = [&](int i, auto kind) {
    using T = decltype(kind);
    std::vector<T> v;
    if (c.arg[i].tag != Tag::Tensor) {
      v.push_back(c.arg[i].tag == Tag::Int ? static_cast<T>(c.arg[i].i)
                                           : static_cast<T>(c.number(i)));
      return v;
    }
    const Tensor& t = c.tensor(i);
    Tensor wide = empty(t.shape(), std::is_same_v<T, double> ? DType::Float64 : DType::Int64);
    copy_raw(wide, t);
    v.assign(wide.data<T>(), wide.data<T>() + wide.numel());
    return v;
  };
  const auto run = [&]<class T>(T kind) {
    const auto x = read(0, kind);
    auto among = read(1, kind);
    std::erase_if(among, [](auto v) { return v != v; });
    std::sort(among.begin(), among.end());
    const bool invert = c.flag(3);
    auto* out = c.out[0].data<uint8_t>();
    parallel_for(static_cast<int64_t>(x.size()), 1024, [&](int64_t begin, int64_t end) {
      const T* const first = among.data();
      for (int64_t i = begin; i < end; ++i) {
        const T v = x[static_cast<size_t>(i)];
        const T* p = first;  // without branches, which nobody could predict
        for (size_t n = among.size(), half; n > 1; n -= half) {
          half = n / 2;
          p += half & -static_cast<size_t>(p[half - 1] < v);
        }
        out[i] = (!among.empty() && *p == v) != invert;
      }
    });
  };
  const auto floats = [&](int i) {
    return c.arg[i].tag == Tag::Tensor ? is_floating(c.tensor(i).dtype())
                                       : c.arg[i].tag == Tag::Float;
  };
  if (floats(0) || floats(1))
    run(double());
  else
    run(int64_t());
}

BIND_KERNEL(Cpu, "isin", isin);
BIND_KERNEL(Cpu, "masked_select", masked_select);
BIND_KERNEL(Cpu, "masked_scatter", masked_scatter);
BIND_KERNEL(Cpu, "index.mask", mask_positions);
BIND_KERNEL(Cpu, "nonzero", nonzero);
BIND_KERNEL(Cpu, "argwhere", nonzero);
BIND_KERNEL(Cpu, "where.found", where_found);

}  // namespace tycho::cpu
