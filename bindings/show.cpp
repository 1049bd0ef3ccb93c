// How a tensor is shown: first its dtype, shape, device and state, then its values, bounded: edges
// with `..` between, a summary above 1000 elements. A nonzero value is never shown as 0, nan and
// inf are never hidden.
#include <algorithm>
#include <cmath>

#include "bindings/lua.h"
#include "engine/grad/record.h"

namespace tycho::lua {
namespace {

constexpr int64_t kEdge = 3;       // shown at each end of a long row or column
constexpr int64_t kMostShown = 6;  // in a row or a column without a gap
constexpr int64_t kSummaryFrom = 1000;

std::string trim_number(double x, int digits) {
  char room[48];
  std::snprintf(room, sizeof room, "%.*g", digits, x);
  return room;
}

std::string element_text(const Impl* t, int64_t at) {
  if (t->dtype == DType::Bool) return read_int(t, at) ? "#" : ".";
  if (!is_floating(t->dtype)) return std::to_string(read_int(t, at));
  const double x = read_double(t, at);
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "+inf" : "-inf";
  return trim_number(x, 4);
}

// The positions shown of n: all, or both ends with a gap (-1) between.
std::vector<int64_t> shown_positions(int64_t n) {
  std::vector<int64_t> out;
  if (n <= kMostShown) {
    for (int64_t i = 0; i < n; ++i) out.push_back(i);
    return out;
  }
  for (int64_t i = 0; i < kEdge; ++i) out.push_back(i);
  out.push_back(-1);
  for (int64_t i = n - kEdge; i < n; ++i) out.push_back(i);
  return out;
}

// The last two dimensions as an aligned table.
void matrix(const Impl* t, int64_t offset, std::string* out) {
  const int last = t->rank - 1;
  const auto rows = t->rank > 1 ? shown_positions(t->shape[last - 1]) : std::vector<int64_t>{0};
  const auto columns = shown_positions(t->shape[last]);
  std::vector<std::vector<std::string>> cells;
  std::vector<size_t> width(columns.size(), 0);
  for (int64_t r : rows) {
    auto& line = cells.emplace_back();
    for (size_t k = 0; k < columns.size(); ++k) {
      const int64_t c = columns[k];
      line.push_back(r < 0 || c < 0
                         ? ".."
                         : element_text(t, offset + (t->rank > 1 ? r * t->stride[last - 1] : 0) +
                                               c * t->stride[last]));
      width[k] = std::max(width[k], line.back().size());
    }
  }
  for (const auto& line : cells) {
    *out += "\n ";
    for (size_t k = 0; k < line.size(); ++k)
      *out += std::string(width[k] - line[k].size() + 1, ' ') + line[k];
  }
}

void body(const Impl* t, std::string* out) {
  if (t->rank <= 2) return matrix(t, 0, out);
  // Each matrix under its label; first and last ones when there are many.
  int64_t count = 1;
  for (int d = 0; d < t->rank - 2; ++d) count *= t->shape[d];
  for (int64_t i : count <= 4 ? shown_positions(count) : std::vector<int64_t>{0, -1, count - 1}) {
    if (i < 0) {
      *out += "\n..";
      continue;
    }
    int64_t rest = i, offset = 0, index[kMaxDims];
    for (int d = t->rank - 3; d >= 0; --d) {
      index[d] = rest % t->shape[d];
      rest /= t->shape[d];
      offset += index[d] * t->stride[d];
    }
    *out += "\n[";
    for (int d = 0; d < t->rank - 2; ++d) *out += std::to_string(index[d] + 1) + ", ";
    *out += ":, :]";
    matrix(t, offset, out);
  }
}

// One pass over all values: range, mean, spread, and what is out of the ordinary.
std::string summary(const Impl* t) {
  if (t->dtype == DType::Bool) return {};
  double low = INFINITY, high = -INFINITY, sum = 0, squares = 0;
  int64_t finite = 0, nan = 0, plus = 0, minus = 0, index[kMaxDims] = {}, offset = 0;
  for (int64_t i = 0; i < t->numel; ++i) {
    const double x = read_double(t, offset);
    if (std::isnan(x))
      ++nan;
    else if (std::isinf(x))
      ++(x > 0 ? plus : minus);
    else {
      ++finite;
      low = std::min(low, x);
      high = std::max(high, x);
      sum += x;
      squares += x * x;
    }
    for (int d = t->rank - 1; d >= 0; --d) {
      offset += t->stride[d];
      if (++index[d] < t->shape[d]) break;
      offset -= t->stride[d] * t->shape[d];
      index[d] = 0;
    }
  }
  std::string text;
  if (finite > 0) {
    const double mean = sum / static_cast<double>(finite);
    const double spread =
        finite > 1
            ? std::sqrt(std::max(0.0, (squares - sum * mean) / static_cast<double>(finite - 1)))
            : 0;
    text = "\n  min " + trim_number(low, 3) + "  max " + trim_number(high, 3) + "  mean " +
           trim_number(mean, 3) + "  std " + trim_number(spread, 3);
  }
  if (nan) text += "  " + std::to_string(nan) + " nan";
  if (plus) text += "  " + std::to_string(plus) + " +inf";
  if (minus) text += "  " + std::to_string(minus) + " -inf";
  return text;
}

std::string bytes_text(int64_t n) {
  char room[32];
  const double x = static_cast<double>(n);
  if (n < 1000000)
    std::snprintf(room, sizeof room, "%.0f kB", x / 1e3);
  else if (n < 1000000000)
    std::snprintf(room, sizeof room, "%.1f MB", x / 1e6);
  else
    std::snprintf(room, sizeof room, "%.2f GB", x / 1e9);
  return room;
}

}  // namespace

std::string show(const Tensor& x) {
  const Impl* t = x.get();
  std::string text = std::string(dtype_short_name(t->dtype)) + " " + to_string(x.shape());
  if (!t->device.is_cpu()) text += "  " + device_name(t->device);
  const int64_t bytes = t->numel * dtype_size(t->dtype);
  if (bytes > 100000) text += "  " + bytes_text(bytes);
  if (!t->contiguous) text += "  strided";
  if (grad::requires_grad(x.get()))
    text += t->node ? std::string("  grad_fn=") + static_cast<Node*>(t->node.get())->name()
                    : "  requires_grad";
  if (t->numel == 0) return text + "  empty";
  if (t->rank == 0) return text + "  " + element_text(t, 0);
  if (t->numel > kSummaryFrom) text += summary(t);
  body(t, &text);
  return text;
}

}  // namespace tycho::lua
