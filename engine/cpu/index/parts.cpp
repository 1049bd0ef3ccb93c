// Whole parts of a tensor read and written at places (see parts.h).
#include "engine/cpu/index/parts.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/cache.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/index/index.h"
#include "engine/ops/table/apply.h"

namespace tycho::cpu {

Walk walk_of(const Tensor& a, const Tensor& b) {
  const Impl* both[] = {a.get(), b.get()};
  return make_walk(both, 2);
}

namespace {

// The tensor with only some of its dimensions, from its first element on.
Tensor only(const Tensor& t, uint32_t dims) {
  Sizes shape, stride;
  for (int d = 0; d < t.rank(); ++d)
    if (dims >> d & 1) {
      shape.push_back(t.size(d));
      stride.push_back(t.stride(d));
    }
  return alias(t, shape, stride, t->offset);
}
Tensor dims_between(const Tensor& t, int from, int to) {
  return only(t, ((1u << to) - 1) & ~((1u << from) - 1));
}

// Element offsets (per walker) of number i in a walk.
void offsets_of(const Walk& w, int64_t i, int64_t* offset) {
  if (w.rank == 1) {
    for (int k = 0; k < w.count; ++k) offset[k] = i * w.stride[k][0];
    return;
  }
  for (int k = 0; k < w.count; ++k) offset[k] = 0;
  for (int d = w.rank - 1; d >= 0 && i; --d) {
    const int64_t x = i % w.size[d];
    i /= w.size[d];
    for (int k = 0; k < w.count; ++k) offset[k] += x * w.stride[k][d];
  }
}

// A part of n elements, where both sides are contiguous.
inline void copy_part(char* to, const char* from, int64_t bytes) {
  switch (bytes) {
    case 8:
      std::memcpy(to, from, 8);
      break;
    case 16:
      std::memcpy(to, from, 16);
      break;
    case 32:
      std::memcpy(to, from, 32);
      break;
    case 64:
      std::memcpy(to, from, 64);
      break;
    default:
      level_of::copy_bytes(to, from, bytes);
  }
}

// f(begin, end) for blocks of B that stay in the caches while all m positions are gone through.
template <class F>
void each_block(int64_t nb, int64_t m, Interrupts stop, F&& f) {
  const int64_t block = std::max<int64_t>(64, 16384 / m);
  parallel_for((nb + block - 1) / block, 1,
               [&](int64_t first, int64_t last) {
                 for (int64_t k = first; k < last; ++k) f(k * block, std::min(nb, (k + 1) * block));
               },
               stop);
}

// Parts of a few elements, the same for every b of many: where they lie is found once, for one b or
// for as many short ones as a table holds. False where this does not fit.
bool take_short_parts(const Tensor& x, const Walk& wb, const Walk& wa, const Places& at, int64_t a,
                      const Tensor& out) {
  constexpr int64_t kTable = 1024, kMostTable = 65536, kShortPart = 16;
  const int64_t unit = at.count * a, nb = wb.numel;
  int64_t extent = 0;
  for (int d = 0; d < x.rank(); ++d) extent += (x.size(d) - 1) * std::abs(x.stride(d));
  if (a >= kShortPart || nb < 4 || wb.rank > 1 || unit > kMostTable || extent >= INT32_MAX)
    return false;
  // A table is worth its making where it is used several times.
  const int64_t most = std::min(kTable, nb * unit / 8);
  const int64_t sb = wb.stride[0][0], rows = std::clamp<int64_t>(most / unit, 1, nb);
  std::vector<int32_t> table(static_cast<size_t>(rows * unit));
  int32_t* t = table.data();
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t j = 0; j < at.count; ++j) {
      const int64_t from = b * sb + (at.p[j] - 1) * at.step;
      if (a == 1) {
        *t++ = static_cast<int32_t>(from);
        continue;
      }
      each_run(wa, 0, a, [&](const int64_t* offset, int64_t run) {
        for (int64_t i = 0; i < run; ++i)
          t[offset[0] + i * wa.stride[0][wa.rank - 1]] =
              static_cast<int32_t>(from + offset[1] + i * wa.stride[1][wa.rank - 1]);
      });
      t += a;
    }
  const int size = dtype_size(x.dtype());
  parallel_for((nb + rows - 1) / rows, std::max<int64_t>(1, 16384 / (rows * unit)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t k = begin; k < end; ++k)
                   level_of::gather(size, out.data() + k * rows * unit * size,
                                    static_cast<const char*>(x.data() + k * rows * sb * size),
                                    static_cast<const int32_t*>(table.data()),
                                    std::min(rows, nb - k * rows) * unit);
               });
  return true;
}

}  // namespace

