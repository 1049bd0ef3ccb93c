// One element for each position on a device: gather, scatter and their reductions. The index has the
// shape of what is walked.
#include <cmath>
#include <limits>
#include <string_view>

#include "engine/cuda/ops/index_walk.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

Walk element_walk(const Call& c, const Tensor& x, const Tensor& index, const Tensor& other) {
  const int dim = static_cast<int>(c.integer(1));
  Walk w(c, false);
  w.add_index(index, size_along(x, dim), stride_along(x, dim));
  const Sizes stride = row_major(index.shape());
  for (int d = 0; d < index.rank(); ++d)
    w.add(index.size(d), d == dim || x.rank() == 0 ? 0 : x.stride(d),
          other.rank() ? other.stride(d) : 0, d == dim)
        .index[0] = stride[d];
  return w;
}

void gather(Call& c) {
  const Tensor &x = c.tensor(0), &out = c.out[0];
  element_walk(c, x, c.tensor(2), out).take(x, out);
}

void scatter_into(const Call& c, const Tensor& x, const Tensor& index, const Tensor& source,
                  Meeting how) {
  element_walk(c, x, index, source).put(x, source, how);
}

void scatter(Call& c, Meeting how) {
  const Changed changed(c, how != Meeting::Set);
  const Tensor index = apart(c.tensor(2), c.out[0]);
  const Tensor source = c.arg[3].tag == Tag::Tensor
                            ? changed.source(c.tensor(3))
                            : scalar(changed.work, c.arg[3], c.out[0].dtype());
  scatter_into(c, changed.work, index, source, how);
  changed.finish();
}

void scatter_reduce(Call& c) {
  const std::string_view name = c.string(4);
  const bool include = c.flag(5);
  const Meeting how = name == "prod"   ? Meeting::Mul
                      : name == "amax" ? Meeting::Max
                      : name == "amin" ? Meeting::Min
                                       : Meeting::Add;
  const Changed changed(c, true);
  const Tensor& x = changed.work;
  const Tensor index = apart(c.tensor(2), c.out[0]), source = changed.source(c.tensor(3));
  if (!include) {  // touched elements start from the value that changes nothing
    const bool top = how == Meeting::Min;
    Value start(int64_t{how == Meeting::Mul});
    if (top || how == Meeting::Max) {
      if (is_floating(x.dtype()))
        start = Value(top ? HUGE_VAL : -HUGE_VAL);
      else
        start =
            Value(top ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min());
    }
    scatter_into(c, x, index, scalar(x, start, x.dtype()), Meeting::Set);
  }
  scatter_into(c, x, index, source, how);
  if (name == "mean") {
    Tensor count = filled(x.shape(), include, DType::Int64, x.device());
    scatter_into(c, count, index, scalar(x, Value(int64_t{1}), DType::Int64), Meeting::Add);
    count = op<"maximum">(count, 1);
    copy_raw(x, is_floating(x.dtype()) ? op<"div">(x, count) : op<"floor_divide">(x, count));
  }
  changed.finish();
}

BIND_KERNEL(Cuda, "gather", gather);
BIND_KERNEL(Cuda, "scatter_source", [](Call& c) { scatter(c, Meeting::Set); });
BIND_KERNEL(Cuda, "scatter_number", [](Call& c) { scatter(c, Meeting::Set); });
BIND_KERNEL(Cuda, "scatter_add", [](Call& c) { scatter(c, Meeting::Add); });
BIND_KERNEL(Cuda, "scatter_reduce", scatter_reduce);

}  // namespace
}  // namespace tycho::cuda
