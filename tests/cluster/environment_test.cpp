#include <cstdlib>

#include <catch2/catch_test_macros.hpp>

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

TEST_CASE("a process that nothing launched works alone", "[cluster][host]") {
  for (const EnvironmentVariables& variables :
       {EnvironmentVariables{},
        {{"HOME", "/"}},
        {{"TF_CONFIG", ""}, {"RANK", ""}, {"SLURM_PROCID", ""}},
        {{"TF_CONFIG", " \t\n"}, {"RANK", "  "}, {"PMI_RANK", " "}, {"PMIX_RANK", " "}},
        {{"LSF_PM_TASKID", "1"}, {"LSB_DJOB_NUMPROC", "1"}}}) {
    const std::shared_ptr<Resolver> resolver = from_environment(variables);
    CHECK(resolver->cluster_spec().empty());
    CHECK_FALSE(resolver->task_type());
    CHECK_FALSE(resolver->task_id());
    CHECK(resolver->master().empty());
  }
}

TEST_CASE("the environment is the process's", "[cluster][host]") {
  ::setenv("LOCKSTEP_TEST_VARIABLE", "a=b", 1);
  const EnvironmentVariables variables = cluster::environment_variables();
  CHECK(variables.at("LOCKSTEP_TEST_VARIABLE") == "a=b");
  ::unsetenv("LOCKSTEP_TEST_VARIABLE");
  CHECK_FALSE(cluster::environment_variables().contains("LOCKSTEP_TEST_VARIABLE"));
}

TEST_CASE("launchers go before each other: TF_CONFIG, torchrun, MPI, RANK, jsrun, Flux, Slurm",
          "[cluster][host]") {
  const EnvironmentVariables by_hand = kTorchrun - "TORCHELASTIC_RUN_ID";
  const EnvironmentVariables tf_config = {{"TF_CONFIG", kTwoWorkers}};
  const auto num_tasks = [](const EnvironmentVariables& variables) {
    return from_environment(variables)->cluster_spec().num_tasks();
  };
  CHECK(num_tasks(kSlurm) == 5);
  const EnvironmentVariables flux = {{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "6"}};
  const EnvironmentVariables jsrun = {{"JSM_NAMESPACE_RANK", "0"}, {"JSM_NAMESPACE_SIZE", "7"}};
  const EnvironmentVariables pmi = {{"PMI_RANK", "0"}, {"PMI_SIZE", "8"}};
  const EnvironmentVariables mvapich = {{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "9"}};
  CHECK(num_tasks(kSlurm + flux) == 6);
  CHECK(num_tasks(kSlurm + flux + jsrun) == 7);
  CHECK(num_tasks(kSlurm + by_hand + flux + jsrun) == 4);
  CHECK(num_tasks(kSlurm + by_hand + flux + jsrun + pmi) == 8);
  CHECK(num_tasks(kSlurm + by_hand + pmi + mvapich) == 9);
  CHECK(num_tasks(kSlurm + by_hand + pmi + mvapich + kOpenMpi) == 3);
  CHECK(num_tasks(kSlurm + by_hand) == 4);
  CHECK(num_tasks(kSlurm + by_hand + kOpenMpi) == 3);
  CHECK(num_tasks(kSlurm + kOpenMpi) == 3);
  CHECK(num_tasks(kSlurm + kOpenMpi + kTorchrun) == 4);
  CHECK(num_tasks(kSlurm + kOpenMpi + kTorchrun + tf_config) == 2);
  CHECK(num_tasks(kSlurm + EnvironmentVariables{{"TF_CONFIG", "{}"}}) == 0);
}

TEST_CASE("TF_CONFIG: its task is one of its cluster's", "[cluster][host]") {
  const std::shared_ptr<Resolver> resolver = from_environment({{"TF_CONFIG", kTwoWorkers}});
  CHECK(dynamic_cast<cluster::TfConfigResolver*>(resolver.get()) != nullptr);
  CHECK(resolver->cluster_spec() == ClusterSpec{{"worker", {"a:1", "b:1"}}});
  CHECK(resolver->task_type() == "worker");
  CHECK(resolver->task_id() == 1);
  CHECK(resolver->master() == "b:1");
  CHECK_NOTHROW(from_environment({{"TF_CONFIG", R"({"cluster": {"worker": ["a"]}})"}}));
  CHECK_NOTHROW(from_environment({{"TF_CONFIG", R"({"task": {"type": "worker", "index": 5}})"}}));
  CHECK_THROWS_MATCHES(
      from_environment(
          {{"TF_CONFIG", R"({"cluster": {"worker": ["a"]}, "task": {"type": "ps", "index": 2}})"}}),
      InvalidArgument,
      says(R"(TF_CONFIG is '{"cluster": {"worker": ["a"]})",
           "its task ps 2 is not one of its cluster {worker: [a]}"));
  CHECK_THROWS_MATCHES(from_environment({{"TF_CONFIG", "x"}}), InvalidArgument, says("TF_CONFIG is 'x'"));
}

