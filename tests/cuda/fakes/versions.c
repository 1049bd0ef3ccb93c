// Libraries of NVIDIA's that have a version and nothing else: FAKE_VERSION=11.4 says which.
#include <stdio.h>
#include <stdlib.h>

static void version(int* major, int* minor) {
  const char* text = getenv("FAKE_VERSION");
  if (!text || sscanf(text, "%d.%d", major, minor) != 2) *major = *minor = 0;
}

int nvrtcVersion(int* major, int* minor) {
  version(major, minor);
  return 0;
}
int cuDriverGetVersion(int* out) {
  int major, minor;
  version(&major, &minor);
  *out = 1000 * major + 10 * minor;
  return 0;
}
size_t cudnnGetVersion(void) {
  int major, minor;
  version(&major, &minor);
  return (size_t)(major < 9 ? 1000 * major + 100 * minor : 10000 * major + 100 * minor);
}
int ncclGetVersion(int* out) {
  int major, minor;
  version(&major, &minor);
  *out = 10000 * major + 100 * minor;
  return 0;
}
