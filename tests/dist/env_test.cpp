// Where ranks meet: what is said to init_process_group, and what launch systems leave in the
// environment.
#include "engine/dist/env.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "engine/dist/socket.h"
#include "engine/dist/token.h"
#include "tests/dist/ranks.h"

namespace tycho::dist {
namespace {

const char* const kNames[] = {"RANK",
                              "WORLD_SIZE",
                              "LOCAL_RANK",
                              "LOCAL_WORLD_SIZE",
                              "MASTER_ADDR",
                              "MASTER_PORT",
                              "TYCHO_STORE",
                              "TYCHO_TOKEN",
                              "OMPI_COMM_WORLD_RANK",
                              "OMPI_COMM_WORLD_SIZE",
                              "OMPI_COMM_WORLD_LOCAL_RANK",
                              "OMPI_COMM_WORLD_LOCAL_SIZE",
                              "PMIX_NAMESPACE",
                              "OMPI_MCA_ess_base_jobid",
                              "PMI_RANK",
                              "PMI_SIZE",
                              "PMI_JOBID",
                              "PMI_PORT",
                              "MPI_LOCALRANKID",
                              "MPI_LOCALNRANKS",
                              "SLURM_PROCID",
                              "SLURM_NTASKS",
                              "SLURM_STEP_NUM_TASKS",
                              "SLURM_LOCALID",
                              "SLURM_NTASKS_PER_NODE",
                              "SLURM_NNODES",
                              "SLURM_JOB_ID",
                              "SLURM_STEP_ID",
                              "SLURM_STEP_NODELIST",
                              "SLURM_JOB_NODELIST",
                              "SLURM_NODELIST"};

// The environment has these variables only, of all that say where ranks meet.
Env env_with(const Variables& variables, const Told& told = {}) {
  for (const char* name : kNames) unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  struct Clear {
    ~Clear() {
      for (const char* name : kNames) unsetenv(name);
    }
  } clear;
  return find_env(told);
}

std::string error_with(const Variables& variables, const Told& told = {}) {
  return outcome([&] { env_with(variables, told); }).text;
}

// All of them join, and agree on the sum of their ranks.
void meet(std::vector<Env> envs) {
  const HangLimit limit;
  std::vector<std::thread> threads;
  for (Env& e : envs) {
    e.init_timeout = Seconds(20);
    threads.emplace_back([&e, n = static_cast<int>(envs.size())] {
      const Outcome o = outcome([&] {
        const auto job = Job::join(e);
        job->store()->add("sum", e.rank);
        if (job->store()->add("count", 1) == n) job->store()->set("all", "");
        job->store()->get("all", Seconds(20));
        EXPECT_EQ(job->store()->add("sum", 0), n * (n - 1) / 2);
      });
      EXPECT_EQ(o.text, "") << "rank " << e.rank;
    });
  }
  for (auto& t : threads) t.join();
}

int free_port() { return port_of(listen_at("127.0.0.1", 0).get()); }

TEST(Env, NothingGivenIsAWorldOfOne) {
  const Env e = env_with({});
  EXPECT_EQ(e.rank, 0);
  EXPECT_EQ(e.world_size, 1);
  const auto job = Job::join(e);
  job->store()->set("k", "v");
  EXPECT_EQ(job->store()->get("k", Seconds(1)), "v");
  EXPECT_EQ(job->peer(0).pid, getpid());
}

TEST(Env, TheVariablesOfTorchrunMeetAtRank0) {
  const std::string port = std::to_string(free_port());
  std::vector<Env> envs;
  for (const char* rank : {"2", "0", "1"})
    envs.push_back(env_with({{"RANK", rank},
                             {"WORLD_SIZE", "3"},
                             {"MASTER_ADDR", "127.0.0.1"},
                             {"MASTER_PORT", port}}));
  EXPECT_EQ(envs[0].rank, 2);
  EXPECT_EQ(envs[0].local_rank, 2);
  EXPECT_EQ(envs[0].local_world_size, 3);
  EXPECT_FALSE(envs[0].serves);
  EXPECT_TRUE(envs[1].serves);
  EXPECT_EQ(envs[1].bind, "127.0.0.1");
  EXPECT_EQ(envs[0].address, "127.0.0.1:" + port);
  meet(envs);
}

TEST(Env, TheParentsStoreIsFound) {
  const auto server = Server::start();
  std::vector<Env> envs;
  for (int rank = 0; rank < 3; ++rank)
    envs.push_back(env_with(rank_variables(*server, rank, 3, rank, 3)));
  for (const Env& e : envs) {
    EXPECT_FALSE(e.serves);
    EXPECT_EQ(e.token, server->token());
    EXPECT_EQ(e.local_world_size, 3);
  }
  meet(envs);
}

TEST(Env, TcpAndArgumentsGoBeforeTheEnvironment) {
  const std::string at = "tcp://localhost:" + std::to_string(free_port());
  std::vector<Env> envs{env_with({{"RANK", "7"}, {"WORLD_SIZE", "9"}}, {at, 0, 2}),
                        env_with({}, {at + "?rank=1&world_size=2", -1, -1})};
  meet(envs);
}

TEST(Env, AFileIsWrittenForThisUserOnlyAndGoneWhenAllHaveMet) {
  char path[] = "/tmp/tycho_env_XXXXXX";
  close(mkstemp(path));
  unlink(path);
  const std::string method = std::string("file://") + path;
  std::vector<Env> envs;
  for (int rank = 0; rank < 3; ++rank) envs.push_back(env_with({}, {method, rank, 3}));
  // What a killed job left behind is passed over, as is somebody else's file.
  std::ofstream(path) << "tycho 127.0.0.1:" << free_port() << " " << random_token() << " "
                      << this_process().machine << "\n";
  meet(envs);
  EXPECT_NE(access(path, F_OK), 0);
  write_meeting_file(path, "127.0.0.1:1", random_token());
  struct stat about {};
  EXPECT_EQ(stat(path, &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  unlink(path);
  EXPECT_EQ(outcome([] { write_meeting_file("/nowhere/meet", "127.0.0.1:1", "x"); }).text,
            "io: cannot write /nowhere/meet, where ranks are to meet: No such file or directory");
}

TEST(Env, OpenMpiPmiAndSlurmOnOneMachineNeedNoAddress) {
  const std::string job = "job" + std::to_string(getpid());
  const auto ranks = [&](const std::function<Variables(const std::string&)>& of) {
    std::vector<Env> envs;
    for (const char* rank : {"1", "2", "0"}) envs.push_back(env_with(of(rank)));
    EXPECT_EQ(envs[1].rank, 2);
    EXPECT_EQ(envs[1].local_rank, 2);
    EXPECT_EQ(envs[1].local_world_size, 3);
    meet(envs);
  };
  ranks([&](const std::string& r) {
    return Variables{{"OMPI_COMM_WORLD_RANK", r},
                     {"OMPI_COMM_WORLD_SIZE", "3"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", r},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                     {"PMIX_NAMESPACE", job}};
  });
  ranks([&](const std::string& r) {
    return Variables{
        {"PMI_RANK", r}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", r}, {"MPI_LOCALNRANKS", "3"}};
  });
  ranks([&](const std::string& r) {
    return Variables{{"SLURM_PROCID", r},   {"SLURM_NTASKS", "3"},    {"SLURM_LOCALID", r},
                     {"SLURM_NNODES", "1"}, {"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", job}};
  });
}

TEST(Env, SlurmOnSeveralMachinesMeetsAtItsFirstOne) {
  const auto of = [](const char* rank, const char* nodes) {
    return env_with({{"SLURM_PROCID", rank},
                     {"SLURM_NTASKS", "8"},
                     {"SLURM_LOCALID", "1"},
                     {"SLURM_NTASKS_PER_NODE", "2"},
                     {"SLURM_NNODES", "4"},
                     {"SLURM_JOB_ID", "12"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_JOB_NODELIST", nodes},
                     {"TYCHO_TOKEN", "secret"}});
  };
  EXPECT_EQ(parse_address(of("3", "h[1-4]").address).host, "h1");
  EXPECT_EQ(parse_address(of("3", "node07,node09").address).host, "node07");
  EXPECT_EQ(parse_address(of("3", "gpu-[012,014-16].x,y").address).host, "gpu-012");
  EXPECT_EQ(of("3", "h[1-4]").address, of("0", "h[1-4]").address);
  EXPECT_TRUE(of("0", "h1").serves);
  EXPECT_EQ(of("0", "h1").bind, "");
  EXPECT_EQ(of("3", "h1").local_rank, 1);
  EXPECT_EQ(of("3", "h1").local_world_size, 2);
}

TEST(Env, SeveralMachinesNeedAToken) {
  const Variables v{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h1.example"}, {"MASTER_PORT", "29500"}};
  const Outcome o = outcome([&] { env_with(v); });
  EXPECT_EQ(o.reason, Reason::Refused);
  EXPECT_EQ(
      o.text,
      "the ranks that meet at h1.example:29500 may be on several machines: they need one secret "
      "word to know each other by, in TYCHO_TOKEN");
  EXPECT_EQ(o.hint.find("export TYCHO_TOKEN="), 0u);
  Variables with = v;
  with.emplace_back("TYCHO_TOKEN", "secret");
  EXPECT_EQ(env_with(with).address, "h1.example:29500");
}

TEST(Env, WhatDoesNotFitIsSaid) {
  EXPECT_EQ(error_with({{"RANK", "x"}, {"WORLD_SIZE", "2"}}),
            "value: RANK is \"x\": it wants a whole number from 0");
  EXPECT_EQ(error_with({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}}),
            "value: rank 2 of a world of 2: ranks are from 0 to 1");
  EXPECT_EQ(error_with({}, {"env://", -1, -1}),
            "value: env:// wants RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment; "
            "tycho run sets them");
  EXPECT_EQ(
      error_with({{"RANK", "1"}, {"MASTER_ADDR", "localhost"}}),
      "value: env://: the number of ranks is not known; give world_size = ... or set WORLD_SIZE");
  EXPECT_EQ(error_with({}, {"tcp://localhost", 0, 2}),
            "value: \"localhost\" is no address: a host and a port, as in 127.0.0.1:29500");
  EXPECT_EQ(error_with({}, {"tcp://localhost:1?rang=1", 0, 2}),
            "value: init_method: \"rang=1\" is neither rank=... nor world_size=...");
  EXPECT_EQ(
      error_with({}, {"file://meet", 0, 2}),
      "value: init_method \"file://meet\": it wants the full path of a file, as file:///tmp/meet");
  EXPECT_EQ(error_with({}, {"http://x", 0, 2}),
            "value: init_method \"http://x\" is none of env://, tcp://host:port and file:///path");
  EXPECT_EQ(error_with({}, {"", 1, 2}), "value: rank 1 does not know where rank 0 is");
  EXPECT_EQ(error_with({{"OMPI_COMM_WORLD_RANK", "1"}}),
            "value: Open MPI has set OMPI_COMM_WORLD_RANK, but not OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(
      error_with({{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
      "value: Open MPI has started ranks on several machines, and none knows where rank 0 is");
}

TEST(Env, Rank0WithoutAnAddressSaysHowToStartTheOthers) {
  Env zero = env_with({}, {"", -1, 2});
  EXPECT_TRUE(zero.serves);
  EXPECT_TRUE(zero.print_line);
  // The others are started with what the line says. A pipe takes it: what gtest captures can only be read
  // by ending the capture, and a line that came just then went by.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  const HangLimit limit;
  std::thread rank0([&] { EXPECT_EQ(outcome([&] { Job::join(zero); }).text, ""); });
  std::string line;
  const auto complete = [&] {
    const size_t at = line.find("MASTER_PORT=");
    return at != line.npos && line.find('\n', at) != line.npos;
  };
  char some[256];
  for (ssize_t n; !complete() && (n = read(ends[0], some, sizeof some)) > 0;) line.append(some, n);
  dup2(before, STDERR_FILENO);
  for (const int fd : {ends[0], ends[1], before}) close(fd);
  const std::string port = std::to_string(std::atoi(line.c_str() + line.find("MASTER_PORT=") + 12));
  EXPECT_NE(line.find("   RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " "),
            std::string::npos)
      << line;
  const Env one = env_with(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}});
  EXPECT_EQ(outcome([&] { Job::join(one); }).text, "");
  rank0.join();
}

}  // namespace
}  // namespace tycho::dist
