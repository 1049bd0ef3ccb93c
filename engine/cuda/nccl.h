// NCCL as a table of functions, loaded at first use; types and numbers are those of nccl.h, written
// once more. Its results are polled: a communicator that waits for others says so (kInProgress).
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/cuda/driver.h"

namespace tycho::cuda {

namespace nccl {
using Status = int;  // ncclResult_t
constexpr Status kGood = 0, kInProgress = 7;
using Comm = struct CommOf*;
struct Id {
  char bytes[128];
};
enum class Type : int { I8 = 0, U8 = 1, I32 = 2, I64 = 4, F16 = 6, F32 = 7, F64 = 8, BF16 = 9 };
enum class Red : int { Sum = 0, Product = 1, Max = 2, Min = 3, Avg = 4 };
// As of 2.18: newer libraries take what is missing as not set.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 0;
  int cga_cluster_size = INT32_MIN, min_ctas = INT32_MIN, max_ctas = INT32_MIN;
  const char* net_name = nullptr;
  int split_share = INT32_MIN;
};
}  // namespace nccl

// CALL(what it is called here, its name in the library, parameters)
#define TYCHO_NCCL(CALL)                                                                       \
  CALL(new_id, ncclGetUniqueId, (nccl::Id * id))                                               \
  CALL(start, ncclCommInitRankConfig,                                                          \
       (nccl::Comm * comm, int ranks, nccl::Id id, int rank, nccl::Config* config))            \
  CALL(end, ncclCommDestroy, (nccl::Comm comm))                                                \
  CALL(finalize, ncclCommFinalize, (nccl::Comm comm))                                          \
  CALL(abort, ncclCommAbort, (nccl::Comm comm))                                                \
  CALL(ask, ncclCommGetAsyncError, (nccl::Comm comm, nccl::Status * status))                   \
  CALL(all_reduce, ncclAllReduce,                                                              \
       (const void* in, void* out, size_t n, nccl::Type type, nccl::Red red, nccl::Comm comm,  \
        Stream stream))                                                                        \
  CALL(broadcast, ncclBroadcast,                                                               \
       (const void* in, void* out, size_t n, nccl::Type type, int root, nccl::Comm comm,       \
        Stream stream))                                                                        \
  CALL(reduce, ncclReduce,                                                                     \
       (const void* in, void* out, size_t n, nccl::Type type, nccl::Red red, int root,         \
        nccl::Comm comm, Stream stream))                                                       \
  CALL(all_gather, ncclAllGather,                                                              \
       (const void* in, void* out, size_t n, nccl::Type type, nccl::Comm comm, Stream stream)) \
  CALL(reduce_scatter, ncclReduceScatter,                                                      \
       (const void* in, void* out, size_t n, nccl::Type type, nccl::Red red, nccl::Comm comm,  \
        Stream stream))                                                                        \
  CALL(send, ncclSend,                                                                         \
       (const void* in, size_t n, nccl::Type type, int to, nccl::Comm comm, Stream stream))    \
  CALL(receive, ncclRecv,                                                                      \
       (void* out, size_t n, nccl::Type type, int from, nccl::Comm comm, Stream stream))       \
  CALL(begin_group, ncclGroupStart, ())                                                        \
  CALL(end_group, ncclGroupEnd, ())

struct Nccl {
#define TYCHO_CALL(here, there, parameters) nccl::Status(*here) parameters = nullptr;
  TYCHO_NCCL(TYCHO_CALL)
#undef TYCHO_CALL
  const char* (*error_text)(nccl::Status status) = nullptr;  // ncclGetErrorString
};

const Nccl& nccl_library();        // raises Kind::Device, and says what to install
void set_nccl(const Nccl* table);  // of tests; null: the library

}  // namespace tycho::cuda
