// Clusters: specifications, resolvers, roles; names of devices; options of collectives.

#include <lockstep/cluster/cluster_spec.hpp>
#include <lockstep/cluster/roles.hpp>
#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/cluster/tf_config_resolver.hpp>
#include <lockstep/cluster/union_resolver.hpp>

#include "goldens/programs.hpp"

namespace lockstep::test {

namespace {

using namespace cluster;

/// A job as TensorFlow's as_dict has it: a list, or a dict where it is sparse.
Json job(const ClusterSpec& spec, const std::string& name) {
  Json list = Json::array();
  Json dict = Json::object();
  for (const auto& [index, address] : spec.tasks(name)) {
    list.push_back(encode(address));
    dict[std::to_string(index)] = encode(address);
  }
  return spec.is_sparse(name) ? Json({{"dict", dict}}) : Json({{"list", list}});
}
Json jobs(const ClusterSpec& spec) {
  Json dict = Json::object();
  for (const std::string& name : spec.jobs()) dict[name] = job(spec, name);
  return {{"dict", dict}};
}

TfConfigResolver tf_config(const std::optional<Json>& config) {
  EnvironmentVariables variables;
  if (config) variables["TF_CONFIG"] = config->is_string() ? config->get<std::string>() : config->dump();
  return TfConfigResolver({}, variables);
}
const Json kCluster{{"ps", {"ps0:2222", "ps1:2222"}},
                    {"worker", {"worker0:2222", "worker1:2222", "worker2:2222"}}};
Json with_task(const Json& task) { return {{"cluster", kCluster}, {"task", task}}; }
Json base(const char* key = nullptr, const char* value = nullptr) {
  Json config = with_task({{"type", "worker"}, {"index", 2}});
  if (key != nullptr) config[key] = value;
  return config;
}

}  // namespace

GOLDEN("tf-config-casts") {
  const auto c = tf_config(with_task({{"type", 123456}, {"index", "1"}}));
  r("type", [&] { return c.task_type(); });
  r("index", [&] { return c.task_id(); });
}

GOLDEN("tf-config-trivial") {
  const Json nothing = Json::object();
  r("{}: spec", [&] { return jobs(tf_config(nothing).cluster_spec()); });
  r("{}: master", [&] { return tf_config(nothing).master(); });
  r("one worker: master", [] {
    return tf_config(Json{{"cluster", {{"worker", {"worker0:2222"}}}}}).master();
  });
}

GOLDEN("tf-config-table") {
  const Json ps = with_task({{"type", "ps"}});
  r("absent: spec", [] { return jobs(tf_config({}).cluster_spec()); });
  r("absent: type, id", [] {
    return std::vector<Json>{encode(tf_config({}).task_type()), encode(tf_config({}).task_id())};
  });
  r("malformed", [] { return jobs(tf_config("{").cluster_spec()); });
  r("not an object", [] { return jobs(tf_config("[1]").cluster_spec()); });
  r("master", [] { return tf_config(base()).master(); });
  r("master(ps, 1)", [] { return tf_config(base()).master("ps", 1); });
  r("master of an unknown job", [] { return tf_config(base()).master("chief", 0); });
  r("master of an unknown index", [] { return tf_config(base()).master("ps", 5); });
  r("master with rpc_layer", [] {
    auto c = tf_config(base());
    c.set_rpc_layer("grpc");
    return c.master("ps", 1);
  });
  r("index 0 of a task without index", [&] { return tf_config(ps).task_id(); });
  r("no task: master", [] { return tf_config(Json{{"cluster", kCluster}}).master(); });
  r("no task: type", [] { return tf_config(Json{{"cluster", kCluster}}).task_type(); });
  r("session_master with arguments",
    [] { return tf_config(base("session_master", "sm:1")).master("ps", 0); });
  r("rpc_layer of the environment", [] { return tf_config(base("rpc_layer", "grpc")).rpc_layer(); });
  auto c = tf_config(base());
  c.set_task_type("ps");
  c.set_task_id(0);
  r("after setters", [&] { return c.master(); });
  c.set_rpc_layer("http");
  r("after setting rpc_layer", [&] { return c.master(); });
  r("task index -1", [] { return tf_config(with_task({{"type", "ps"}, {"index", -1}})).task_id(); });
  r("index that is no number", [] {
    return tf_config(with_task({{"type", "ps"}, {"index", "x"}})).task_id();
  });
}

GOLDEN("simple-resolver") {
  const ClusterSpec workers{{"worker", {"w0", "w1"}}};
  const SimpleResolver c(workers);
  r("master", [&] { return c.master(); });
  r("master(worker, 1)", [&] { return c.master("worker", 1); });
  r("properties", [&] {
    return std::vector<Json>{encode(c.task_type()), encode(c.task_id()), encode(c.rpc_layer()),
                             encode(c.environment())};
  });
  const SimpleResolver d(workers, {.task_type = "worker", .task_id = 1, .rpc_layer = "grpc", .master = "m"});
  r("master given", [&] { return d.master(); });
  r("master(worker, 0) with rpc_layer", [&] { return d.master("worker", 0); });
  r("num_accelerators given", [] {
    return SimpleResolver({{"worker", {"w0"}}}, {.num_accelerators = {{"GPU", 8}}}).num_accelerators();
  });
}

GOLDEN("union-lists") {
  const SimpleResolver first({{"worker", {"w4", "w5"}}});
  const SimpleResolver second({{"worker", {"w0", "w1", "w2"}}});
  r("union", [&] { return job(UnionResolver(first, second).cluster_spec(), "worker"); });
}

GOLDEN("union-sparse") {
  const SimpleResolver second(ClusterSpec{{"worker", {{3, "w0"}, {6, "w1"}, {7, "w2"}}}});
  const auto with = [&](const ClusterSpec& first) {
    return job(UnionResolver(SimpleResolver(first), second).cluster_spec(), "worker");
  };
  r("union", [&] { return with({{"worker", {{5, "w4"}, {9, "w5"}}}}); });
  r("an index twice", [&] { return with({{"worker", {{7, "w4"}, {9, "w5"}}}}); });
}

GOLDEN("union-table") {
  const auto joined = [](const std::vector<ClusterSpec>& specs) {
    std::vector<std::shared_ptr<const Resolver>> resolvers;
    for (const ClusterSpec& spec : specs) resolvers.push_back(std::make_shared<const SimpleResolver>(spec));
    return UnionResolver(resolvers).cluster_spec();
  };
  using Tasks = ClusterSpec::Tasks;
  const auto w = [](const Tasks& tasks) { return ClusterSpec{{"w", tasks}}; };
  using List = std::vector<std::string>;
  using Sparse = std::map<int, std::string>;
  r("nothing", [&] { return jobs(joined({})); });
  r("other jobs", [&] { return jobs(joined({{{"ps", List{"p0"}}}, {{"worker", List{"w0"}}}})); });
  r("three lists", [&] { return job(joined({w(List{"a"}), w(List{"b", "c"}), w(List{"d"})}), "w"); });
  r("one sparse", [&] { return job(joined({w(Sparse{{5, "a"}, {2, "b"}})}), "w"); });
  r("list and sparse that clash", [&] { return job(joined({w(List{"a", "b"}), w(Sparse{{1, "c"}})}), "w"); });
  r("an address twice", [&] { return job(joined({w(List{"a"}), w(List{"a"})}), "w"); });
}

GOLDEN("chief") {
  const ClusterSpec with_chief{{"chief", {"c0"}}, {"worker", {"w0", "w1"}}};
  const ClusterSpec workers{{"worker", {"w0", "w1"}}};
  r("chief 0", [&] { return is_chief(with_chief, "chief", 0); });
  r("worker 0 beside a chief", [&] { return is_chief(with_chief, "worker", 0); });
  r("worker 0", [&] { return is_chief(workers, "worker", 0); });
  r("worker 1", [&] { return is_chief(workers, "worker", 1); });
  r("no chief", [&] { return is_chief(workers, "chief", 0); });
  r("worker 2 of 2", [&] { return is_chief(workers, "worker", 2); });
}

GOLDEN("accelerators") {
  const SimpleResolver c(
      ClusterSpec{{"worker1", {"a"}}, {"worker2", {{3, "b"}}}},
      {.num_accelerators = {{{"worker1", 0}, {{"GPU", 2}}}, {{"worker2", 3}, {{"GPU", 1}}}}});
  r("worker1, 0", [&] { return c.num_accelerators("worker1", 0); });
  r("worker2, 3", [&] { return c.num_accelerators("worker2", 3); });
  r("without a task", [&] { return c.num_accelerators(); });
}

GOLDEN("cluster-spec") {
  using List = std::vector<std::string>;
  using Sparse = std::map<int, std::string>;
  const ClusterSpec c{{"worker", List{"w0", "w1"}}, {"ps", Sparse{{3, "p3"}, {1, "p1"}}}};
  r("jobs", [&] { return c.jobs(); });
  r("num_tasks", [&] { return std::vector<int>{c.num_tasks("worker"), c.num_tasks("ps")}; });
  r("task_indices", [&] {
    std::vector<int> indices;
    for (const auto& [index, address] : c.tasks("ps")) indices.push_back(index);
    return indices;
  });
  r("address", [&] {
    return std::vector<std::string>{c.task_address("worker", 1), c.task_address("ps", 3)};
  });
  r("unknown job", [&] { return c.num_tasks("chief"); });
  r("unknown index", [&] { return c.task_address("ps", 0); });
  r("address of an unknown job", [&] { return c.task_address("chief", 0); });
  r("as_dict, sparse stays", [&] { return job(c, "ps"); });
  r("a sparse job 0, 1 is a list", [] {
    return job(ClusterSpec{{"ps", Sparse{{0, "p0"}, {1, "p1"}}}}, "ps");
  });
  r("a negative index", [] { return jobs(ClusterSpec{{"worker", Sparse{{-1, "w"}}}}); });
  r("empty is false", [] { return !ClusterSpec().empty(); });
  r("equal", [] { return ClusterSpec{{"a", List{"x"}}} == ClusterSpec{{"a", Sparse{{0, "x"}}}}; });
}

GOLDEN("roles-table") {
  const ClusterSpec full{{"chief", {"c0"}}, {"worker", {"w0", "w1"}}, {"evaluator", {"e0"}}, {"ps", {"p0"}}};
  const ClusterSpec only{{"worker", {"w0", "w1"}}};
  const auto leader = [](const ClusterSpec& spec, const std::string& type, int index) {
    const std::optional<Task> task = collective_leader(spec, type, index);
    return task ? "/job:" + task->type + "/replica:0/task:" + std::to_string(task->index) : "";
  };
  const std::vector<std::pair<std::string, int>> tasks{{"chief", 0},     {"worker", 0}, {"worker", 1},
                                                       {"evaluator", 0}, {"ps", 0},     {"worker", 7}};
  for (const auto& [name, spec] : {std::pair("full: ", &full), std::pair("workers: ", &only)}) {
    for (const auto& [type_now, index_now] : tasks) {
      const std::string& type = type_now;
      const int index = index_now;
      const ClusterSpec& cluster = *spec;
      const std::string task = type + " " + std::to_string(index);
      if (index == 0) r(name + ("worker_count " + type), [&] { return worker_count(cluster, type); });
      r(name + ("id_in_cluster " + task), [&] { return id_in_cluster(cluster, type, index); });
      r(name + ("is_chief " + task), [&] { return is_chief(cluster, type, index); });
      r(name + ("leader for " + task), [&] { return leader(cluster, type, index); });
    }
  }
  r("empty: leader", [&] { return leader({}, "worker", 0); });
  r("two chiefs", [] { return is_chief({{"chief", {"a", "b"}}}, "chief", 0); });
  r("two evaluators", [] {
    return is_chief({{"worker", {"w"}}, {"evaluator", {"a", "b"}}}, "evaluator", 0);
  });
  r("an unknown job", [] { return is_chief({{"master", {"a"}}}, "master", 0); });
}

GOLDEN("device-names") {
  for (const std::string name :
       {"cpu:0", "CPU:3", "/gpu:1", "/device:CPU:2", "/job:worker/cpu:0", "/job:worker/task:1/device:GPU:0",
        "/job:ps/replica:0/task:2/cpu:1", "/task:1/cpu:0", "GPU", "cpu", "", "xyz", "/cpu:0/gpu:1", "/cpu:x"})
    r(name.empty() ? "empty" : name, [&] { return Device(name).canonical_name(); });
}

GOLDEN("communication-options") {
  const CommunicationOptions plain;
  const auto upper = [](CommunicationImplementation implementation) {
    switch (implementation) {
      case CommunicationImplementation::automatic: return "AUTO";
      case CommunicationImplementation::ring: return "RING";
      case CommunicationImplementation::nccl: return "NCCL";
      case CommunicationImplementation::peer: break;  // not TensorFlow's
    }
    return "";
  };
  const auto seconds = [](const CommunicationOptions& options) {
    return options.timeout.count() == 0 ? Json()
                                        : encode(static_cast<double>(options.timeout.count()) / 1000);
  };
  r("defaults", [&] {
    return std::vector<Json>{encode(std::int64_t{plain.bytes_per_pack}), seconds(plain),
                             encode(upper(plain.implementation))};
  });
  r("negative bytes_per_pack",
    [&] { static_cast<void>(CommunicationOptions{.bytes_per_pack = -1}.merged_over(plain)); });
  r("negative timeout", [&] {
    static_cast<void>(CommunicationOptions{.timeout = std::chrono::milliseconds(-1000)}.merged_over(plain));
  });
  r("implementation RING", [&] { return upper(parse_communication_implementation("RING")); });
  r("implementation ring", [&] { return upper(parse_communication_implementation("ring")); });
  r("unknown implementation", [&] { return upper(parse_communication_implementation("mpi")); });
  const CommunicationOptions a{.bytes_per_pack = 5, .timeout = std::chrono::milliseconds(2000)};
  const CommunicationOptions b{.bytes_per_pack = 7};
  r("merged", [&] {
    const CommunicationOptions merged = b.merged_over(a);
    return std::vector<Json>{encode(std::int64_t{merged.bytes_per_pack}), seconds(merged)};
  });
  r("merged with defaults",
    [&] { return std::vector<Json>{encode(std::int64_t{plain.merged_over(a).bytes_per_pack})}; });
}

}  // namespace lockstep::test