TEST_CASE("TF_CONFIG: an evaluator works beside a cluster that does not list it", "[cluster][host]") {
  const auto with = [](const char* cluster) {
    return EnvironmentVariables{{"TF_CONFIG", std::string(R"({"cluster": {)") + cluster +
                                                  R"(}, "task": {"type": "evaluator", "index": 0}})"}};
  };
  const auto resolver = from_environment(with(R"("chief": ["c:1"], "worker": ["w:1"])"));
  CHECK(resolver->task_type() == "evaluator");
  CHECK(resolver->task_id() == 0);
  CHECK(resolver->cluster_spec() == ClusterSpec{{"chief", {"c:1"}}, {"worker", {"w:1"}}});
  CHECK(resolver->master().empty());
  CHECK(from_environment(with(R"("worker": ["w:1"], "evaluator": ["e:1"])"))->master() == "e:1");
  CHECK_THROWS_MATCHES(from_environment(with(R"("worker": ["w:1"], "evaluator": {"3": "e:1"})")),
                       InvalidArgument, says("its task evaluator 0 is not one of its cluster"));
}

TEST_CASE("Slurm: a batch script without a number of tasks is the first of those on its nodes",
          "[cluster][host]") {
  const EnvironmentVariables batch = {{"SLURM_PROCID", "0"},
                                      {"SLURM_LOCALID", "0"},
                                      {"SLURM_NODEID", "0"},
                                      {"SLURM_JOB_NODELIST", "n1"},
                                      {"SLURM_TASKS_PER_NODE", "1"}};
  const auto alone = from_environment(batch);
  CHECK(alone->cluster_spec() == ClusterSpec{{"worker", {"n1:8888"}}});
  CHECK(alone->task_id() == 0);
  CHECK(alone->local_size() == 1);
  CHECK(from_environment(kSlurm - "SLURM_NTASKS")->cluster_spec() ==
        from_environment(kSlurm)->cluster_spec());
}

TEST_CASE("Slurm: a worker of all tasks, with their addresses", "[cluster][host]") {
  const std::shared_ptr<Resolver> resolver = from_environment(kSlurm);
  CHECK(resolver->cluster_spec() ==
        ClusterSpec{{"worker", {"node01:8888", "node01:8889", "node02:8888", "node03:8888", "node03:8889"}}});
  CHECK(resolver->task_type() == "worker");
  CHECK(resolver->task_id() == 3);
  CHECK(resolver->local_rank() == 0);
  CHECK(resolver->local_size() == 2);
  CHECK(workers(kSlurm + EnvironmentVariables{{"MASTER_ADDR", "head"}, {"MASTER_PORT", "7"}}) ==
        std::map<int, std::string>{
            {0, "head:7"}, {1, "node01:8"}, {2, "node02:7"}, {3, "node03:7"}, {4, "node03:8"}});
}

TEST_CASE("Slurm: a step's variables go before the job's", "[cluster][host]") {
  const EnvironmentVariables step = kSlurm + EnvironmentVariables{{"SLURM_STEP_NUM_TASKS", "4"},
                                                                  {"SLURM_STEP_NODELIST", "a,b"},
                                                                  {"SLURM_NODEID", "1"},
                                                                  {"SLURM_STEP_TASKS_PER_NODE", "3,1"}};
  CHECK(from_environment(step)->cluster_spec() ==
        ClusterSpec{{"worker", {"a:8888", "a:8889", "a:8890", "b:8888"}}});
  CHECK(from_environment(step)->local_size() == 1);
  CHECK(from_environment((step - "SLURM_STEP_TASKS_PER_NODE"))->cluster_spec() ==
        ClusterSpec{{"worker", {"a:8888", "a:8889", "b:8888", "b:8889"}}});
}

TEST_CASE("Slurm: tasks may be cyclic; in other distributions only the first one's place is known",
          "[cluster][host]") {
  const auto with = [](const char* distribution) {
    return kSlurm - "SLURM_NODEID" + EnvironmentVariables{{"SLURM_DISTRIBUTION", distribution}};
  };
  const ClusterSpec blocks = from_environment(kSlurm)->cluster_spec();
  CHECK(from_environment(with("block"))->cluster_spec() == blocks);
  CHECK(from_environment(with("*:cyclic"))->cluster_spec() == blocks);
  CHECK(from_environment(with("Block:Block,Pack"))->cluster_spec() == blocks);
  CHECK(from_environment(with("cyclic:block"))->cluster_spec() ==
        ClusterSpec{{"worker", {"node01:8888", "node02:8888", "node03:8888", "node01:8889", "node03:8889"}}});
  CHECK(from_environment(with("cyclic") + EnvironmentVariables{{"SLURM_LOCALID", "1"}})->local_size() == 2);
  const auto plane = from_environment(with("plane=2"));
  CHECK(plane->cluster_spec() == ClusterSpec{{"worker", {"node01:8888", "", "", "", ""}}});
  CHECK(plane->local_rank() == 0);
  CHECK_FALSE(plane->local_size());
}