void take_parts(const Tensor& x, uint32_t before, uint32_t after, const Places& at,
                const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor xb = only(x, before), xa = only(x, after);
  const Tensor oa = empty(xa.shape(), DType::Bool);  // gives the contiguous side's strides only
  const Walk wb = walk_of(xb, xb), wa = walk_of(oa, xa);
  const int64_t nb = xb.numel(), m = at.count, a = xa.numel();
  const int size = dtype_size(x.dtype());
  const bool dense = wa.rank == 1 && wa.stride[1][0] == 1;
  if (take_short_parts(x, wb, wa, at, a, out)) return;
  if (a == 1 && wb.inner() > m)  // position by position
    return with_size(x.dtype(), [&](auto kind) {
      using T = decltype(kind);
      const T* f = x.data<T>();
      T* t = out.data<T>();
      const int64_t s = wb.stride[0][wb.rank - 1];
      each_block(nb, m, Interrupts::Poll, [&](int64_t begin, int64_t end) {
        for (int64_t j = 0; j < m; ++j) {
          T* to = t + begin * m + j;
          const T* from = f + (at.p[j] - 1) * at.step;
          each_run(wb, begin, end, [&](const int64_t* offset, int64_t n) {
            for (int64_t i = 0; i < n; ++i, to += m) *to = from[offset[0] + i * s];
          });
        }
      });
    });
  if (!dense && a >= 2048) {  // worth a copy each, which turns what lies across
    for (int64_t i = 0; i < nb * m; ++i) {
      int64_t base[kWalkers];
      offsets_of(wb, i / m, base);
      copy_raw(
          alias(out, xa.shape(), row_major(xa.shape()), out->offset + i * a),
          alias(x, xa.shape(), xa.strides(), x->offset + base[0] + (at.p[i % m] - 1) * at.step));
    }
    return;
  }
  const int64_t grain = std::max<int64_t>(1, 16384 / a);
  parallel_for(nb * m, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t b = begin / m, first = begin % m, n = std::min(m - first, end - begin);
      int64_t base[kWalkers];
      offsets_of(wb, b, base);
      const char* from = x.data() + base[0] * size;
      char* to = out.data() + begin * a * size;
      const int64_t* p = at.p + first;
      if (a == 1) {
        with_size(x.dtype(), [&](auto kind) {
          using T = decltype(kind);
          const int64_t step = at.step;  // which what is written does not change
          const T* f = reinterpret_cast<const T*>(from);
          T* t = reinterpret_cast<T*>(to);
          if (step == 1)
            for (int64_t j = 0; j < n; ++j) t[j] = f[p[j] - 1];
          else
            for (int64_t j = 0; j < n; ++j) t[j] = f[(p[j] - 1) * step];
        });
      } else if (dense) {
        const int64_t bytes = a * size;
        const bool stream = bytes >= 1024 && out.numel() * size >= kStreamBytes;
        for (int64_t j = 0; j < n; ++j) {
          const char* row = from + (p[j] - 1) * at.step * size;
          if (stream)
            level_of::copy_stream(to + j * bytes, row, bytes);
          else
            copy_part(to + j * bytes, row, bytes);
        }
        if (stream) end_stream();
      } else {
        with_size(x.dtype(), [&](auto kind) {
          using T = decltype(kind);
          const int64_t s0 = wa.stride[0][wa.rank - 1], s1 = wa.stride[1][wa.rank - 1];
          for (int64_t j = 0; j < n; ++j) {
            const T* f = reinterpret_cast<const T*>(from) + (p[j] - 1) * at.step;
            T* t = reinterpret_cast<T*>(to) + j * a;
            each_run(wa, 0, a, [&](const int64_t* offset, int64_t run) {
              for (int64_t i = 0; i < run; ++i) t[offset[0] + i * s0] = f[offset[1] + i * s1];
            });
          }
        });
      }
      begin += n;
    }
  });
}

