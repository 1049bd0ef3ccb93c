// Memory formats: their names, their strides, and tensors made in them.
#include "engine/tensor/layout.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "engine/base/check.h"

namespace tycho {
namespace {

// How much of an operation's name the user called: "to" of "to.dtype".
int called(const char* op) { return static_cast<int>(std::strcspn(op, ".")); }

}  // namespace

int format_rank(const char* op, const char* given) {
  const std::string_view name = given;
  if (name == "preserve_format" || name == "contiguous_format") return 0;
  if (name == "channels_last") return 4;
  if (name == "channels_last_3d") return 5;
  fail(Kind::Argument,
       format("%.*s: memory_format is torch.contiguous_format, torch.preserve_format, "
              "torch.channels_last or torch.channels_last_3d, not \"%s\"",
              called(op), op, given));
}

Format parse_format(const char* op, const char* name, int rank) {
  const int want = format_rank(op, name);
  if (!want) return *name == 'p' ? Format::Preserve : Format::RowMajor;
  if (rank != want)
    fail(
        Kind::Shape,
        format("%.*s: torch.%s is for tensors of %d dimensions (batch, channels, %sheight, width), "
               "this one has %d",
               called(op), op, name, want, want == 5 ? "depth, " : "", rank),
        rank == 5   ? "memory_format = torch.channels_last_3d"
        : rank == 4 ? "memory_format = torch.channels_last"
                    : "");
  return Format::ChannelsLast;
}

Sizes channels_last_strides(const Sizes& shape) {
  Sizes stride = shape;
  int64_t step = 1;
  const auto take = [&](int d) {
    stride[d] = step;
    step *= std::max<int64_t>(1, shape[d]);
  };
  take(1);
  for (int d = shape.n - 1; d >= 2; --d) take(d);
  take(0);
  return stride;
}

namespace {

bool lies_by(const Sizes& shape, const Sizes& have, const Sizes& want) {
  for (int d = 0; d < shape.n; ++d)
    if (shape[d] > 1 && have[d] != want[d]) return false;
  return true;
}

}  // namespace

bool is_channels_last(const Tensor& t) {
  return lies_by(t.shape(), t.strides(), channels_last_strides(t.shape()));
}

bool shown_as(const Tensor& t, Format format) {
  if (format == Format::RowMajor) return shown_contiguous(t.get());
  return format == Format::Preserve ||
         lies_by(t.shape(), shown_strides(t.get()), channels_last_strides(t.shape()));
}

bool prefers_channels_last(const Tensor& t) {
  if (shown_contiguous(t.get()) || t.rank() < 4 || t.stride(1) == 0) return false;
  int64_t least = 0;
  for (int k = 0; k < t.rank(); ++k) {
    const int d = k == 0 ? 1 : k + 1 == t.rank() ? 0 : t.rank() - k;
    if (t.size(d) == 0 || t.stride(d) < least || (d == 0 && least == t.stride(1))) return false;
    least = t.stride(d) * t.size(d);
  }
  return true;
}

Tensor empty_in(Format format, const Sizes& shape, DType dtype, Device device) {
  if (format != Format::ChannelsLast) return empty(shape, dtype, device);
  return empty_strided(shape, channels_last_strides(shape), dtype, device);
}

Sizes columns_strides(const Sizes& shape) {
  Sizes stride = row_major(shape);
  stride[shape.n - 2] = 1;
  stride[shape.n - 1] = std::max<int64_t>(1, shape[shape.n - 2]);
  return stride;
}

Tensor empty_columns(const Sizes& shape, DType dtype, Device device) {
  return empty_strided(shape, columns_strides(shape), dtype, device);
}

Tensor empty_like_in(Format format, const Tensor& like, DType dtype, Device device) {
  if (format != Format::Preserve) return empty_in(format, like.shape(), dtype, device);
  if (device == like.device()) return empty_like(like, dtype);
  // What is computed on another device is, bit for bit, what it would be here: an inner layout goes
  // along, because kernels sum in the order of memory.
  if (like->inner) return empty_inner(like.shape(), like.strides(), dtype, device);
  if (like.contiguous() || !is_dense(like.get())) return empty(like.shape(), dtype, device);
  return empty_strided(like.shape(), like.strides(), dtype, device);
}

}  // namespace tycho
