// A compiler whose machine code is "code of " and the source: tests of the cache need no other.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int nvrtcVersion(int* major, int* minor) {
  const char* text = getenv("FAKE_NVRTC_VERSION");
  if (!text) text = getenv("FAKE_VERSION");
  if (!text || sscanf(text, "%d.%d", major, minor) != 2) *major = *minor = 0;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* n) { return *n = 1, 0; }
int nvrtcGetSupportedArchs(int* archs) { return *archs = 80, 0; }
int nvrtcCreateProgram(void** program, const char* source, const char* name, int n,
                       const char* const* texts, const char* const* names) {
  (void)name, (void)n, (void)texts, (void)names;
  const size_t size = strlen(source) + 9;
  *program = malloc(size);
  return snprintf(*program, size, "code of %s", source) < 0;
}
int nvrtcDestroyProgram(void** program) { return free(*program), 0; }
int nvrtcCompileProgram(void* program, int n, const char* const* options) {
  (void)n, (void)options;
  return strstr(program, "refuse") != NULL;
}
int nvrtcGetProgramLogSize(void* program, size_t* size) { return (void)program, *size = 8, 0; }
int nvrtcGetProgramLog(void* program, char* log) {
  return (void)program, strcpy(log, "refused"), 0;
}
int nvrtcGetCUBINSize(void* program, size_t* size) { return *size = strlen(program) + 1, 0; }
int nvrtcGetCUBIN(void* program, char* code) { return strcpy(code, program), 0; }
int nvrtcGetPTXSize(void* program, size_t* size) { return nvrtcGetCUBINSize(program, size); }
int nvrtcGetPTX(void* program, char* code) { return nvrtcGetCUBIN(program, code); }