namespace {

template <Combine C, class T>
void put_run(T* to, int64_t s0, const T* from, int64_t s1, int64_t n) {
  if (s0 == 1 && s1 == 1) {
    if constexpr (C == Combine::Set) {
      return level_of::copy_bytes(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from),
                                  n * static_cast<int64_t>(sizeof(T)));
    } else if constexpr (C == Combine::Add && sizeof(T) >= 4 && !std::is_same_v<T, Truth>) {
      constexpr DType t = std::is_same_v<T, float>    ? DType::Float32
                          : std::is_same_v<T, double> ? DType::Float64
                          : sizeof(T) == 4            ? DType::Int32
                                                      : DType::Int64;
      return level_of::add_row(static_cast<int>(t), to, from, n, 1.0);
    }
  }
  for (int64_t i = 0; i < n; ++i) to[i * s0] = combined<C>(to[i * s0], from[i * s1]);
}

}  // namespace

// Positions may repeat, so only B and A are divided among threads.
void put_parts(const Tensor& x, uint32_t before, uint32_t after, const Places& at, int place,
               int index_dims, const Tensor& source, Combine how) {
  if (source.numel() == 0) return;
  Tensor src = source;
  const Tensor xb = only(x, before), xa = only(x, after);
  Tensor si = dims_between(src, place, place + index_dims);
  Walk wi = walk_of(si, si);
  if (wi.rank > 1) {
    src = packed(src);
    si = dims_between(src, place, place + index_dims);
    wi = walk_of(si, si);
  }
  const int64_t sj = si.numel() == 1 ? 0 : wi.stride[0][0];
  const Walk wb = walk_of(xb, dims_between(src, 0, place)),
             wa = walk_of(xa, dims_between(src, place + index_dims, src.rank()));
  const int64_t nb = xb.numel(), m = at.count, a = xa.numel();
  with_combine(how, x.dtype(), [&]<Combine C, class T>() {
    T* to = x.data<T>();
    const T* from = src.data<T>();
    const int64_t s0 = wa.stride[0][wa.rank - 1], s1 = wa.stride[1][wa.rank - 1];
    // Rows b of B, elements [a0, a1) of A.
    const auto part = [&](int64_t b, int64_t a0, int64_t a1) {
      int64_t base[kWalkers];
      offsets_of(wb, b, base);
      T* t = to + base[0];
      const T* f = from + base[1];
      if (a == 1) {
        for (int64_t j = 0; j < m; ++j) {
          T& place_of = t[(at.p[j] - 1) * at.step];
          place_of = combined<C>(place_of, f[j * sj]);
        }
      } else if (wa.rank == 1) {
        for (int64_t j = 0; j < m; ++j)
          put_run<C>(t + (at.p[j] - 1) * at.step + a0 * s0, s0, f + j * sj + a0 * s1, s1, a1 - a0);
      } else {
        for (int64_t j = 0; j < m; ++j)
          each_run(wa, a0, a1, [&](const int64_t* offset, int64_t run) {
            put_run<C>(t + (at.p[j] - 1) * at.step + offset[0], s0, f + j * sj + offset[1], s1,
                       run);
          });
      }
    };
    if (a == 1 && wb.inner() > m) {  // position by position
      const int64_t s0 = wb.stride[0][wb.rank - 1], s1 = wb.stride[1][wb.rank - 1];
      return each_block(nb, m, Interrupts::Hold, [&](int64_t begin, int64_t end) {
        for (int64_t j = 0; j < m; ++j)
          each_run(wb, begin, end, [&](const int64_t* offset, int64_t n) {
            put_run<C>(to + (at.p[j] - 1) * at.step + offset[0], s0, from + j * sj + offset[1], s1,
                       n);
          });
      });
    }
    const int64_t work = m * a;
    if (nb > 1 && (work >= 16384 || nb * work >= 65536)) {
      parallel_for(
          nb, std::max<int64_t>(1, 16384 / work),
          [&](int64_t begin, int64_t end) {
            for (int64_t b = begin; b < end; ++b) part(b, 0, a);
          },
          Interrupts::Hold);
    } else if (a >= 128 && work >= 65536) {
      const int64_t threads = get_num_threads(), most = std::min<int64_t>(a / 64, 2 * threads),
                    pieces = most > threads ? most / threads * threads : most,
                    size = (a + pieces - 1) / pieces;
      for (int64_t b = 0; b < nb; ++b)
        parallel_for(
            a, size, [&](int64_t begin, int64_t end) { part(b, begin, end); }, Interrupts::Hold);
    } else {
      for (int64_t b = 0; b < nb; ++b) part(b, 0, a);
    }
  });
}

}  // namespace tycho::cpu
