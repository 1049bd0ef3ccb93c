// The options of `tycho run`: short ones, and torchrun's names for those who know them.
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "engine/dist/socket.h"
#include "engine/dist/token.h"
#include "engine/tensor/device.h"
#include "shell/launch.h"

namespace tycho::shell {
namespace {

constexpr char kHelp[] =
    "usage: tycho run [options] FILE.lua [arguments]\n"
    "       tycho run [options] -e CODE\n"
    "Starts ranks that work together (torch.distributed): each runs the script; "
    "init_process_group()\n"
    "finds the others. Their lines are shown with the rank in front: [r0]. When one fails, its "
    "error\n"
    "is shown first, and the others are ended.\n"
    "\n"
    "  -n N                ranks on this machine; auto: one for each GPU, else for each core\n"
    "  --nnodes N          machines; each runs this command with the same options but --node-rank\n"
    "  --node-rank R       which of them this is, from 0\n"
    "  --master HOST:PORT  where the machine of rank 0 is reached\n"
    "  --token-file FILE   a secret that all machines share, or the variable TYCHO_TOKEN\n"
    "  --max-restarts K    after a failure start all ranks again, K times at most (RESTART_COUNT\n"
    "                      tells the script how often; it goes on from its checkpoint)\n"
    "  --help              this text\n"
    "torchrun's names: --nproc-per-node (for -n), --master-addr, --master-port, --rdzv-endpoint "
    "(for\n"
    "--master), --standalone; --rdzv-backend and --rdzv-id are taken and not needed.\n"
    "\n"
    "Ctrl-C asks all ranks to end (scripts save their checkpoints), a second one kills them. The\n"
    "exit status is that of the rank that failed first, 128 + its signal, or 130 after Ctrl-C.\n"
    "Variables for the ranks: RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT\n"
    "RESTART_COUNT, and OMP_NUM_THREADS (cores / ranks) where it is not set.\n";

struct Bad {
  std::string text;
};

int number(const std::string& name, const std::string& text, int least, int most) {
  int n = 0;
  const char* const end = text.data() + text.size();
  const auto [p, e] = std::from_chars(text.data(), end, n);
  if (e != std::errc() || p != end || n < least || n > most)
    throw Bad{format("%s wants a number from %d to %d, not \"%s\"", name.c_str(), least, most,
                     text.c_str())};
  return n;
}

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0
             ? CPU_COUNT(&set)
             : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

constexpr int kRanksMost = 1024;

int count_ranks(const std::string& name, const std::string& text) {
  const int gpus = text == "auto" || text == "gpu" ? cuda_device_count() : 0;
  if (text == "gpu" && gpus == 0) throw Bad{name + " gpu: this machine has no CUDA device"};
  if (text == "auto" || text == "gpu") return gpus > 0 ? gpus : cores();
  if (text == "cpu") return cores();
  int n = 0;
  const auto [p, e] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (e != std::errc() || p != text.data() + text.size() || n < 1 || n > kRanksMost)
    throw Bad{format("%s wants a number of ranks from 1 to %d, or auto, not \"%s\"", name.c_str(),
                     kRanksMost, text.c_str())};
  return n;
}

std::string read_token(const std::string& path) {
  struct stat about {};
  std::ifstream in(path);
  if (!in || stat(path.c_str(), &about) != 0)
    throw Bad{"--token-file " + path + ": " + std::strerror(errno)};
  if (about.st_mode & 077)
    throw Bad{"--token-file " + path + ": others may read it; chmod 600 " + path};
  std::string token;
  in >> token;
  if (token.size() < 16)
    throw Bad{"--token-file " + path +
              ": it wants 16 characters or more, as from openssl rand -hex 16"};
  return token;
}

void set_master(RunOptions& o, const std::string& name, const std::string& text) {
  try {
    const dist::Address a = dist::parse_address(text);
    o.master = a.host;
    o.port = a.port;
  } catch (const Error&) {
    throw Bad{name + " wants a host and a port, as in 10.0.0.1:29500, not \"" + text + "\""};
  }
}

using Set = void (*)(RunOptions&, const std::string& name, const std::string& value);
const std::map<std::string, Set>& options() {
  static const Set ranks = [](RunOptions& o, const std::string& name, const std::string& v) {
    o.ranks = count_ranks(name, v);
  };
  static const Set nodes = [](RunOptions& o, const std::string& name, const std::string& v) {
    // torchrun's MIN:MAX, where both are the same.
    const size_t colon = v.find(':');
    if (colon != std::string::npos && v.substr(0, colon) != v.substr(colon + 1))
      throw Bad{name + " " + v + ": the number of machines does not change while a job runs"};
    o.nodes = number(name, v.substr(0, colon), 1, 10000);
  };
  static const Set master = set_master;
  static const std::map<std::string, Set> all{
      {"-n", ranks},
      {"--nproc-per-node", ranks},
      {"--nnodes", nodes},
      {"--node-rank", [](RunOptions& o, const std::string& name,
                         const std::string& v) { o.node = number(name, v, 0, 9999); }},
      {"--master", master},
      {"--rdzv-endpoint", master},
      {"--rdzv-backend", [](RunOptions&, const std::string&, const std::string&) {}},
      {"--rdzv-id", [](RunOptions&, const std::string&, const std::string&) {}},
      {"--master-addr",
       [](RunOptions& o, const std::string&, const std::string& v) { o.master = v; }},
      {"--master-port", [](RunOptions& o, const std::string& name,
                           const std::string& v) { o.port = number(name, v, 1, 65535); }},
      {"--token-file",
       [](RunOptions& o, const std::string&, const std::string& v) { o.token = read_token(v); }},
      {"--max-restarts", [](RunOptions& o, const std::string& name, const std::string& v) {
         o.restarts = number(name, v, 0, 1000000);
       }}};
  return all;
}

void check(RunOptions& o) {
  if (o.command.empty()) throw Bad{"which script is to be run?"};
  const std::string& file = o.command[0];
  if (file == "-e" && o.command.size() < 2) throw Bad{"-e wants a piece of code"};
  if (file != "-e" && access(file.c_str(), R_OK) != 0)
    throw Bad{"cannot read " + file + ": " + std::strerror(errno)};
  if (o.node >= o.nodes)
    throw Bad{format("--node-rank %d: of %d machine%s the last is %d (--nnodes)", o.node, o.nodes,
                     o.nodes == 1 ? "" : "s", o.nodes - 1)};
  const char* const token = std::getenv("TYCHO_TOKEN");
  if (o.token.empty() && token) o.token = token;
  if (o.nodes == 1) return;
  if (o.master.empty())
    throw Bad{
        "several machines meet at one of them: --master HOST:PORT, the machine of --node-rank 0"};
  if (o.port == 0) o.port = 29500;
  if (o.token.empty() && !dist::is_loopback(o.master))
    throw Bad{
        "several machines need one secret to know each other by, the same on all of them:\n"
        "   export TYCHO_TOKEN=" +
        dist::random_token()};
}

}  // namespace

bool is_run(int argc, char** argv) {
  return argc > 1 && !std::strcmp(argv[1], "run") && (argc > 2 || access("run", F_OK) != 0);
}

RunOptions read_run_options(const std::vector<std::string>& words) {
  RunOptions o;
  try {
    for (size_t i = 0; i < words.size(); ++i) {
      std::string name = words[i], value;
      if (name == "--help" || name == "-h") {
        std::fputs(kHelp, stdout);
        o.status = 0;
        return o;
      }
      if (name == "--" && i + 1 < words.size()) {
        o.command.assign(words.begin() + static_cast<long>(i) + 1, words.end());
        break;
      }
      if (name[0] != '-' || name == "-e") {
        o.command.assign(words.begin() + static_cast<long>(i), words.end());
        break;
      }
      const size_t is = name.find('=');
      const bool with_value = is != std::string::npos;
      if (with_value) value = name.substr(is + 1), name = name.substr(0, is);
      if (name.starts_with("--"))
        for (char& c : name)
          if (c == '_') c = '-';
      if (name == "--standalone") continue;
      std::string plain = name;
      // -n4
      if (name.starts_with("-n") && name.size() > 2 && std::isdigit(name[2]))
        plain = "-n", value = name.substr(2);
      const auto it = options().find(plain);
      if (it == options().end())
        throw Bad{"no option " + words[i] + "; tycho run --help lists them"};
      if (value.empty() && !with_value) {
        if (i + 1 == words.size()) throw Bad{plain + " wants a value"};
        value = words[++i];
      }
      it->second(o, plain, value);
    }
    check(o);
  } catch (const Bad& bad) {
    std::fprintf(stderr, "tycho run: %s\n", bad.text.c_str());
    o.status = 2;
  }
  return o;
}

}  // namespace tycho::shell
