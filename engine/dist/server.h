// The server of a job: its store, its meeting, and the agreement of its ranks, on one thread. It
// serves from the launcher or the spawning parent, else from rank 0.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/dist/store.h"

namespace tycho::dist {

struct ServerOptions {
  std::string host = "127.0.0.1";  // what to listen at; empty: every address of this machine
  int port = 0;                    // 0: a free one
  std::string name;                // how others reach it, when that is another name than `host`
  std::string token;               // empty: a new one
  int world_size = -1;             // -1: the first rank to join says
  int served_by = -1;              // the rank in whose process it runs; -1: the job's parent
  Seconds to_prove{5};             // how long a connection may take to show that it knows the token
  // Processes of the same user and machine learn address and token under this name (token.h);
  // empty: the port's.
  std::string offered;
};

class Server {
 public:
  // Raises Reason::System: a port that is taken, no descriptors.
  static std::unique_ptr<Server> start(const ServerOptions& options = {});
  virtual ~Server() = default;  // ends it; ranks that are still there see Reason::Lost
  virtual const std::string& address() const = 0;  // "127.0.0.1:41234"
  virtual const std::string& token() const = 0;
  virtual int ranks_here() const = 0;
  // The rank that was the first to die or leave, -1: none yet. The others are told after this is
  // known.
  virtual int first_gone() const = 0;
  // Until all ranks that came have said goodbye. Looks for interrupts.
  virtual bool wait_for_goodbyes(Seconds at_most) = 0;
  virtual size_t connections() const = 0;
};

// What the parent of ranks puts into their environment, so that init_process_group finds it.
using Variables = std::vector<std::pair<std::string, std::string>>;
Variables rank_variables(const Server& server, int rank, int world_size, int local_rank,
                         int local_world_size);

}  // namespace tycho::dist
