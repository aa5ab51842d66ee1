// Examples of the documentation: which processes work together.
#include <memory>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

namespace cluster = lockstep::cluster;

TEST_CASE("the examples of clusters are right", "[docs]") {
  //! [cluster::ClusterSpec, cluster::ClusterSpec::Tasks, cluster::Task]
  cluster::ClusterSpec spec{{"chief", {"a:2222"}}, {"worker", {"b:2222", "c:2222"}}};
  cluster::Task last{"worker", 1};
  std::string address = spec.task_address(last.type, last.index);        // "c:2222"
  int num_workers = cluster::worker_count(spec, last.type, last.index);  // 3: the chief works, too
  //! [cluster::ClusterSpec, cluster::ClusterSpec::Tasks, cluster::Task]
  CHECK(address == "c:2222");
  CHECK(num_workers == 3);

  //! [cluster::SimpleResolver, cluster::ResolverOptions, cluster::Resolver, cluster::Accelerators]
  auto resolver = std::make_shared<cluster::SimpleResolver>(
      spec, cluster::ResolverOptions{.task_type = "worker", .task_id = 1, .num_accelerators = {{"GPU", 8}}});
  int gpus = resolver->num_accelerators().at("GPU");  // 8, for each task
  bool is_chief = cluster::is_chief(resolver->cluster_spec(), *resolver->task_type(), *resolver->task_id());
  //! [cluster::SimpleResolver, cluster::ResolverOptions, cluster::Resolver, cluster::Accelerators]
  CHECK(gpus == 8);
  CHECK_FALSE(is_chief);

  //! [cluster::TfConfigResolver]
  cluster::TfConfigResolver from_text({}, {{"TF_CONFIG", R"({"cluster": {"worker": ["a:2222", "b:2222"]},
                                                            "task": {"type": "worker", "index": 1}})"}});
  int own_index = *from_text.task_id();  // 1
  //! [cluster::TfConfigResolver]
  CHECK(own_index == 1);

  //! [cluster::UnionResolver]
  cluster::UnionResolver both(*resolver, cluster::SimpleResolver({{"ps", {"d:2222"}}}));
  int num_tasks = both.cluster_spec().num_tasks();  // 4
  //! [cluster::UnionResolver]
  CHECK(num_tasks == 4);
}
