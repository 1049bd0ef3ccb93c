// Copies: clone, contiguous, conversions of type and device, copy_.
#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/backend.h"

namespace tycho {
namespace {

void copy_kernel(Call& c) { copy_raw(c.out[0], c.tensor(0)); }

// Between the host and a device, of one type: the rest needs a kernel and is waited for.
bool can_come_later(const Tensor& to, const Tensor& from) {
  return to.device().is_cpu() != from.device().is_cpu() && to.dtype() == from.dtype() &&
         to.shape() == from.shape() && to.numel() > 0;
}
void copy_later(const Tensor& to, const Tensor& from, bool fresh) {
  straighten(from);
  straighten(to);
  backend_of(to.device().is_cpu() ? from.device() : to.device()).copy_later(to, from, fresh);
}

const Op& clone = add_op(
    {.name = "clone",
     .args = "self, memory_format: string?",
     .doc = "A copy of the tensor with storage of its own; gradients flow through.",
     .see = "detach, contiguous",
     .rule = "any shape -> the same shape",
     .example = "x = torch.tensor{1, 2}\n"
                "y = x:clone()\n"
                "y[1] = 9\n"
                "x --> i64 [2]  1 2",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           c.out.push_back(empty_like_in(format_of(c, 1, x.rank()), x, x.dtype(), x.device()));
         },
     .run = copy_kernel,
     .grad = [](Backward& b) { b.set(0, b.g()); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3})});
           s.add({s.normal({2, 3, 2, 2}), "channels_last"});
         }});

const Op& contiguous = add_op(
    {.name = "contiguous",
     .args = "self, memory_format: string = contiguous_format",
     .doc = "The tensor itself when its elements lie in row-major order (or in that of "
            "torch.channels_last), else a copy that does.",
     .where = kMethod,
     .unchanged = [](const Impl* x) { return x->contiguous && !x->inner; },
     .see = "clone, is_contiguous",
     .rule = "any shape -> the same shape",
     .example = "x = torch.tensor{{1, 2}, {3, 4}}:t()\n"
                "x:is_contiguous() --> false\n"
                "x:contiguous():is_contiguous() --> true\n"
                "x = torch.zeros(8, 3, 32, 32):contiguous{memory_format = torch.channels_last}\n"
                "x:stride() --> [3072, 1, 96, 3]",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const Format format = format_of(c, 1, x.rank());
           if (format != Format::ChannelsLast) straighten(x);
           if (shown_as(x, format == Format::Preserve ? Format::RowMajor : format)) {
             c.out.push_back(x);
             return;
           }
           if (format == Format::Preserve)
             fail(Kind::Argument, "contiguous: preserve_format is no order to bring a tensor into",
                  "x:clone()  -- as it is, or x:contiguous()");
           Tensor y = op<"clone">(x, c.string(1));
           c.out.push_back(y);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3})});
           s.add({s.normal({2, 3, 2, 2}), "channels_last"});
           s.add({s.normal({2, 3, 2, 2, 2}), "channels_last_3d"});
         }});

// The sweep brings gradients back to the input's type and device, so these only pass them on.
const Op& to_dtype = add_op(
    {.name = "to.dtype",
     .args = "self, dtype: dtype, copy: bool = false, memory_format: string?",
     .doc = "The tensor in another element type, on the same device; itself when nothing changes.",
     .where = kMethod,
     .again = true,
     .see = "dtypes",
     .rule = "any shape -> the same shape",
     .example = "torch.tensor{1.7, -1.7}:to(\"int64\") --> i64 [2]  1 -1\n"
                "torch.tensor{0, 2}:to(torch.bool) --> bool [2]  . #",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           c.out.push_back(empty_like_in(format_of(c, 3, x.rank()), x, c.arg[1].dtype, x.device()));
         },
     .run = copy_kernel,
     .grad = [](Backward& b) { b.set(0, b.g()); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), DType::Float64});
         }});

