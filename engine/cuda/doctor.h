// What `tycho doctor` tells of GPUs: rows of a name, what was found, and what to do about it.
#pragma once
#include <string>
#include <vector>

namespace tycho::cuda {

struct DoctorRow {
  std::string name, found;
  std::string mend;  // "" where nothing is to be done
};

// The driver, devices, libraries and the cache of kernels. Starts the driver.
std::vector<DoctorRow> examine();

}  // namespace tycho::cuda
