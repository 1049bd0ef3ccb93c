// Where ranks meet, and which one this is: from what init_process_group was told, and from the
// environment of tycho run, torchrun, Open MPI, PMI or Slurm.
#pragma once
#include "engine/dist/job.h"

namespace tycho::dist {

struct Told {
  std::string init_method;  // "", "env://", "tcp://host:port", "file:///path"
  int rank = -1, world_size = -1;
  Seconds timeout{600};
};
// Raises Kind::Value for what does not fit together, with what to set.
Env find_env(const Told& told);

// What is still missing of address and token: waits for the file or the user socket of rank 0.
void find_server(Env& env, double until);
void write_meeting_file(const std::string& path, const std::string& address,
                        const std::string& token);
void print_meeting_line(const Env& env);
Job::Peer this_process();
std::string read_file(const char* path);  // empty: it cannot be read

}  // namespace tycho::dist
