// The CUDA driver as a table of functions: everything that is asked of a GPU goes through it, so that
// no library of NVIDIA's is linked, and tests put a driver in its place that needs no GPU. Types and
// numbers are those of cuda.h, written once more, so that this compiles where there is no toolkit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace tycho::cuda {

using Result = int;  // CUresult
constexpr Result kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kNoImage = 209, kNotFound = 500,
                 kNotReady = 600;
using Address = uint64_t;  // CUdeviceptr
using Stream = struct StreamOf*;
using Event = struct EventOf*;
using Context = struct ContextOf*;
using Library = struct LibraryOf*;
using KernelHandle = struct KernelOf*;
using Pool = struct PoolOf*;
using Graph = struct GraphOf*;
using GraphRun = struct GraphRunOf*;

// CUdevice_attribute, CUstream_flags, CUevent_flags, CU_MEMHOSTALLOC, CUmemPool_attribute, CUstreamCaptureMode
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;
constexpr unsigned kNonBlocking = 1, kEventWithoutTime = 2;
constexpr unsigned kPortable = 1;
constexpr int kReleaseThreshold = 4;
constexpr int kOldestArch = 75;  // Turing
constexpr int kCaptureRelaxed = 2;

// CALL(what it is called here, its name in the driver, parameters)
#define TYCHO_CUDA_DRIVER(CALL)                                                                    \
  CALL(init, cuInit, (unsigned flags))                                                             \
  CALL(driver_version, cuDriverGetVersion, (int* version))                                         \
  CALL(error_name, cuGetErrorName, (Result error, const char** text))                              \
  CALL(error_text, cuGetErrorString, (Result error, const char** text))                            \
  CALL(device_count, cuDeviceGetCount, (int* count))                                               \
  CALL(device, cuDeviceGet, (int* device, int number))                                             \
  CALL(device_name, cuDeviceGetName, (char* text, int size, int device))                           \
  CALL(bus, cuDeviceGetPCIBusId, (char* text, int size, int device))                               \
  CALL(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, int device))                           \
  CALL(attribute, cuDeviceGetAttribute, (int* value, int attribute, int device))                   \
  CALL(retain_context, cuDevicePrimaryCtxRetain, (Context * context, int device))                  \
  CALL(set_context, cuCtxSetCurrent, (Context context))                                            \
  CALL(default_pool, cuDeviceGetDefaultMemPool, (Pool * pool, int device))                         \
  CALL(set_pool, cuMemPoolSetAttribute, (Pool pool, int attribute, void* value))                   \
  CALL(trim_pool, cuMemPoolTrimTo, (Pool pool, size_t keep))                                       \
  CALL(allocate, cuMemAllocAsync, (Address * memory, size_t bytes, Stream stream))                 \
  CALL(release, cuMemFreeAsync, (Address memory, Stream stream))                                   \
  CALL(free_memory, cuMemGetInfo_v2, (size_t * free, size_t * total))                              \
  CALL(allocate_pinned, cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags))             \
  CALL(release_pinned, cuMemFreeHost, (void* memory))                                              \
  CALL(copy_up, cuMemcpyHtoDAsync_v2, (Address to, const void* from, size_t bytes, Stream stream)) \
  CALL(copy_down, cuMemcpyDtoHAsync_v2, (void* to, Address from, size_t bytes, Stream stream))     \
  CALL(copy_within, cuMemcpyDtoDAsync_v2, (Address to, Address from, size_t bytes, Stream stream)) \
  CALL(copy_across, cuMemcpyPeerAsync,                                                             \
       (Address to, Context there, Address from, Context here, size_t bytes, Stream stream))       \
  CALL(set_bytes, cuMemsetD8Async, (Address to, uint8_t byte, size_t bytes, Stream stream))        \
  CALL(new_stream, cuStreamCreate, (Stream * stream, unsigned flags))                              \
  CALL(end_stream, cuStreamDestroy_v2, (Stream stream))                                            \
  CALL(finish_stream, cuStreamSynchronize, (Stream stream))                                        \
  CALL(stream_waits, cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))              \
  CALL(new_event, cuEventCreate, (Event * event, unsigned flags))                                  \
  CALL(end_event, cuEventDestroy_v2, (Event event))                                                \
  CALL(record_event, cuEventRecord, (Event event, Stream stream))                                  \
  CALL(ask_event, cuEventQuery, (Event event))                                                     \
  CALL(finish_event, cuEventSynchronize, (Event event))                                            \
  CALL(time_between, cuEventElapsedTime, (float* milliseconds, Event from, Event to))              \
  CALL(load_library, cuLibraryLoadData,                                                            \
       (Library * library, const void* code, int* options, void** values, unsigned n,              \
        int* library_options, void** library_values, unsigned library_n))                          \
  CALL(find_kernel, cuLibraryGetKernel,                                                            \
       (KernelHandle * kernel, Library library, const char* name))                                 \
  CALL(launch, cuLaunchKernel,                                                                     \
       (KernelHandle kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,      \
        unsigned bz, unsigned shared, Stream stream, void** arguments, void** extra))              \
  CALL(begin_capture, cuStreamBeginCapture_v2, (Stream stream, int mode))                          \
  CALL(end_capture, cuStreamEndCapture, (Stream stream, Graph * graph))                            \
  CALL(make_run, cuGraphInstantiateWithFlags,                                                      \
       (GraphRun * run, Graph graph, unsigned long long flags))                                    \
  CALL(run_graph, cuGraphLaunch, (GraphRun run, Stream stream))                                    \
  CALL(end_run, cuGraphExecDestroy, (GraphRun run))                                                \
  CALL(end_graph, cuGraphDestroy, (Graph graph))

struct Driver {
#define TYCHO_CALL(here, there, parameters) Result(*here) parameters = nullptr;
  TYCHO_CUDA_DRIVER(TYCHO_CALL)
#undef TYCHO_CALL
  // Where the compiled form of engine/cuda/kernels/FILE.cu lies; null when there is none.
  const void* (*code_of)(const char* file) = nullptr;
  // The kernels of elementwise rows (rows.h, programs.h); tests have theirs compiled. `known`: only
  // what was compiled before.
  const void* (*compile_row)(const std::string& source, int arch, bool known,
                             std::string* why) = nullptr;
};

// The machine's driver, loaded at the first call; null and a sentence in *why where there is none
// that will do. The kernels inside the program want a driver that is as new as their toolkit.
const Driver* load_driver(std::string* why);
bool fill_driver(Driver& d, const char* library, std::string* why);
extern int toolkit_version;  // 13000 for 13.0; 0 where the kernels are none of nvcc's
extern int driver_cuda;      // what load_driver's is for: 12040 for CUDA 12.4; 0 before
// The driver in use. Tests set theirs before anything is asked of it.
const Driver& driver();
void set_driver(const Driver* d);

// Raises what a call answered: Kind::Oom or Kind::Device, with the driver's words.
void check(Result result, const char* doing);

}  // namespace tycho::cuda
