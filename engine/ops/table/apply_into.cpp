// Results into tensors that are there already (see apply_into.h). apply_row computes into c.into, other
// kernels do in place of what their shape rule has made (take_place), and compositions hand it on to
// their last call (become).
#include "engine/ops/table/apply_into.h"

#include <algorithm>
#include <string>

#include "engine/grad/inplace.h"
#include "engine/grad/record.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/apply_devices.h"
#include "engine/ops/table/before_change.h"

namespace tycho {
namespace {

// May the call write there while it computes? What raises afterwards must not have written.
bool may_write(const Call& c, const Tensor& to) {
  if (c.inplace || c.op->view || shapes_only || mode.inference || to->inner ||
      has_no_values(*to->storage))
    return false;
  if (!mode.grad) return true;
  if (grad::requires_grad(to.get())) return false;
  bool recorded = false;
  each_tensor(c, [&](Impl* t, int) { recorded |= grad::requires_grad(t); });
  return !recorded;
}

// What makes its result of nothing makes it for any device.
bool takes_tensors(const Call& c) {
  return std::any_of(c.arg, c.arg + c.n,
                     [](const Value& v) { return v.tag == Tag::Tensor || v.tag == Tag::Tensors; });
}

// Would the kernel write the same elements to the same places, in memory that it does not read?
bool takes_place(const Call& c, const Tensor& made, const Tensor& to) {
  bool reads = false;
  each_tensor(c, [&](const Impl* t, int) { reads |= t->storage.get() == to->storage.get(); });
  if (reads || made->storage->count != 1 || made->inner || made.dtype() != to.dtype() ||
      !(made.device() == to.device()) || made.rank() != to.rank())
    return false;
  for (int d = 0; d < to.rank(); ++d)
    if (made.size(d) != to.size(d) || (made.stride(d) != to.stride(d) && made.size(d) != 1))
      return false;
  return true;
}

}  // namespace

bool take_place(Call& c) {
  const Tensor to(c.into);
  if (c.op->view || c.op->fresh || c.op->any_device || c.out.size() != 1 ||
      !takes_place(c, c.out[0], to))
    return false;
  about_to_change(to, c.op->name);
  c.out[0] = to;
  return true;
}

void apply_into(Call& c, const Tensor& to) {
  const std::string_view full = c.op->name;
  const std::string name(full.substr(0, full.find('.')));
  if (overlaps_itself(to.get()))
    fail(Kind::Value,
         format(
             "%s: several elements of out, which is %s, share one place in memory (it was made by "
             "expand)",
             name.c_str(), describe(to).c_str()),
         "out = out:clone()  -- before computing into it");
  if (may_write(c, to)) c.into = to.get();
  apply(c);
  const Tensor result = c.out[0];
  if (result.get() == to.get()) return;
  TYCHO_CHECK(Kind::Autograd, !(mode.grad && (to->requires_grad || result->requires_grad)),
              "%s: out= does not support gradients", name.c_str());
  if (!(to.device() == result.device()) && takes_tensors(c))
    fail(Kind::Device,
         format("%s: out is on %s, the result on %s; tensors of different devices do not mix",
                name.c_str(), device_name(to.device()).c_str(),
                device_name(result.device()).c_str()),
         "out = out:to(\"" + device_name(result.device()) + "\")");
  TYCHO_CHECK(Kind::Shape, to.shape() == result.shape(), "%s: out has shape %s, the result %s",
              name.c_str(), to_string(to.shape()).c_str(), to_string(result.shape()).c_str());
  TYCHO_CHECK(Kind::DType, can_cast(result.dtype(), to.dtype()),
              "%s: the result is %s and cannot be stored in %s", name.c_str(),
              dtype_name(result.dtype()), dtype_name(to.dtype()));
  about_to_change(to, c.op->name);
  copy_raw(to, result);
  grad::count_change(to, c.op->name);
  c.out.clear();
  c.out.push_back(to);
}

}  // namespace tycho
