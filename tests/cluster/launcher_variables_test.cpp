#include "cluster/launcher_variables.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/cluster/environment.hpp>
#include <lockstep/cluster/roles.hpp>
#include <lockstep/cluster/tf_config_resolver.hpp>
#include <lockstep/error.hpp>

#include "cluster/launchers.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using namespace lockstep::test;
using cluster::ClusterSpec;
using cluster::EnvironmentVariables;
using cluster::from_environment;
using cluster::Resolver;

TEST_CASE("torchrun: a worker of rank and size; the first one's address", "[cluster][host]") {
  const std::shared_ptr<Resolver> resolver = from_environment(kTorchrun);
  const ClusterSpec spec = resolver->cluster_spec();
  CHECK(spec == ClusterSpec{{"worker", {"n1:29500", "", "", ""}}});
  CHECK(resolver->task_type() == "worker");
  CHECK(resolver->task_id() == 3);
  CHECK(resolver->local_rank() == 1);
  CHECK(resolver->local_size() == 2);
  CHECK(cluster::worker_count(spec, "worker", 3) == 4);
  CHECK(cluster::id_in_cluster(spec, "worker", 3) == 3);
  CHECK_FALSE(cluster::is_chief(spec, "worker", 3));
  const auto leader = cluster::collective_leader(spec, "worker", 3);
  CHECK(resolver->master(leader->type, leader->index) == "n1:29500");

  const auto by_hand = from_environment(
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "fe80::1"}, {"MASTER_PORT", "65535"}});
  CHECK(by_hand->cluster_spec() == ClusterSpec{{"worker", {"[fe80::1]:65535"}}});
  CHECK_FALSE(by_hand->local_rank());
  CHECK_FALSE(by_hand->local_size());
  for (const auto& [host, address] : {std::pair{"[::1]", "[::1]:29500"},
                                      {"fe80::1%eth0", "[fe80::1%eth0]:29500"},
                                      {"::ffff:10.0.0.1", "[::ffff:10.0.0.1]:29500"},
                                      {"10.0.0.1", "10.0.0.1:29500"},
                                      {"my_node-1.example.org.", "my_node-1.example.org.:29500"}})
    CHECK(workers(kTorchrun + EnvironmentVariables{{"MASTER_ADDR", host}}).at(0) == address);
}

TEST_CASE("torchrun: what is missing or wrong is refused", "[cluster][host]") {
  const auto with = [](std::string_view name, std::string_view value) {
    return kTorchrun + EnvironmentVariables{{std::string(name), std::string(value)}};
  };
  for (const Refused& row : std::vector<Refused>{
           {kTorchrun - "RANK", "RANK", "", "Start the program with torchrun"},
           {kTorchrun - "WORLD_SIZE", "WORLD_SIZE", "", "or set or unset all of its variables"},
           {kTorchrun - "MASTER_ADDR", "MASTER_ADDR", "", ""},
           {kTorchrun - "MASTER_PORT", "MASTER_PORT", "", ""},
           {{{"RANK", "0"}}, "WORLD_SIZE", "", ""},
           {{{"WORLD_SIZE", "2"}}, "RANK", "", ""},
           {with("RANK", "x"), "RANK", "x", "not a whole number from 0 to"},
           {with("RANK", "-1"), "RANK", "-1", "not a whole number"},
           {with("RANK", "1.5"), "RANK", "1.5", "not a whole number"},
           {with("RANK", " 1"), "RANK", " 1", "not a whole number"},
           {with("RANK", "99999999999"), "RANK", "99999999999", "not a whole number"},
           {with("WORLD_SIZE", "0"), "WORLD_SIZE", "0", "from 1 to 1048576"},
           {with("WORLD_SIZE", "1048577"), "WORLD_SIZE", "1048577", "from 1 to 1048576"},
           {with("RANK", "4"), "RANK", "4",
            "contradicts that WORLD_SIZE is '4', as ranks are below the size"},
           {with("LOCAL_RANK", "2"), "LOCAL_RANK", "2", "contradicts that LOCAL_WORLD_SIZE is '2'"},
           {with("LOCAL_RANK", "x"), "LOCAL_RANK", "x", "not a whole number"},
           {with("LOCAL_RANK", "4") - "LOCAL_WORLD_SIZE", "LOCAL_RANK", "4", "that WORLD_SIZE is '4'"},
           {with("LOCAL_WORLD_SIZE", "5"), "LOCAL_WORLD_SIZE", "5", "contradicts that WORLD_SIZE is '4'"},
           {with("LOCAL_WORLD_SIZE", "0"), "LOCAL_WORLD_SIZE", "0", "from 1 to"},
           {with("MASTER_PORT", "0"), "MASTER_PORT", "0", "from 1 to 65535"},
           {with("MASTER_PORT", "65536"), "MASTER_PORT", "65536", "from 1 to 65535"},
           {with("MASTER_PORT", "http"), "MASTER_PORT", "http", "from 1 to 65535"},
           {with("MASTER_ADDR", "h ost;rm"), "MASTER_ADDR", "h ost;rm",
            "not the name or the address of a host"},
           {with("MASTER_ADDR", "tcp://h:3"), "MASTER_ADDR", "tcp://h:3", "not the name or the address"},
           {with("MASTER_ADDR", "h:3"), "MASTER_ADDR", "h:3", "not the name or the address"},
           {with("MASTER_ADDR", "[fe80::1"), "MASTER_ADDR", "[fe80::1", "not the name or the address"},
           {with("MASTER_ADDR", "[h]"), "MASTER_ADDR", "[h]", "not the name or the address"},
           {with("MASTER_ADDR", "fe80::1%"), "MASTER_ADDR", "fe80::1%", "not the name or the address"},
           {with("MASTER_ADDR", "-h"), "MASTER_ADDR", "-h", "not the name or the address"},
       })
    check_refused("torchrun", row);
  CHECK_NOTHROW(from_environment(with("MASTER_ADDR", std::string(255, 'h'))));
  CHECK_THROWS_MATCHES(from_environment(with("MASTER_ADDR", std::string(256, 'h'))), InvalidArgument,
                       says("MASTER_ADDR", "not the name or the address of a host"));
}