TEST_CASE("Slurm: three variables do", "[cluster][host]") {
  const auto resolver = from_environment(
      {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "node[01-03,7]"}});
  CHECK(resolver->cluster_spec() ==
        ClusterSpec{{"worker", {"node01:8888", "node02:8888", "node03:8888", "node7:8888"}}});
  CHECK(resolver->task_id() == 2);
  CHECK_FALSE(resolver->local_rank());
  CHECK(resolver->local_size() == 1);
}

TEST_CASE("Slurm: what is missing or wrong is refused", "[cluster][host]") {
  const auto with = [](std::string_view name, std::string_view value) {
    return kSlurm + EnvironmentVariables{{std::string(name), std::string(value)}};
  };
  for (const Refused& row : std::vector<Refused>{
           {kSlurm - "SLURM_NTASKS" - "SLURM_TASKS_PER_NODE", "SLURM_NTASKS", "",
            "Start the program with Slurm's srun"},
           {with("SLURM_PROCID", "5") - "SLURM_NTASKS", "SLURM_PROCID", "5",
            "contradicts that SLURM_TASKS_PER_NODE is '2,1,2'"},
           {with("SLURM_TASKS_PER_NODE", "2000000000(x3)") - "SLURM_NTASKS", "SLURM_TASKS_PER_NODE",
            "2000000000(x3)", "adds up to more than 1048576 tasks"},
           {with("MASTER_ADDR", "node02"), "MASTER_ADDR", "node02",
            "contradicts that SLURM_JOB_NODELIST is 'node[01-03]', as task 0 runs on the first node"},
           {with("PMIX_RANK", "0") + EnvironmentVariables{{"SLURM_STEP_NUM_TASKS", "5"}}, "PMIX_RANK", "0",
            "contradicts that SLURM_PROCID is '3', as a process has one rank"},
           {kSlurm - "SLURM_JOB_NODELIST", "SLURM_JOB_NODELIST", "", ""},
           {kSlurm - "SLURM_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "",
            "5 tasks on 3 nodes are not equally many"},
           {with("SLURM_PROCID", "x"), "SLURM_PROCID", "x", "not a whole number"},
           {with("SLURM_PROCID", "5"), "SLURM_PROCID", "5", "contradicts that SLURM_NTASKS is '5'"},
           {with("SLURM_STEP_NUM_TASKS", "3"), "SLURM_PROCID", "3", "that SLURM_STEP_NUM_TASKS is '3'"},
           {with("SLURM_NTASKS", "0"), "SLURM_NTASKS", "0", "not a whole number from 1"},
           {with("SLURM_NTASKS", "6"), "SLURM_TASKS_PER_NODE", "2,1,2",
            "contradicts that SLURM_NTASKS is '6', as it adds up to"},
           {with("SLURM_TASKS_PER_NODE", "2147483647(x3)"), "SLURM_TASKS_PER_NODE", "2147483647(x3)",
            "contradicts that SLURM_NTASKS is '5'"},
           {with("SLURM_JOB_NODELIST", "a,b"), "SLURM_TASKS_PER_NODE", "2,1,2",
            "contradicts that SLURM_JOB_NODELIST is 'a,b', as it has a number for each node"},
           {with("SLURM_JOB_NODELIST", "a[1"), "SLURM_JOB_NODELIST", "a[1", "a bracket is not closed"},
           {with("SLURM_STEP_NODELIST", "a["), "SLURM_STEP_NODELIST", "a[", "is not a range"},
           {with("SLURM_TASKS_PER_NODE", "2,x"), "SLURM_TASKS_PER_NODE", "2,x",
            "'x' is not a number of tasks"},
           {with("SLURM_LOCALID", "2"), "SLURM_LOCALID", "2",
            "contradicts that SLURM_TASKS_PER_NODE is '2,1,2'"},
           {with("SLURM_LOCALID", "9"), "SLURM_LOCALID", "9", "contradicts that SLURM_NTASKS is '5'"},
           {with("SLURM_NODEID", "3"), "SLURM_NODEID", "3", "not a whole number from 0 to 2"},
           {with("MASTER_PORT", "65535"), "MASTER_PORT", "65535", "task 1 is number 1 on its node"},
       })
    check_refused("Slurm's srun", row);
}
