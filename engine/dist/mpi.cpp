// Open MPI, where it was found when the program was built and is on this machine (module/mpi.cpp).
#include "engine/base/module.h"
#include "engine/dist/group.h"

namespace tycho::dist {

bool has_mpi() { return has_module("mpi"); }

std::unique_ptr<Transport> make_mpi(const Members& members) {
  std::string why;
  using Make = std::unique_ptr<Transport>(const Members&);
  const auto make = reinterpret_cast<Make*>(module_symbol("mpi", "tycho_make_mpi", &why));
  if (!make) throw DistError({Reason::System, {}, "backend \"mpi\": " + why});
  return make(members);
}

}  // namespace tycho::dist
