// Reading the environment.
#include "engine/dist/env.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <optional>

#include "engine/dist/socket.h"
#include "engine/dist/token.h"

namespace tycho::dist {
namespace {

// Who starts processes says in its own words which rank each of them is.
struct System {
  const char *name, *rank, *size, *other_size, *local_rank, *local_size;
  const char* job[2];  // what is the same for all ranks of one job only
};
constexpr System kSystems[] = {
    {"", "RANK", "WORLD_SIZE", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", {"", ""}},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"PMI",
     "PMI_RANK",
     "PMI_SIZE",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     {"PMI_JOBID", "PMI_PORT"}},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     "SLURM_NTASKS_PER_NODE",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

std::string variable(const char* name) {
  const char* const v = *name ? std::getenv(name) : nullptr;
  return v ? v : "";
}

std::optional<int> number(const std::string& text) {
  int n = 0;
  const auto [end, e] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (e != std::errc() || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

std::optional<int> number_variable(const char* name) {
  const std::string v = variable(name);
  if (v.empty()) return std::nullopt;
  const auto n = number(v);
  TYCHO_CHECK(Kind::Value, n, "%s is \"%s\": it wants a whole number from 0", name, v.c_str());
  return n;
}

// Rank, size and places on this machine, of what the script has not said.
const System* read_system(Env& e) {
  for (const System& s : kSystems) {
    const auto rank = number_variable(s.rank);
    auto size = number_variable(s.size);
    if (!size) size = number_variable(s.other_size);
    if (!rank && !size) continue;
    const bool named = !*s.name;
    TYCHO_CHECK(Kind::Value, named || (rank && size), "%s has set %s, but not %s", s.name,
                rank ? s.rank : s.size, rank ? s.size : s.rank);
    if (e.rank < 0 && rank) e.rank = *rank;
    if (e.world_size < 0 && size) e.world_size = *size;
    const auto local_rank = number_variable(s.local_rank);
    const auto local_size = number_variable(s.local_size);
    if (local_rank) e.local_rank = *local_rank;
    if (local_size) e.local_world_size = *local_size;
    if (!local_rank || !local_size) e.local_world_size = 0;  // not known
    return &s;
  }
  e.local_world_size = 0;
  return nullptr;
}

// "h[1-4,7],x3" begins with h1.
std::string first_host(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of(",-]", bracket + 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

bool numeric(const std::string& host) {
  return host.find_first_not_of("0123456789.") == std::string::npos ||
         host.find(':') != std::string::npos;
}

// Rank 0 serves at an address that all know.
void at_address(Env& e, const Address& a) {
  e.address = to_string(a);
  e.serves = e.rank == 0;
  const bool here = is_loopback(a.host);
  e.bind = here || numeric(a.host) ? a.host : "";
  if (here && e.local_world_size == 0) e.local_rank = e.rank, e.local_world_size = e.world_size;
  if (!e.token.empty() || here || e.local_world_size == e.world_size) return;
  throw DistError(
      {Reason::Refused,
       {},
       format("the ranks that meet at %s may be on several machines: they need one secret word to "
              "know each other by, in TYCHO_TOKEN",
              e.address.c_str())},
      "export TYCHO_TOKEN=" + random_token() +
          "   (the same on every machine; not needed with MASTER_ADDR=127.0.0.1)");
}

void by_system(Env& e, const System& s) {
  const bool slurm = s.rank == std::string("SLURM_PROCID");
  std::string job = variable(s.job[0]);
  const std::string step = variable(s.job[1]);
  if (slurm && e.local_world_size == 0 && number_variable("SLURM_NNODES").value_or(0) == 1)
    e.local_world_size = e.world_size;
  if (e.local_world_size >= e.world_size) {
    e.local_world_size = e.world_size;
    e.serves = e.rank == 0;
    if (job.empty() || slurm) job += "-" + step;
    // Without a number of the job, its processes have the session in common.
    if (job == "-") job = std::to_string(getsid(0));
    e.offered = format("tycho-%s-%s", s.rank, job.c_str());
    return;
  }
  std::string nodes = variable("SLURM_STEP_NODELIST");
  if (nodes.empty()) nodes = variable("SLURM_JOB_NODELIST");
  if (nodes.empty()) nodes = variable("SLURM_NODELIST");
  if (!slurm || nodes.empty()) {
    fail(Kind::Value,
         format("%s has started ranks on several machines, and none knows where rank 0 is", s.name),
         "mpirun -x MASTER_ADDR=$(hostname -f) -x MASTER_PORT=29500 -x TYCHO_TOKEN=" +
             random_token() + " ...");
  }
  unsigned long id = std::strtoul(job.c_str(), nullptr, 10);
  id = id * 31 + std::strtoul(step.c_str(), nullptr, 10);
  at_address(e, {first_host(nodes), static_cast<int>(15000 + id % 15000)});
}

int port_variable() {
  const int port = number_variable("MASTER_PORT").value_or(29500);
  TYCHO_CHECK(Kind::Value, port >= 1 && port <= 65535, "MASTER_PORT is %d: ports are 1 to 65535",
              port);
  return port;
}

void need_numbers(const Env& e, const char* method) {
  TYCHO_CHECK(Kind::Value, e.rank >= 0, "%s: the rank is not known; give rank = ... or set RANK",
              method);
  TYCHO_CHECK(Kind::Value, e.world_size >= 1,
              "%s: the number of ranks is not known; give world_size = ... or set WORLD_SIZE",
              method);
  TYCHO_CHECK(Kind::Value, e.rank < e.world_size,
              "rank %d of a world of %d: ranks are from 0 to %d", e.rank, e.world_size,
              e.world_size - 1);
}

// "?rank=1&world_size=2" behind an address
void read_query(Env& e, const std::string& query) {
  for (size_t at = 0; at < query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const size_t is = query.find('=', at);
    const std::string name = query.substr(at, std::min(is, end) - at);
    const auto n = is < end ? number(query.substr(is + 1, end - is - 1)) : std::nullopt;
    TYCHO_CHECK(Kind::Value, n && (name == "rank" || name == "world_size"),
                "init_method: \"%s\" is neither rank=... nor world_size=...",
                query.substr(at, end - at).c_str());
    (name == "rank" ? e.rank : e.world_size) = *n;
    at = end + 1;
  }
}

void by_nothing(Env& e) {
  if (e.world_size < 0 && e.rank < 0) {
    e.rank = 0, e.world_size = 1, e.local_world_size = 1;
    return;
  }
  if (e.rank < 0) e.rank = 0;
  need_numbers(e, "init_process_group");
  e.local_rank = e.rank;
  e.local_world_size = e.world_size;
  if (e.world_size == 1) return;
  // The child of a script cannot be started in another terminal.
  const std::string words = read_file("/proc/self/cmdline");
  if (words.find('\0') == words.find(std::string_view("\0--process\0", 11)))
    fail(Kind::Value,
         format("rank %d of %d does not know where the others are: this process was started by a "
                "script, which is to say it: init_method = \"tcp://127.0.0.1:29500\" for all "
                "ranks, or torch.multiprocessing.spawn",
                e.rank, e.world_size));
  if (e.rank > 0)
    fail(Kind::Value, format("rank %d does not know where rank 0 is", e.rank),
         "start rank 0 first: it prints the line to start the others with");
  e.serves = e.print_line = true;
}

}  // namespace

Env find_env(const Told& told) {
  Env e;
  e.rank = told.rank;
  e.world_size = told.world_size;
  e.timeout = told.timeout;
  e.token = variable("TYCHO_TOKEN");
  const std::string& method = told.init_method;
  if (method.starts_with("tcp://")) {
    const size_t query = method.find('?');
    if (query != std::string::npos) read_query(e, method.substr(query + 1));
    read_system(e);
    need_numbers(e, "tcp://");
    const Address a =
        parse_address(method.substr(6, query == std::string::npos ? query : query - 6));
    TYCHO_CHECK(Kind::Value, a.port > 0, "init_method \"%s\": port 0 is none that others can find",
                method.c_str());
    at_address(e, a);
  } else if (method.starts_with("file://")) {
    e.file = method.substr(7);
    TYCHO_CHECK(Kind::Value, e.file.starts_with("/") && e.file.size() > 1,
                "init_method \"%s\": it wants the full path of a file, as file:///tmp/meet",
                method.c_str());
    read_system(e);
    need_numbers(e, "file://");
    e.serves = e.rank == 0;
    const std::string host = variable("MASTER_ADDR");
    if (e.serves && !host.empty() && !is_loopback(host)) {
      e.address = to_string(Address{host, number_variable("MASTER_PORT").value_or(0)});
      e.bind = numeric(host) ? host : "";
    }
    if (e.local_world_size == 0 && host.empty())
      e.local_rank = e.rank, e.local_world_size = e.world_size;
  } else if (method.empty() || method == "env://") {
    const System* const system = read_system(e);
    const std::string store = variable("TYCHO_STORE"), host = variable("MASTER_ADDR");
    if (!store.empty() && system) {
      need_numbers(e, "TYCHO_STORE");
      e.address = store;
    } else if (!host.empty() && (system || e.rank >= 0)) {
      need_numbers(e, "env://");
      at_address(e, {host, port_variable()});
    } else if (system && *system->name) {
      need_numbers(e, system->name);
      by_system(e, *system);
    } else {
      TYCHO_CHECK(Kind::Value, method.empty() || system,
                  "env:// wants RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment; "
                  "tycho run sets them");
      by_nothing(e);
    }
  } else {
    fail(Kind::Value,
         "init_method \"" + method + "\" is none of env://, tcp://host:port and file:///path");
  }
  if (e.local_world_size <= 0) e.local_rank = 0, e.local_world_size = 1;
  return e;
}

}  // namespace tycho::dist