TEST_CASE("Open MPI: a worker of rank and size; on one host its leader is there", "[cluster][host]") {
  const std::shared_ptr<Resolver> resolver = from_environment(kOpenMpi);
  CHECK(resolver->cluster_spec() == ClusterSpec{{"worker", {"localhost:8888", "", ""}}});
  CHECK(resolver->task_type() == "worker");
  CHECK(resolver->task_id() == 1);
  CHECK(resolver->local_rank() == 1);
  CHECK(resolver->local_size() == 3);

  const EnvironmentVariables two_hosts = kOpenMpi + EnvironmentVariables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  CHECK(workers(two_hosts).at(0).empty());
  CHECK(workers(two_hosts + EnvironmentVariables{{"MASTER_ADDR", "n7"}}).at(0) == "n7:8888");
  CHECK(workers(two_hosts + EnvironmentVariables{{"MASTER_ADDR", "n7"}, {"MASTER_PORT", "9"}}).at(0) ==
        "n7:9");
  CHECK(workers(kOpenMpi + EnvironmentVariables{{"MASTER_PORT", "9"}}).at(0) == "localhost:9");
  CHECK(workers({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}).at(0) == "localhost:8888");
  CHECK(workers({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}).at(0).empty());
}

TEST_CASE("Open MPI: what is missing or wrong is refused", "[cluster][host]") {
  const auto with = [](std::string_view name, std::string_view value) {
    return kOpenMpi + EnvironmentVariables{{std::string(name), std::string(value)}};
  };
  const std::string rank = "OMPI_COMM_WORLD_RANK", size = "OMPI_COMM_WORLD_SIZE";
  const std::string local_rank = "OMPI_COMM_WORLD_LOCAL_RANK", local_size = "OMPI_COMM_WORLD_LOCAL_SIZE";
  for (const Refused& row : std::vector<Refused>{
           {kOpenMpi - rank, rank, "", "Start the program with Open MPI's mpirun"},
           {kOpenMpi - size, size, "", ""},
           {with(rank, "one"), rank, "one", "not a whole number"},
           {with(size, "-3"), size, "-3", "not a whole number from 1"},
           {with(rank, "3"), rank, "3", "contradicts that " + size + " is '3'"},
           {with(local_rank, "3"), local_rank, "3", "contradicts that " + local_size + " is '3'"},
           {with(local_size, "4"), local_size, "4", "contradicts that " + size + " is '3'"},
           {with("MASTER_PORT", "x"), "MASTER_PORT", "x", "from 1 to 65535"},
       })
    check_refused("Open MPI's mpirun", row);
}

