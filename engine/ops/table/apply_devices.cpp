// Calls on devices: where tensors may meet, whose kernels run, what streams and graphs are told, and
// the CPU's kernels for devices without their own. See apply_devices.h.
#include "engine/ops/table/apply_devices.h"

#include <algorithm>
#include <utility>

#include "engine/ops/random/random.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/observer.h"
#include "engine/tensor/read.h"

namespace tycho {

std::string public_name(const Op& op) {
  const std::string_view name = op.name;
  return std::string(name.substr(0, name.find('.')));
}

uint32_t devices_of_tensors(const Call& c) {
  uint32_t devices = 0;
  each_tensor(c, [&](const Impl* t, int) { devices |= KernelScope::bit(t->device); });
  for (const Tensor& t : c.out)
    if (t) devices |= KernelScope::bit(t.device());
  return devices;
}

BackendKind backend_of_tensors(const Call& c) {
  Device device;
  each_tensor(c, [&](const Impl* t, int) {
    if (device.is_cpu()) device = t->device;
  });
  for (int i = 0; i < c.n && device.is_cpu(); ++i)
    if (c.arg[i].tag == Tag::Device) device = c.arg[i].device;
  return kernels_of(device);
}

namespace {

// An argument's tensor: "argument 2 (other)", "item 2 of argument 1 (tensors)".
struct Place {
  const Impl* t = nullptr;
  int arg = 0;
  // Its number in a list, from 1; 0 where the argument is no list.
  int item(const Call& c) const {
    const Value& v = c.arg[arg];
    return v.tag == Tag::Tensors ? int(std::find(v.tensors, v.tensors + v.n, t) - v.tensors) + 1
                                 : 0;
  }
  std::string text(const Call& c) const {
    const std::string name = format("argument %d (%s)", arg + 1, c.op->params[arg].name.c_str());
    return item(c) ? format("item %d of ", item(c)) + name : name;
  }
  std::string name(const Call& c) const {
    const std::string& own = c.op->params[arg].name;
    return item(c) ? format("%s[%d]", own.c_str(), item(c)) : own;
  }
};

// How tensors of two arguments come to one device: parameters stay with their network, and what is
// computed with goes where they are.
std::string same_device(const Call& c, const Place& first, const Place& other) {
  const auto moved = [&](const Place& which, const Impl* to) {
    const std::string name = which.name(c), device = device_name(to->device);
    return name + " = " + name + ":to(\"" + device + "\")";
  };
  // Buffers, such as running means, lie where the parameters beside them do.
  bool parameter = false;
  each_tensor(c, [&](const Impl* t, int) {
    parameter |= t->device == other.t->device && t->requires_grad && !t->node;
  });
  const bool changes_first = c.inplace && first.arg == 0;
  if (first.t->device.is_cpu() && !changes_first) return moved(first, other.t);
  if (!parameter || (first.t->requires_grad && !first.t->node)) return moved(other, first.t);
  if (first.t->requires_grad) return moved(first, other.t);  // of a layer that lies elsewhere
  return "net:to(\"" + device_name(first.t->device) + "\")  -- all parameters of the network";
}

}  // namespace

void check_devices(const Call& c) {
  if (c.op->any_device) return;
  Place first;
  each_tensor(c, [&](const Impl* t, int arg) {
    const Place at{t, arg};
    // A number on the CPU may meet a device's tensors, but not take their values in place.
    if (!first.t || (first.t->rank == 0 && first.t->device.is_cpu() && !c.inplace)) {
      if (!first.t || !t->device.is_cpu()) first = at;
      return;
    }
    if (t->device == first.t->device || (t->rank == 0 && t->device.is_cpu())) return;
    fail(Kind::Device,
         format("%s: %s is on %s, %s on %s; tensors of different devices do not mix",
                public_name(*c.op).c_str(), first.text(c).c_str(),
                device_name(first.t->device).c_str(), at.text(c).c_str(),
                device_name(t->device).c_str()),
         same_device(c, first, at));
  });
}

void keep_for_graph(const Call& c) {
  each_tensor(c, [](const Impl* t, int) {
    if (capturing_on(t->device)) capturing->keep(t);
  });
}

void use_on_streams(const Call& c) {
  const auto use = [](const Impl* t, bool writes) {
    if (!t->device.is_cpu()) tycho::backend_of(t->device).use(t, writes);
  };
  each_tensor(c, [&](const Impl* t, int) { use(t, false); });
  for (const Tensor& t : c.out)
    if (t) use(t.get(), true);
  for (const int i : c.op->written_inputs)
    for (int k = 0; k < c.count(i); ++k) use(c.tensor(i, k).get(), true);
}

bool taken_by_graph(Call& c, Kernel kernel) {
  if (c.op->any_device || !touches_captured(c)) return false;
  if (c.op->size_from_values && !c.out.size())
    capturing->refuse(public_name(*c.op) +
                      ", whose result's shape depends on values, cannot be called");
  return capturing->recording().take(c, kernel);
}

void run_on_cpu(Call& c, Kernel kernel) {
  if (touches_captured(c))
    capturing->refuse(public_name(*c.op) + ", which runs on the CPU, cannot be called");
  Call host(*c.op);
  host.n = c.n;
  host.inplace = c.inplace;
  Device device;
  for (int i = 0; i < c.n; ++i) {
    host.arg[i] = c.arg[i];
    if (c.arg[i].tag == Tag::Tensor) {
      if (device.is_cpu()) device = c.arg[i].t->device;
      host.set(i, fetch(c.tensor(i)));
    } else if (c.arg[i].tag == Tag::Tensors) {
      std::vector<Tensor> list;
      for (int k = 0; k < c.count(i); ++k) {
        const Tensor& t = c.tensor(i, k);
        if (t && device.is_cpu()) device = t.device();
        list.push_back(t ? fetch(t) : t);
      }
      host.keep_list(i, std::move(list));
    } else if (c.arg[i].tag == Tag::Device) {
      if (device.is_cpu()) device = c.arg[i].device;
      host.arg[i] = Value(Device{});
    }
  }
  standing_observer->leaving_device(c, device);
  // Numbers are drawn from the device's stream, wherever they are made.
  DeviceGenerator generator{Device{}, generator_of(Device{})};
  for (int i = 0; i < c.n; ++i)
    if (c.op->params[static_cast<size_t>(i)].take == Take::Generator) {
      generator.stream = generator_of(c, i, device);
      host.arg[i] = Value(&generator);
    }
  c.op->shape(host);  // results that lie, and are filled beforehand, as the kernel expects
  kernel(host);
  for (int i = 0; i < c.out.size(); ++i)
    if (c.out[i]) copy_raw(c.out[i], host.out[i]);
  for (int i = c.out.size(); i < host.out.size(); ++i)
    c.out.push_back(host.out[i] ? sent(host.out[i], device) : host.out[i]);
  for (int i : c.op->written_inputs)
    for (int k = 0; k < c.count(i); ++k) copy_raw(c.tensor(i, k), host.tensor(i, k));
}

}  // namespace tycho
