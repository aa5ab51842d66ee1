#include "cluster/tf_config.hpp"

#include <limits>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include <lockstep/error.hpp>

#include "ascii.hpp"
#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"
#include "detail/json_document.hpp"

namespace lockstep::detail {
namespace {

using cluster::ClusterSpec;
using Json = nlohmann::json;

/// Reads the parts of one TF_CONFIG text.
class TfConfigReader {
 public:
  explicit TfConfigReader(std::string_view text) : text_(text) {}

  TfConfig read() const {
    const JsonDocument document(parse());
    const Json& root = *document;
    expect(root, root.is_object(), "it", "an object");
    TfConfig config;
    if (const Json* const cluster = find(root, "cluster")) config.cluster = read_cluster(*cluster);
    if (const Json* const task = find(root, "task")) {
      expect(*task, task->is_object(), "task", "an object");
      if (const Json* const type = find(*task, "type")) {
        expect(*type, type->is_string() || type->is_number(), "task.type", "a string");
        config.task_type = type->is_string() ? read_string(*type, "task.type") : type->dump();
      }
      if (const Json* const index = find(*task, "index")) config.task_id = read_index(*index);
    }
    if (const Json* const layer = find(root, "rpc_layer"))
      config.rpc_layer = read_string(*layer, "rpc_layer");
    if (const Json* const master = find(root, "session_master"))
      config.session_master = read_string(*master, "session_master");
    return config;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    raise<InvalidArgument>(
        {__FILE__, __LINE__, __func__},
        concat("TfConfigResolver: the environment variable TF_CONFIG is ", in_quotes(text_), ": ", reason,
               R"(. Write it as {"cluster": {"worker": ["HOST:PORT", "HOST:PORT"]}, )"
               R"("task": {"type": "worker", "index": 0}}.)"));
  }

  void expect(const Json& value, bool condition, const std::string& where, const char* what) const {
    if (!condition) fail(concat(where, " is ", kind(value), ", not ", what));
  }

  static std::string kind(const Json& value) {
    switch (value.type()) {
      case Json::value_t::null: return "null";
      case Json::value_t::object: return "an object";
      case Json::value_t::array: return "a list";
      case Json::value_t::string: return concat("the text ", in_quotes(value.get_ref<const std::string&>()));
      case Json::value_t::boolean: return "a boolean";
      default: return "the number " + value.dump();
    }
  }

  Json parse() const {
    try {
      return Json::parse(text_);
    } catch (const Json::exception& error) {
      const auto* const syntax = dynamic_cast<const Json::parse_error*>(&error);
      fail(syntax ? concat("it is not JSON at byte ", std::to_string(syntax->byte))
                  : "a number is too large");
    }
  }

  /// A member of an object; null if it is missing or JSON's null.
  static const Json* find(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }

  std::string read_string(const Json& value, const std::string& where) const {
    expect(value, value.is_string(), where, "a string");
    return value.get<std::string>();
  }

  int read_index(const Json& value) const {
    std::optional<int> index;
    if (value.is_string()) index = parse_number(value.get_ref<const std::string&>());
    if (value.is_number_unsigned()) index = parse_number(value.dump());
    expect(value, index.has_value(), "task.index", "a whole number from 0 to 2147483647");
    return *index;
  }

  ClusterSpec read_cluster(const Json& cluster) const {
    expect(cluster, cluster.is_object(), "cluster", "an object");
    std::map<std::string, ClusterSpec::Tasks> jobs;
    for (const auto& [job, tasks] : cluster.items()) {
      if (job.empty()) fail("cluster has a job without a name");
      jobs.emplace(job, read_tasks(tasks, concat("cluster.", in_quotes(job))));
    }
    return ClusterSpec(jobs);
  }

  std::map<int, std::string> read_tasks(const Json& tasks, const std::string& where) const {
    expect(tasks, tasks.is_array() || tasks.is_object(), where, "a list, or an object from index to address");
    std::map<int, std::string> addresses;
    for (const auto& [key, address] : tasks.items()) {  // the keys of a list are its indices
      const std::optional<int> index = parse_number(key);
      if (!index) fail(concat(where, " has the index ", in_quotes(key), ", which is not a task's number"));
      const std::string place = concat(where, " at ", std::to_string(*index));
      if (!addresses.emplace(*index, read_string(address, place)).second) fail(place + " occurs twice");
    }
    return addresses;
  }

  std::string_view text_;
};

}  // namespace

TfConfig parse_tf_config(std::string_view text) { return TfConfigReader(text).read(); }

}  // namespace lockstep::detail
