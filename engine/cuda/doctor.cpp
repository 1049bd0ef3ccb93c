// What a machine has for this module, and what it lacks.
#include "engine/cuda/doctor.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "engine/base/check.h"
#include "engine/cuda/driver.h"
#include "engine/cuda/libraries.h"
#include "engine/cuda/nvrtc.h"

namespace tycho::cuda {
namespace {

void add_devices(const Driver& cu, std::vector<DoctorRow>& rows) {
  int version = 0, count = 0;
  cu.driver_version(&version);
  rows.push_back({"driver", format("for CUDA %d.%d", version / 1000, version % 1000 / 10), ""});
  if (cu.device_count(&count) != kSuccess || count == 0) {
    rows.push_back({"devices", "the driver shows none",
                    std::getenv("CUDA_VISIBLE_DEVICES")
                        ? "CUDA_VISIBLE_DEVICES says which it shows: unset it"
                        : "nvidia-smi says more"});
    return;
  }
  for (int i = 0; i < count; ++i) {
    int device = 0, major = 0, minor = 0, units = 0;
    size_t bytes = 0;
    char name[96] = "";
    if (cu.device(&device, i) != kSuccess) continue;
    cu.device_name(name, sizeof name, device);
    cu.device_memory(&bytes, device);
    cu.attribute(&major, kMajor, device);
    cu.attribute(&minor, kMinor, device);
    cu.attribute(&units, kMultiprocessors, device);
    DoctorRow row{format("cuda:%d", i),
                  format("%s, sm_%d%d, %d multiprocessors, %.1f GB", name, major, minor, units,
                         static_cast<double>(bytes) / 1e9),
                  ""};
    if (10 * major + minor < kOldestArch)
      row.mend = format("too old: a GPU of compute capability %d.%d (Turing) or newer is needed",
                        kOldestArch / 10, kOldestArch % 10);
    rows.push_back(std::move(row));
  }
}

DoctorRow cache_row() {
  const std::string folder = cache_folder();
  if (folder.empty())
    return {"cache", "none: there is no home folder", "set HOME or XDG_CACHE_HOME"};
  DIR* dir = opendir(folder.c_str());
  if (!dir)
    return {"cache", folder + ": " + std::strerror(errno),
            "every program compiles its kernels anew; set XDG_CACHE_HOME to a folder of yours"};
  int kernels = 0;
  int64_t bytes = 0;
  while (const dirent* entry = readdir(dir)) {
    struct stat info;
    if (!std::strstr(entry->d_name, ".cubin") || fstatat(dirfd(dir), entry->d_name, &info, 0) != 0)
      continue;
    ++kernels;
    bytes += info.st_size;
  }
  closedir(dir);
  DoctorRow row{
      "cache",
      format("%s, %d kernels, %.1f MB", folder.c_str(), kernels, static_cast<double>(bytes) / 1e6),
      ""};
  if (access(folder.c_str(), W_OK) != 0)
    row.mend = "it cannot be written: every program compiles its kernels anew";
  return row;
}

// A home that was named and gives nothing is mistaken for one that is used.
void add_home(std::vector<DoctorRow>& rows) {
  const char* home = std::getenv("TYCHO_CUDA_HOME");
  if (!home || !*home) return;
  int used = 0;
  for (int i = 0; i < kLibraries; ++i)
    used += library(static_cast<LibraryId>(i)).path.starts_with(home);
  const bool there = access(home, F_OK) == 0;
  DoctorRow row{"CUDA home",
                format("%s (TYCHO_CUDA_HOME): %s", home,
                       !there  ? std::strerror(errno)
                       : !used ? "no library in it is used"
                               : format("%d of the libraries are from it", used).c_str()),
                ""};
  if (!used)
    row.mend =
        "name a CUDA toolkit, or the Python environment whose lib/python3*/site-packages/nvidia "
        "has the libraries";
  rows.push_back(std::move(row));
}

}  // namespace

std::vector<DoctorRow> examine() {
  std::vector<DoctorRow> rows;
  std::string why;
  if (const Driver* cu = load_driver(&why))
    add_devices(*cu, rows);
  else
    rows.push_back({"driver", why,
                    access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0
                        ? "install the newest driver: sudo apt-get install nvidia-driver, or "
                          "https://www.nvidia.com/drivers"
                        : "on a machine with an NVIDIA GPU: sudo apt-get install nvidia-driver"});
  for (int i = 0; i < kLibraries; ++i) {
    const FoundLibrary& found = library(static_cast<LibraryId>(i));
    rows.push_back({found.name,
                    found.handle ? found.version + "  " + found.path + ", for " + found.use
                                 : found.why + ", for " + found.use,
                    found.install});
  }
  add_home(rows);
  rows.push_back(cache_row());
  return rows;
}

}  // namespace tycho::cuda