TEST_CASE("launchers that tell ranks and sizes: a worker; on one host its leader is there",
          "[cluster][host]") {
  struct Names {
    std::string launcher, rank, size, local_rank, local_size;
  };
  const auto names = GENERATE(
      Names{"MVAPICH2's mpirun_rsh", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
            "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
      Names{"MPICH's or Intel MPI's mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
      Names{"MPICH's or Intel MPI's mpiexec", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
      Names{"LSF's jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK",
            "JSM_NAMESPACE_LOCAL_SIZE"});
  CAPTURE(names.rank, names.local_rank);
  const EnvironmentVariables all = {
      {names.rank, "2"}, {names.size, "3"}, {names.local_rank, "1"}, {names.local_size, "2"}};
  const auto resolver = from_environment(all);
  CHECK(resolver->cluster_spec() == ClusterSpec{{"worker", {"", "", ""}}});
  CHECK(resolver->task_type() == "worker");
  CHECK(resolver->task_id() == 2);
  CHECK(resolver->local_rank() == 1);
  CHECK(resolver->local_size() == 2);
  CHECK(workers(all + EnvironmentVariables{{"MASTER_ADDR", "n7"}, {"MASTER_PORT", "9"}}).at(0) == "n7:9");
  CHECK(workers(all + EnvironmentVariables{{names.local_size, "3"}}).at(0) == "localhost:8888");
  CHECK_FALSE(from_environment(all - names.local_rank - names.local_size)->local_size());

  check_refused(names.launcher,
                {all - names.size, names.size, "", "Start the program with " + names.launcher});
  check_refused(names.launcher, {all - names.rank, names.rank, "", ""});
  check_refused(names.launcher, {all + EnvironmentVariables{{names.rank, "3"}}, names.rank, "3",
                                 "contradicts that " + names.size + " is '3'"});
}

TEST_CASE("Flux: a worker of its job's tasks", "[cluster][host]") {
  const EnvironmentVariables flux = {
      {"FLUX_TASK_RANK", "2"}, {"FLUX_JOB_SIZE", "4"}, {"FLUX_TASK_LOCAL_ID", "1"}};
  const auto resolver = from_environment(flux + EnvironmentVariables{{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}});
  CHECK(resolver->cluster_spec() == ClusterSpec{{"worker", {"", "", "", ""}}});
  CHECK(resolver->task_id() == 2);
  CHECK(resolver->local_rank() == 1);
  CHECK_FALSE(resolver->local_size());
  CHECK(from_environment(flux + EnvironmentVariables{{"PMIX_RANK", "2"}})->task_id() == 2);
  const EnvironmentVariables in_slurm = {// srun started Flux itself, as two brokers
                                         {"SLURM_PROCID", "1"},
                                         {"SLURM_STEP_NUM_TASKS", "2"},
                                         {"PMI_RANK", "2"},
                                         {"PMI_SIZE", "4"}};
  CHECK(from_environment(flux + in_slurm)->local_rank() == 1);
  CHECK(from_environment(flux + EnvironmentVariables{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})
            ->cluster_spec()
            .num_tasks() == 2);
  check_refused("Flux", {flux + EnvironmentVariables{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}, "PMI_RANK", "1",
                         "contradicts that FLUX_TASK_RANK is '2', as a process has one rank"});
  check_refused("Flux", {flux - "FLUX_JOB_SIZE", "FLUX_JOB_SIZE", "", "Start the program with Flux"});
}

TEST_CASE("an mpiexec within a Slurm job tells its own ranks; srun's PMI is Slurm's", "[cluster][host]") {
  const auto pmi = [](const char* rank, const char* size) {
    return EnvironmentVariables{{"PMI_RANK", rank}, {"PMI_SIZE", size}, {"MPI_LOCALNRANKS", size}};
  };
  const EnvironmentVariables batch = {{"SLURM_PROCID", "0"},
                                      {"SLURM_NTASKS", "3"},
                                      {"SLURM_JOB_NODELIST", "m1"},
                                      {"SLURM_TASKS_PER_NODE", "3"}};
  for (const char* rank : {"0", "1", "2"}) {
    const auto resolver = from_environment(batch + pmi(rank, "3"));
    CHECK(resolver->task_id() == std::stoi(rank));
    CHECK(resolver->cluster_spec() == ClusterSpec{{"worker", {"localhost:8888", "", ""}}});
  }
  const EnvironmentVariables step = kSlurm + EnvironmentVariables{{"SLURM_STEP_NUM_TASKS", "5"}};
  CHECK(workers(step + pmi("3", "5")) == workers(step));
  CHECK(workers(step + pmi("3", "5") + EnvironmentVariables{{"PMIX_RANK", "3"}}) == workers(step));
  CHECK(from_environment(step + pmi("7", "8"))->task_id() == 7);  // one mpiexec's process for each task
  check_refused("Slurm's srun",
                {step + pmi("2", "5"), "PMI_RANK", "2", "contradicts that SLURM_PROCID is '3'"});
}

TEST_CASE("launchers that tell no number of processes are refused by name", "[cluster][host]") {
  for (const auto& [name, launcher] : {std::pair<std::string, std::string>{"PMIX_RANK", "a PMIx launcher"},
                                       {"PALS_RANKID", "Cray PALS"},
                                       {"ALPS_APP_PE", "Cray's aprun"},
                                       {"LSF_PM_TASKID", "LSF's blaunch"}}) {
    const EnvironmentVariables variables = {{name, "1"}, {"LSB_DJOB_NUMPROC", "4"}};
    check_refused(launcher,
                  {variables, name, "1", "no variable tells how many processes there are. Set RANK"});
    CHECK(from_environment(variables + kTorchrun)->task_id() == 3);
    CHECK(from_environment(variables + kOpenMpi)->task_id() == 1);
  }
  check_refused("a PMIx launcher",
                {kSlurm + EnvironmentVariables{{"PMIX_RANK", "1"}}, "PMIX_RANK", "1", "no variable tells"});
}

TEST_CASE("an address is the master's, or another one", "[cluster][host]") {
  const cluster::EnvironmentVariables named{{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  CHECK(detail::is_master_address("node0:29500", named));
  CHECK_FALSE(detail::is_master_address("node0:29501", named));
  CHECK_FALSE(detail::is_master_address("node1:29500", named));
  CHECK_FALSE(detail::is_master_address("node0:29500", {}));
  CHECK(detail::is_master_address("[::1]:1", {{"MASTER_ADDR", "::1"}, {"MASTER_PORT", "1"}}));
}
