#include <cstdint>
#include <sstream>
#include <string>

#include <lockstep/cluster/environment.hpp>
#include <lockstep/cluster/roles.hpp>
#include <lockstep/cluster/tf_config_resolver.hpp>

#include "fuzz/expect.hpp"

namespace {

using namespace lockstep::cluster;
using lockstep::test::accepts;
using lockstep::test::expect;

void check_roles(const ClusterSpec& spec, const Task& task) {
  const int id = id_in_cluster(spec, task.type, task.index);
  expect(0 <= id && id < worker_count(spec, task.type, task.index), "an id is not one of the workers'");
  const auto leader = collective_leader(spec, task.type, task.index);
  expect(!leader || is_chief(spec, leader->type, leader->index), "the leader is no chief");
}

}  // namespace

/// A value of TF_CONFIG: it is refused, or its cluster and task can be asked for everything.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const EnvironmentVariables variables = {{"TF_CONFIG", std::string(data, data + size)}};
  accepts("TF_CONFIG", [&] { static_cast<void>(from_environment(variables)); });
  accepts("TF_CONFIG", [&] {
    const TfConfigResolver resolver({}, variables);
    const ClusterSpec spec = resolver.cluster_spec();
    std::ostringstream() << spec;
    int num_tasks = 0;
    for (const std::string& job : spec.jobs()) {
      num_tasks += spec.num_tasks(job);
      expect(spec.is_sparse(job) || spec.tasks(job).empty() || spec.tasks(job).begin()->first == 0,
             "a list does not begin with task 0");
      for (const auto& [index, address] : spec.tasks(job)) {
        expect(index >= 0 && spec.task_address(job, index) == address, "a task has another address");
        const std::string master = resolver.master(job, index);  // a session master is every task's
        expect(master.ends_with(address) || master == resolver.master(), "a master has another address");
        accepts("", [&, task = Task{job, index}] { check_roles(spec, task); });
      }
    }
    expect(num_tasks == spec.num_tasks(), "tasks get lost");
    accepts("", [&] { static_cast<void>(resolver.master()); });
  });
  return 0;
}
