// What `tycho --version` says of the libraries in use.
#include <zlib.h>

#include "engine/cpu/library/trust.h"
#include "shell/repl.h"

namespace tycho::shell {

std::string library_versions() {
  return format("%s, zlib %s", cpu::onednn_in_use(), zlibVersion());
}

}  // namespace tycho::shell
