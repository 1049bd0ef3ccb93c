// Kernels of masks: counting, selecting and writing where a mask is true; membership.
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

}  // namespace

void mask_positions(Call& c) {
  const Tensor m = packed(c.tensor(0));
  const auto before = counts_before(m);
  const int rank = m.rank();
  const int64_t found = before.back();
  int64_t* to[kMaxDims];
  for (int d = 0; d < rank; ++d) {
    c.out.push_back(empty({found}, DType::Int64, m.device()));
    to[d] = c.out[d].data<int64_t>();
  }
  const uint8_t* b = bytes_of(m);
  parallel_for(m.numel(), kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const size_t chunk = static_cast<size_t>(i / kChunk);
      const int64_t stop = std::min(end, i - i % kChunk + kChunk),
                    room = before[chunk + 1] - before[chunk];
      // First the places over all elements, in the last dimension's tensor.
      int64_t* t = to[rank - 1] + before[chunk];
      for (int64_t k = 0; i < stop && k < room; ++i) {
        t[k] = i;
        k += b[i] != 0;
      }
      for (int64_t k = before[chunk]; k < before[chunk + 1]; ++k) {
        int64_t rest = to[rank - 1][k];
        for (int d = rank - 1; d > 0; --d) {
          to[d][k] = rest % m.size(d) + 1;
          rest /= m.size(d);
        }
        to[0][k] = rest + 1;
      }
      i = stop;
    }
  });
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
  const int64_t need = counts_before(mask).back();
  TYCHO_CHECK(Kind::Shape, need <= source.numel(),
              "masked_scatter: the mask has %lld true elements, the source %lld",
              static_cast<long long>(need), static_cast<long long>(source.numel()));
  if (!c.inplace) copy_raw(out, c.tensor(0));
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
  const uint8_t* m = bytes_of(mask);
  with_size(out.dtype(), [&](auto kind) {
    using T = decltype(kind);
    T* to = work.data<T>();
    const T* from = source.data<T>();
    for (int64_t i = 0, n = mask.numel(), k = 0; i < n; ++i)
      if (m[i]) to[i] = from[k++];
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
  const auto run = [&](auto kind) {
    const auto x = read(0, kind);
    auto among = read(1, kind);
    std::erase_if(among, [](auto v) { return v != v; });
    std::sort(among.begin(), among.end());
    const bool invert = c.flag(3);
    auto* out = c.out[0].data<uint8_t>();
    parallel_for(static_cast<int64_t>(x.size()), 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        out[i] =
            std::binary_search(among.begin(), among.end(), x[static_cast<size_t>(i)]) != invert;
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

}  // namespace tycho::cpu
