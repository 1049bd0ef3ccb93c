// PyTorch's own text of a tensor, for following its documents:
// torch.set_printoptions{style="pytorch"}.
#include <algorithm>
#include <cmath>

#include "bindings/show/show.h"
#include "engine/base/interrupt.h"
#include "engine/grad/record.h"
#include "engine/tensor/read.h"

namespace tycho::lua {
namespace {

int precision() { return print_options.precision < 0 ? 4 : print_options.precision; }

// The elements that are shown, as if the tensor had no others: ends of every dimension that is too
// long. In each dimension the positions, with -1 for the dots.
struct Shown {
  std::vector<std::vector<int64_t>> at;
  bool dots(int d) const { return std::find(at[d].begin(), at[d].end(), -1) != at[d].end(); }
};

Shown shown_of(const Impl* t) {
  Shown s;
  const bool summary = static_cast<double>(t->numel) > print_options.threshold;
  for (int d = 0; d < t->rank; ++d) {
    auto& list = s.at.emplace_back();
    const int64_t n = t->shape[d], edge = print_options.edge;
    if (!summary || n <= 2 * edge) {
      for (int64_t i = 0; i < n; ++i) list.push_back(i);
      continue;
    }
    for (int64_t i = 0; i < edge; ++i) list.push_back(i);
    list.push_back(-1);
    for (int64_t i = n - edge; i < n; ++i) list.push_back(i);
  }
  return s;
}

template <class F>
void each_shown(const Impl* t, const Shown& s, int d, int64_t first, F&& f) {
  if (d == t->rank) return f(first);
  for (int64_t i : s.at[d])
    if (i >= 0) each_shown(t, s, d + 1, first * t->shape[d] + i, f);
}

// One width and one way of writing for all elements.
class Formatter {
 public:
  Formatter(const Impl* t, const Shown& s) : t_(t), floats_(is_floating(t->dtype)) {
    double low = INFINITY, high = 0;
    each_shown(t, s, 0, 0, [&](int64_t i) {
      if (!floats_) return;
      const double x = number_at(t, i);
      if (!std::isfinite(x) || x == 0) return;
      whole_ = whole_ && x == std::ceil(x);
      low = std::min(low, std::abs(x));
      high = std::max(high, std::abs(x));
    });
    if (floats_ && high > 0) {
      scientific_ = print_options.scientific < 0
                        ? high / low > 1000 || high > 1e8 || (!whole_ && low < 1e-4)
                        : print_options.scientific > 0;
    }
    each_shown(t, s, 0, 0, [&](int64_t i) {
      if (floats_) {
        const double x = number_at(t, i);
        if (!std::isfinite(x) || x == 0) return;
      }
      width_ = std::max(width_, raw(i).size());
    });
  }
  size_t width() const { return width_; }
  std::string operator()(int64_t i) const {
    const std::string s = raw(i);
    return s.size() < width_ ? std::string(width_ - s.size(), ' ') + s : s;
  }

 private:
  std::string raw(int64_t i) const {
    if (t_->dtype == DType::Bool) return integer_at(t_, i) ? "True" : "False";
    if (!floats_) return std::to_string(integer_at(t_, i));
    const double x = number_at(t_, i);
    if (std::isnan(x)) return "nan";
    if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
    char room[700];
    if (scientific_)
      std::snprintf(room, sizeof room, "%.*e", precision(), x);
    else if (whole_)
      std::snprintf(room, sizeof room, "%.0f.", x);
    else
      std::snprintf(room, sizeof room, "%.*f", precision(), x);
    return room;
  }
  const Impl* t_;
  bool floats_, whole_ = true, scientific_ = false;
  size_t width_ = 1;
};

int line_width() { return print_options.width > 0 ? print_options.width : 80; }

void body(const Impl* t, const Shown& s, const Formatter& format, int d, int64_t first, int indent,
          std::string* out) {
  check_interrupt();
  if (t->rank == 0) {
    *out += format(0);
    return;
  }
  *out += "[";
  const auto& list = s.at[d];
  if (d == t->rank - 1) {
    const int64_t per_line =
        std::max<int64_t>(1, (line_width() - indent) / (static_cast<int64_t>(format.width()) + 2));
    for (size_t k = 0; k < list.size(); ++k) {
      if (k > 0) *out += k % per_line ? std::string(", ") : ",\n" + std::string(indent + 1, ' ');
      *out +=
          list[k] < 0 ? (list.size() > 1 ? " ..." : "...") : format(first * t->shape[d] + list[k]);
    }
  } else {
    for (size_t k = 0; k < list.size(); ++k) {
      if (k > 0) *out += "," + std::string(t->rank - 1 - d, '\n') + std::string(indent + 1, ' ');
      if (list[k] < 0)
        *out += "...";
      else
        body(t, s, format, d + 1, first * t->shape[d] + list[k], indent + 1, out);
    }
  }
  *out += "]";
}

// "SumBackward0" of the operation "sum", "MaxPool2dBackward0" of "max_pool2d".
std::string backward_name(const std::string& op) {
  std::string name;
  bool upper = true;
  for (char c : op) {
    if (c == '.') break;
    if (c == '_') {
      upper = true;
      continue;
    }
    name += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = false;
  }
  return name + "Backward0";
}

}  // namespace

std::string show_as_pytorch(const Tensor& x) {
  const Impl* t = x.get();
  std::string text = "tensor(";
  const int indent = static_cast<int>(text.size());
  std::vector<std::string> suffixes;
  if (!t->device.is_cpu()) suffixes.push_back("device='" + device_name(t->device) + "'");
  const std::string dtype = std::string("dtype=torch.") + dtype_name(t->dtype);
  if (t->numel == 0) {
    if (t->rank != 1) {
      std::string size = to_string(x.shape());
      size.front() = '(';
      size.back() = ')';
      suffixes.push_back("size=" + size);
    }
    if (t->dtype != default_dtype()) suffixes.push_back(dtype);
    text += "[]";
  } else {
    if (t->dtype != default_dtype() && t->dtype != DType::Int64 && t->dtype != DType::Bool)
      suffixes.push_back(dtype);
    if (has_values(t)) {
      const Tensor host = fetch(x);
      const Shown s = shown_of(t);
      body(host.get(), s, Formatter(host.get(), s), 0, 0, indent, &text);
    } else {
      text += "...";
    }
  }
  if (grad::requires_grad(x.get()))
    suffixes.push_back(t->node ? "grad_fn=<" +
                                     backward_name(static_cast<Node*>(t->node.get())->name()) + ">"
                               : "requires_grad=True");
  // The closing bracket counts in the first line's length.
  const size_t last = text.rfind('\n');
  size_t length = text.size() - (last == text.npos ? static_cast<size_t>(-1) : last) + 1;
  for (const std::string& suffix : suffixes) {
    if (length + suffix.size() + 2 > static_cast<size_t>(line_width())) {
      text += ",\n" + std::string(indent, ' ') + suffix;
      length = indent + suffix.size();
    } else {
      text += ", " + suffix;
      length += suffix.size() + 2;
    }
  }
  return text + ")";
}

}  // namespace tycho::lua
