// NCCL, which is part of the CUDA module (module/nccl.cpp); simulated devices have its rules over
// what moves the host's bytes.
#include "engine/base/module.h"
#include "engine/dist/group.h"

namespace tycho::dist {

bool has_nccl() { return has_module("cuda") || cuda_device_count() > 0; }

std::unique_ptr<Transport> make_nccl(const Members& members) {
  TYCHO_CHECK(Kind::Device, cuda_device_count() > 0,
              "backend \"nccl\" is for CUDA devices, and there is none; backend \"gloo\" takes "
              "tensors of every device");
  if (kernels_of(Device{0}) == BackendKind::Cpu) return nullptr;
  std::string why;
  using Make = std::unique_ptr<Transport>(const Members&);
  const auto make = reinterpret_cast<Make*>(module_symbol("cuda", "tycho_make_nccl", &why));
  if (!make) throw DistError({Reason::System, {}, "backend \"nccl\": " + why});
  return make(members);
}

}  // namespace tycho::dist
