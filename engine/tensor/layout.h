// Memory formats: the orders in which a tensor's dimensions lie in memory, under PyTorch's names
// (c10/core/MemoryFormat.h). Shapes never change with them, only strides.
#pragma once
#include "engine/tensor/tensor.h"

namespace tycho {

enum class Format : uint8_t {
  Preserve,     // as the tensor it is made from, where that is dense
  RowMajor,     // "contiguous_format"
  ChannelsLast  // [batch, channels, spatial..]: the channels of one pixel lie side by side
};
// The number of dimensions that a format is for: 4 of "channels_last", 5 of "channels_last_3d", 0 of
// those for any; raises Kind::Argument for other names. `op` begins the texts.
int format_rank(const char* op, const char* name);
// The format; raises Kind::Shape too, where it is for another rank.
Format parse_format(const char* op, const char* name, int rank);

Sizes channels_last_strides(const Sizes& shape);
// The elements lie in that order, dimensions of one element aside.
bool is_channels_last(const Tensor& t);
// The same of what the user is told.
bool shown_as(const Tensor& t, Format format);
// Whether PyTorch takes a tensor as laid out with the channels last, and so makes results that are:
// its strides ascend that way, and not the other way too.
bool prefers_channels_last(const Tensor& t);

inline Format preferred(const Tensor& t) {
  return prefers_channels_last(t) ? Format::ChannelsLast : Format::RowMajor;
}

// Uninitialised. `like` says type and device unless others are given, and the layout of Preserve.
Tensor empty_in(Format format, const Sizes& shape, DType dtype, Device device);
Tensor empty_like_in(Format format, const Tensor& like, DType dtype, Device device);
// Of at least two dimensions: matrices that lie column by column, as results of torch.linalg do.
Sizes columns_strides(const Sizes& shape);
Tensor empty_columns(const Sizes& shape, DType dtype, Device device);

}  // namespace tycho
