// softmax over any dimension of row-major tensors; other types than the lanes' pass through tiles.
#include "engine/cpu/nn/softmax.h"

#include <cmath>
#include <limits>

#include "engine/cpu/along.h"
#include "engine/cpu/row_parts.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

Lanes lanes_for(const Tensor& a, const Tensor& b) {
  return a.dtype() == DType::Float64 || b.dtype() == DType::Float64 ? Lanes::F64 : Lanes::F32;
}

// Of few long rows; others are whole.
RowParts parts_of(const Cut& cut) {
  return cut.inner == 1 ? RowParts(cut.rows, cut.n) : RowParts(cut.rows, 1);
}
void add_to(double& all, double more) { all += more; }
void keep_larger(double& all, double more) {
  if (std::isnan(more) || more > all) all = more;
}

// Parts of tensors in the lanes' type: where they lie, or, of other types, in a buffer.
struct InLanes {
  Lanes lanes;
  DType type;
  explicit InLanes(Lanes l) : lanes(l), type(lane_type_of(l)) {}
  bool direct(const Tensor& t) const { return t.dtype() == type; }
  Scratch buffer(const Tensor& t) const {
    return Scratch(static_cast<size_t>(direct(t) ? 0 : RowParts::kPart * dtype_size(type)));
  }
  char* place(const Tensor& t, int64_t element, const Scratch& buffer) const {
    return direct(t) ? t.data() + element * dtype_size(type) : buffer.data();
  }
  char* load(const Tensor& t, int64_t element, int64_t n, const Scratch& buffer) const {
    char* const at = place(t, element, buffer);
    if (!direct(t))
      level_of::load_tile(static_cast<int>(lanes), static_cast<int>(t.dtype()), at,
                          t.data() + element * dtype_size(t.dtype()), 1, n);
    return at;
  }
  void store(const Tensor& t, int64_t element, int64_t n, const char* from) const {
    if (!direct(t))
      level_of::store_tile(static_cast<int>(lanes), static_cast<int>(t.dtype()),
                           t.data() + element * dtype_size(t.dtype()), from, 1, n);
  }
};

void softmax_long(const RowParts& r, const Tensor& x, const Tensor& out, Lanes lanes, bool log) {
  const InLanes in(lanes);
  const int l = static_cast<int>(lanes);
  // Exponentials are kept as the lanes have them.
  const Tensor y = log || in.direct(out) ? out : empty(out.shape(), in.type);
  r.each_row([&](int64_t row) {
    const int64_t first = row * r.n;
    const double top = r.joined(
        -std::numeric_limits<double>::infinity(),
        [&](int64_t at, int64_t m) {
          const Scratch of_x = in.buffer(x);
          return level_of::softmax_top(l, in.load(x, first + at, m, of_x), m);
        },
        keep_larger);
    const double sum = r.joined(
        0.0,
        [&](int64_t at, int64_t m) {
          const Scratch of_x = in.buffer(x), of_y = in.buffer(y);
          return level_of::softmax_exps(l, log, in.load(x, first + at, m, of_x),
                                        in.place(y, first + at, of_y), m, top);
        },
        add_to);
    r.each([&](int64_t at, int64_t m) {
      const Scratch of_x = in.buffer(x), of_y = in.buffer(y);
      char* const to = in.place(y, first + at, of_y);
      level_of::softmax_finish(l, log, log ? in.load(x, first + at, m, of_x) : nullptr, to, m, top,
                               sum);
      in.store(out, first + at, m, to);
    });
  });
}

void softmax_backward_long(const RowParts& r, const Tensor& g, const Tensor& y, const Tensor& out,
                           Lanes lanes, bool log) {
  const InLanes in(lanes);
  const int l = static_cast<int>(lanes);
  r.each_row([&](int64_t row) {
    const int64_t first = row * r.n;
    const double sum = r.joined(
        0.0,
        [&](int64_t at, int64_t m) {
          const Scratch of_g = in.buffer(g), of_y = in.buffer(y);
          return level_of::softmax_grad_sum(l, log, in.load(g, first + at, m, of_g),
                                            in.load(y, first + at, m, of_y), m);
        },
        add_to);
    r.each([&](int64_t at, int64_t m) {
      const Scratch of_g = in.buffer(g), of_y = in.buffer(y), of_out = in.buffer(out);
      char* const to = in.place(out, first + at, of_out);
      level_of::softmax_grad_part(l, log, in.load(g, first + at, m, of_g),
                                  in.load(y, first + at, m, of_y), to, m, sum);
      in.store(out, first + at, m, to);
    });
  });
}