const Op& to_device =
    add_op({.name = "to.device",
            .args = "self, device: device, dtype: dtype?, copy: bool = false, non_blocking: bool = "
                    "false, memory_format: string?",
            .doc = "The tensor on another device; itself when nothing changes. With non_blocking "
                   "the values may arrive later: torch.cuda.synchronize() waits for them.",
            .where = kMethod,
            .any_device = true,
            .see = "cuda, cpu",
            .rule = "any shape -> the same shape",
            .example = "torch.ones(2):to(\"cpu\") --> f32 [2]  1 1",
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  const Device device = c.arg[1].device;
                  const DType dtype = c.dtype(2, x.dtype());
                  // Devices write later only where they write by themselves.
                  if (c.flag(4) && device.is_cpu() && !x.device().is_cpu() && x.contiguous() &&
                      dtype == x.dtype() && c.arg[5].tag == Tag::None)
                    c.out.push_back(empty_pinned(x.shape(), dtype));
                  else
                    c.out.push_back(empty_like_in(format_of(c, 5, x.rank()), x, dtype, device));
                },
            .run =
                [](Call& c) {
                  if (c.flag(4) && can_come_later(c.out[0], c.tensor(0)))
                    copy_later(c.out[0], c.tensor(0), true);
                  else
                    copy_kernel(c);
                },
            .grad = [](Backward& b) { b.set(0, b.g()); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3}), Device()});
                }});

[[maybe_unused]] const Op& pin =
    add_op({.name = "_pin_memory",
            .args = "self",
            .doc = "A copy in memory that devices read by themselves; of a device's tensor, on it.",
            .where = kFunction,
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  c.out.push_back(x.device().is_cpu() ? empty_pinned(x.shape(), x.dtype())
                                                      : empty_like(x));
                },
            .run = copy_kernel,
            .grad = [](Backward& b) { b.set(0, b.g()); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3})});
                }});

const Op& copy = add_op(
    {.name = "copy",
     .args = "self, src, non_blocking: bool = false",
     .doc = "Writes the values of src, broadcast and converted, into the tensor (copy_). With "
            "non_blocking, between the CPU and a device, they may arrive later.",
     .where = kMethod,
     .inplace = Inplace::Direct,
     .any_device = true,
     .see = "clone, to",
     .rule = "a shape that broadcasts to self's -> self's shape",
     .example = "x = torch.zeros(3)\n"
                "x:copy_(torch.tensor{1, 2, 3}) --> f32 [3]  1 2 3",
     .shape =
         [](Call& c) {
           const Tensor &self = c.tensor(0), &src = c.tensor(1);
           if (!(broadcast(self.shape(), src.shape()) == self.shape()))
             fail(Kind::Broadcast,
                  format("copy_: a value of shape %s does not fit into shape %s",
                         to_string(src.shape()).c_str(), to_string(self.shape()).c_str()));
           c.out.push_back(c.inplace ? self : empty_like(self));
         },
     .run =
         [](Call& c) {
           const Tensor &to = c.out[0], &from = c.tensor(1);
           if (c.flag(2) && c.inplace && can_come_later(to, from))
             return copy_later(to, from, false);
           // Memory shared in another layout is copied first, so that no value is
           // overwritten unread.
           if (from->storage.get() == to->storage.get() && c.inplace) {
             Tensor apart = empty(from.shape(), from.dtype(), from.device());
             copy_raw(apart, from);
             copy_raw(to, apart);
           } else {
             copy_raw(to, from);
           }
         },
     .grad =
         [](Backward& b) {
           if (b.needs(0)) b.set(0, op<"zeros_like">(b.g()));
           if (b.needs(1)) b.set(1, b.g());
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), s.normal({2, 3})});
           s.add({s.normal({2, 3}), s.normal({3})});
           s.add({s.normal({2, 3}), s.integers({2, 1}, -5, 5)});
         }});

BATCH("clone", by_leading);
BATCH("to.dtype", by_leading);
BATCH("to.device", by_leading);

}  // namespace
}  // namespace tycho
