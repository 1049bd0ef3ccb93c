// The rules of in-place changes, and the graph of views (see inplace.h).
#include "engine/grad/inplace.h"

#include "engine/grad/passes.h"
#include "engine/grad/record.h"
#include "engine/ops/table/apply.h"

namespace tycho::grad {

void check_inplace(const Call& c) {
  const Tensor& self = c.tensor(0);
  const std::string full = c.op->name, name = full.substr(0, full.find('.'));
  if (overlaps_itself(self.get()))
    fail(
        Kind::Value,
        format("%s_: several elements of this %s share one place in memory (it was made by expand)",
               name.c_str(), describe(self).c_str()),
        "x = x:clone()  -- before changing it in place");
  if (self->is_inference && !mode.inference && mode.grad)
    for (int i = 1; i < c.n; ++i)
      if (c.arg[i].tag == Tag::Tensor && requires_grad(c.arg[i].t))
        fail(Kind::Autograd,
             format("%s_: a tensor made in inference_mode cannot join a graph", name.c_str()),
             "x = x:clone()  -- outside of inference_mode");
  if (!mode.grad) return;
  requires_grad(self.get());
  const Impl* base = self->base ? self->base.get() : self.get();
  if (base->requires_grad && !base->node)
    fail(Kind::Autograd,
         format("%s_ would change %s that requires grad (float parameters are leaves of the graph)",
                name.c_str(), self->base ? "a view of a leaf" : "a leaf"),
         name == "copy"
             ? std::string("torch.no_grad(function() w[1] = 0 end)  -- an assignment to "
                           "elements, or w:copy_(...)")
             : "torch.no_grad(function() w:" + name + "_(...) end)  -- or use an optimiser");
}

void count_change(const Tensor& self, const char* op) {
  Storage& s = *self->storage;
  ++s.version;
  if (s.passes) [[unlikely]]
    counted_gradient_changed(s, op);
  s.changed_by = op;
  if (current_where) s.changed_at = current_where();
}

void link_views(Call& c) {
  Impl* from = c.arg[0].t;
  Impl* base = from->base ? from->base.get() : from;
  for (Tensor& t : c.out) {
    if (t.get() == from) continue;
    t->base = Ref<Impl>(base);
    t->generation = base->generation;
    t->requires_grad = false;
  }
}

void refresh_view(Impl* view) {
  Impl* base = view->base.get();
  view->generation = base->generation;
  if (!base->requires_grad) return;
  static const Op& as_strided = get_op("as_strided");
  Call c(as_strided);
  const Tensor base_tensor(base);
  const Sizes shape(view->shape, view->rank), stride(view->stride, view->rank);
  c.arg[0] = Value(base_tensor);
  c.arg[1] = Value(shape);
  c.arg[2] = Value(stride);
  const Sizes base_stride(base->stride, base->rank);
  c.arg[3] = Value(view->offset);
  c.arg[4] = Value(base_stride);
  c.arg[5] = Value(base->offset);
  c.n = 6;
  c.out.push_back(Tensor(view));
  record(c);
}

void changed_in_place(const Tensor& self) {
  if (!self->base) {
    ++self->generation;
    return;
  }
  static const Op& scatter = get_op("as_strided_scatter");
  Impl* base = self->base.get();
  const Tensor base_tensor(base);
  const Sizes shape = self.shape(), stride = self.strides();
  Call c(scatter);
  c.arg[0] = Value(base_tensor);
  c.arg[1] = Value(self);
  c.arg[2] = Value(shape);
  c.arg[3] = Value(stride);
  const Sizes base_stride = base_tensor.strides();
  c.arg[4] = Value(self->offset);
  c.arg[5] = Value(base_stride);
  c.arg[6] = Value(base->offset);
  c.n = 7;
  c.out.push_back(base_tensor);
  self->generation =
      base->generation;  // self's own node is the newest: edge_of must not refresh it
  record(c);
  self->generation = ++base->generation;
}

void follow(const Tensor& self, const Tensor& result) {
  self->node = result->node;
  self->output = result->output;
  self->requires_grad = result->requires_grad;
  if (self->base)
    self->generation = self->base->generation;
  else
    ++self->generation;
}

void take_over(const Tensor& self, const Tensor& result) {
  Tensor from = result;
  if (result.dtype() != self.dtype()) from = op<"to.dtype">(result, self.dtype());
  self->node = from->node;
  self->output = from->output;
  self->requires_grad = from->requires_grad;
  changed_in_place(self);
}

}  // namespace tycho::grad