// Rows that are worth being taken many at a time, as registers or as what the first-level cache holds.
constexpr int64_t kShortest = 16, kLongest = 400, kBlockRows = 16;
bool takes_rows(const Cut& cut) {
  return cut.inner == 1 && cut.rows > 1 && cut.n >= kShortest && cut.n <= kLongest;
}
// run(p, rows) on lane-typed rows; p[0] is the result.
template <class Run>
void over_short_rows(const Tensor* const* t, int count, const Cut& cut, Lanes lanes, Run&& run) {
  const InLanes in(lanes);
  const int64_t blocks = (cut.rows + kBlockRows - 1) / kBlockRows;
  parallel_for(
      blocks, std::max<int64_t>(1, kAlongWork / (kBlockRows * cut.n)),
      [&](int64_t begin, int64_t end) {
        const auto needs = [&](int k) { return in.direct(*t[k]) ? 0 : kBlockRows * cut.n * 8; };
        int64_t bytes = 0;
        for (int k = 0; k < count; ++k) bytes += needs(k);
        const Scratch room(static_cast<size_t>(bytes));
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i * kBlockRows, rows = std::min(kBlockRows, cut.rows - first);
          char *p[kAlongTensors], *tile = room.data();
          for (int k = 0; k < count; ++k) {
            p[k] = in.direct(*t[k]) ? t[k]->data() + first * cut.n * dtype_size(in.type) : tile;
            tile += needs(k);
            if (k > 0 && !in.direct(*t[k]))
              level_of::load_tile(static_cast<int>(lanes), static_cast<int>(t[k]->dtype()),
                                  static_cast<void*>(p[k]),
                                  static_cast<const void*>(
                                      t[k]->data() + first * cut.n * dtype_size(t[k]->dtype())),
                                  int64_t{1}, rows * cut.n);
          }
          run(p, rows);
          in.store(*t[0], first * cut.n, rows * cut.n, p[0]);
        }
      });
}

}  // namespace

void softmax(Call& c, bool log) {
  const Tensor x = packed(c.tensor(0)), &out = c.out[0];
  const Lanes lanes = lanes_for(x, out);
  const Cut cut(x, c.integer(1));
  if (const RowParts r = parts_of(cut); !r.whole()) return softmax_long(r, x, out, lanes, log);
  const int l = static_cast<int>(lanes);
  const Tensor* t[] = {&out, &x};
  if (takes_rows(cut))
    return over_short_rows(t, 2, cut, lanes, [&](char* const* p, int64_t rows) {
      level_of::softmax_rows(l, log, p[1], p[0], cut.n, rows);
    });
  over_rows(
      t, 2, cut, lanes,
      [&](char* const* p, int64_t n) { level_of::softmax_run(l, log, p[1], p[0], n); },
      [&](char* const* p, int64_t n, int64_t cols, int64_t step) {
        level_of::softmax_columns(l, log, p[1], p[0], n, cols, step);
      });
}

void softmax_backward(Call& c, bool log) {
  const Tensor g = packed(c.tensor(0)), y = packed(c.tensor(1)), &out = c.out[0];
  const Lanes lanes = lanes_for(g, y);
  const Cut cut(g, c.integer(2));
  if (const RowParts r = parts_of(cut); !r.whole())
    return softmax_backward_long(r, g, y, out, lanes, log);
  const int l = static_cast<int>(lanes);
  const Tensor* t[] = {&out, &g, &y};
  if (takes_rows(cut))
    return over_short_rows(t, 3, cut, lanes, [&](char* const* p, int64_t rows) {
      level_of::softmax_grad_rows(l, log, p[1], p[2], p[0], cut.n, rows);
    });
  over_rows(
      t, 3, cut, lanes,
      [&](char* const* p, int64_t n) { level_of::softmax_grad_run(l, log, p[1], p[2], p[0], n); },
      [&](char* const* p, int64_t n, int64_t cols, int64_t step) {
        level_of::softmax_grad_columns(l, log, p[1], p[2], p[0], n, cols, step);
      });
}

BIND_KERNEL(Cpu, "softmax", [](Call& c) { softmax(c, false); });
BIND_KERNEL(Cpu, "log_softmax", [](Call& c) { softmax(c, true); });
BIND_KERNEL(Cpu, "softmax_backward", [](Call& c) { softmax_backward(c, false); });
BIND_KERNEL(Cpu, "log_softmax_backward", [](Call& c) { softmax_backward(c, true); });

}  // namespace tycho::cpu
