// What `tycho --version` says of the libraries in use.
#include <dnnl.h>
#include <zlib.h>

#include "shell/repl.h"

namespace tycho::shell {

std::string library_versions() {
  const dnnl_version_t* v = dnnl_version();
  return format("oneDNN %d.%d.%d, zlib %s", v->major, v->minor, v->patch, zlibVersion());
}

}  // namespace tycho::shell
