// What ranks ask of each other, as plain values: collectives, the memory they move, and what can go
// wrong. Nothing here is global: a rank is an object (job.h), so a test runs four of them as
// threads of one process, and a program has one.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/where.h"
#include "engine/tensor/device.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/sizes.h"

namespace tycho::dist {

enum class Verb : uint8_t {
  AllReduce,
  Broadcast,
  Reduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Gather,
  Scatter,
  Barrier
};
enum class RedOp : uint8_t { Sum, Avg, Product, Min, Max, Band, Bor, Bxor };
bool reduces(Verb verb);           // do the ranks' values become one?
const char* verb_name(Verb verb);  // "all_reduce", as in torch.distributed
const char* red_name(RedOp red);   // "sum"

// Contiguous elements.
struct Span {
  void* p = nullptr;
  int64_t n = 0;  // elements
  DType t = DType::Float32;
  Device d = {};
  int64_t bytes() const { return n * dtype_size(t); }
};

// As memcpy; of no bytes, which may have no address.
inline void copy_bytes(void* to, const void* from, size_t n) {
  if (n > 0 && to != from) std::memcpy(to, from, n);
}

// One collective, as every rank of the group must ask for it. All fields but the line, and
// all_to_all's splits (they match in pairs), must be equal; `hash` covers them.
struct Desc {
  Verb verb = Verb::Barrier;
  RedOp red = RedOp::Sum;
  DType dtype = DType::Float32;
  int32_t root = -1;         // of the group; -1: none
  uint32_t group = 0;        // Group::id
  uint32_t seq = 0;          // counts the group's collectives from 1
  Sizes shape;               // of one rank's share, as the user sees it
  Where line;                // of the user's script
  const char* of = nullptr;  // what asks for it, where that is not the script itself
  // all_to_all: elements for and from each rank.
  std::vector<int64_t> send, receive;
  // Of this rank alone (Transport::issue): where its stream was when the collective was asked for,
  // and whether the caller goes on without it.
  Device device;
  int32_t stream = 0;
  uint64_t mark = 0;
  bool async = false;

  uint64_t hash() const;
  std::string text() const;  // "all_reduce sum float32 [784, 10]"
};

// Collectives that this thread asks for while it lives are those of a part of the library: its name
// stands in the table of ranks that disagree ("all_gather float32 [9] of SyncBatchNorm").
extern constinit thread_local const char* asks_for;
struct AsksFor {
  const char* before = asks_for;
  explicit AsksFor(const char* part) { asks_for = part; }
  ~AsksFor() { asks_for = before; }
  AsksFor(const AsksFor&) = delete;
};

// Why ranks cannot go on. Thrown as a DistError by every call after it.
enum class Reason : uint8_t {
  None,
  Died,      // a process or host is gone
  Left,      // it ended in an orderly way before the others
  Timeout,   // it did not come
  Lost,      // the server is gone
  Disagree,  // ranks asked for different things; nothing was sent
  Refused,   // wrong token, a rank that exists twice, not a member
  System     // memory, descriptors, sockets
};
const char* reason_name(Reason reason);  // "died", as scripts read it in err.reason

struct Failure {
  Reason reason = Reason::None;
  std::vector<int> ranks;  // the culprits, as ranks of the world
  std::string text;  // "rank 2 (pid 4711 on h1) died; rank 0 was in all_reduce 17 at train.lua:41"
};

// COLL-1: what ranks asked for when they do not agree, for the header in shared memory and the server
// alike. The culprits are those who differ from most, or all where no request has most.
struct Asked {
  int rank = 0;  // of the world
  uint64_t hash = 0;
  std::string text, line;  // Desc::text, to_string(Desc::line)
};
Failure disagreement(uint32_t group, uint32_t seq, const std::vector<Asked>& asked);

// Of all_to_all: what one rank sends is not what the other expects.
Failure split_disagreement(const Desc& desc, int from, int to, int64_t sends, int64_t expects);

// "rank 2", "ranks 1, 2 and 5", "ranks 0 to 7"
std::string ranks_text(const std::vector<int>& ranks);

// In Lua: err.kind = "distributed", err.reason, err.ranks, err.op, err.seq.
struct DistError : Error {
  Reason reason;
  std::vector<int> ranks;
  uint32_t seq = 0;
  explicit DistError(Failure f, std::string hint = {})
      : Error(Kind::Distributed, std::move(f.text), std::move(hint)),
        reason(f.reason),
        ranks(std::move(f.ranks)) {}
};

}  // namespace tycho::dist
