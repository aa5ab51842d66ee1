#pragma once

#include <map>
#include <string>
#include <string_view>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/cluster/environment.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"

/// The variables that launchers set for their processes.
namespace lockstep::test {

inline const cluster::EnvironmentVariables kTorchrun = {
    {"TORCHELASTIC_RUN_ID", "none"}, {"RANK", "3"},         {"WORLD_SIZE", "4"},     {"LOCAL_RANK", "1"},
    {"LOCAL_WORLD_SIZE", "2"},       {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}};
inline const cluster::EnvironmentVariables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                                                       {"OMPI_COMM_WORLD_SIZE", "3"},
                                                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
inline const cluster::EnvironmentVariables kSlurm = {{"SLURM_PROCID", "3"},
                                                     {"SLURM_NTASKS", "5"},
                                                     {"SLURM_LOCALID", "0"},
                                                     {"SLURM_NODEID", "2"},
                                                     {"SLURM_JOB_NODELIST", "node[01-03]"},
                                                     {"SLURM_TASKS_PER_NODE", "2,1,2"}};
inline constexpr const char* kTwoWorkers =
    R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})";

inline cluster::EnvironmentVariables operator+(cluster::EnvironmentVariables variables,
                                               const cluster::EnvironmentVariables& others) {
  for (const auto& [name, value] : others) variables[name] = value;
  return variables;
}

inline cluster::EnvironmentVariables operator-(cluster::EnvironmentVariables variables,
                                               std::string_view name) {
  variables.erase(variables.find(name));
  return variables;
}

inline std::map<int, std::string> workers(const cluster::EnvironmentVariables& variables) {
  return cluster::from_environment(variables)->cluster_spec().tasks("worker");
}

struct Refused {
  cluster::EnvironmentVariables variables;
  std::string name, value, why;
};

inline void check_refused(const std::string& launcher, const Refused& row) {
  CAPTURE(row.name, row.value, row.why);
  CHECK_THROWS_MATCHES(
      cluster::from_environment(row.variables), InvalidArgument,
      says("from_environment (" + launcher + "): " + row.name,
           row.name + (row.value.empty() ? " is not set" : " is '" + row.value + "'"), row.why));
}

}  // namespace lockstep::test
