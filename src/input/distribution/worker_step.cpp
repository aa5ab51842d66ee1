#include "input/distribution/worker_step.hpp"

#include <algorithm>
#include <cstdint>

#include <nlohmann/json.hpp>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/json_document.hpp"
#include "input/rows/part.hpp"

namespace lockstep::detail {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kWhat = "DistributedIterator::next: ";

WorkerStep from_json(const Json& json) {
  WorkerStep step{.has_data = json.at("has_data").get<bool>(),
                  .is_whole = json.at("is_whole").get<bool>(),
                  .knows_structure = json.at("knows_structure").get<bool>()};
  for (const Json& leaf : json.at("leaves"))
    step.leaves.push_back({Shape(leaf.at("shape").get<std::vector<std::int64_t>>()),
                           parse_dtype(leaf.at("dtype").get<std::string>())});
  if (json.contains("error")) step.error = json.at("error").get<std::string>();
  return step;
}

}  // namespace

void check_same_leaves(std::string_view who, std::size_t first, const std::vector<LeafType>& expected,
                       std::size_t index, const std::vector<LeafType>& leaves) {
  LOCKSTEP_EXPECTS(leaves.size() == expected.size(), CollectiveMismatch, kWhat, "the elements of ", who, " ",
                   index, " have ", leaves.size(), " components, those of ", who, " ", first, " ",
                   expected.size(), ". Make datasets of one structure for every ", who, ".");
  for (std::size_t i = 0; i < leaves.size(); ++i)
    LOCKSTEP_EXPECTS(leaves[i].dtype == expected[i].dtype, CollectiveMismatch, kWhat, "component ", i, " is ",
                     describe(leaves[i]), " on ", who, " ", index, ", but ", describe(expected[i]), " on ",
                     who, " ", first, ". Make datasets of the same dtypes for every ", who, ".");
}

std::string to_message(const WorkerStep& step) {
  JsonDocument json(Json::object());
  (*json)["has_data"] = step.has_data;
  (*json)["is_whole"] = step.is_whole;
  (*json)["knows_structure"] = step.knows_structure;
  Json& leaves = (*json)["leaves"] = Json::array();
  for (const LeafType& leaf : step.leaves) {
    Json& one = leaves.emplace_back(Json::object());
    one["shape"] = std::vector<std::int64_t>(leaf.shape.begin(), leaf.shape.end());
    one["dtype"] = name(leaf.dtype);
  }
  if (step.error) (*json)["error"] = *step.error;
  return json->dump(-1, ' ', false, Json::error_handler_t::replace);  // a message may be any bytes
}

std::vector<WorkerStep> from_messages(const std::vector<std::string>& messages) {
  std::vector<WorkerStep> workers;
  for (std::size_t worker = 0; worker < messages.size(); ++worker) {
    const auto fail = [worker](const std::exception& error) {
      raise<CollectiveError>(
          {__FILE__, __LINE__, __func__},
          concat(kWhat, "worker ", worker, " sent a message about its step that cannot be read (",
                 error.what(), "). Run the same version of lockstep on all workers."));
    };
    try {
      const JsonDocument message(Json::parse(messages[worker]));
      workers.push_back(from_json(*message));
    } catch (const Json::exception& error) {
      fail(error);
    } catch (const InvalidArgument& error) {  // a dtype, a shape
      fail(error);
    }
  }
  return workers;
}

std::optional<std::vector<LeafType>> agree_on_leaves(const std::vector<WorkerStep>& workers,
                                                     bool fills_with_empty) {
  for (std::size_t worker = 0; worker < workers.size(); ++worker)
    LOCKSTEP_EXPECTS(!workers[worker].error, CollectiveError, kWhat, "worker ", worker,
                     " could not read its part of the step: ", *workers[worker].error,
                     " The step is left out on all workers, and the next call is for the step after it.");

  const auto has_data = [](const WorkerStep& worker) { return worker.has_data; };
  const auto first = std::find_if(workers.begin(), workers.end(), has_data);
  const bool is_whole =
      std::all_of(workers.begin(), workers.end(), [](const WorkerStep& worker) { return worker.is_whole; });
  if (first == workers.end() || (!is_whole && !fills_with_empty)) return std::nullopt;

  const auto first_index = static_cast<std::size_t>(first - workers.begin());
  for (std::size_t worker = first_index + 1; worker < workers.size(); ++worker)
    if (workers[worker].has_data)
      check_same_leaves("worker", first_index, first->leaves, worker, workers[worker].leaves);
  if (!is_whole) check_has_rows(first->leaves);
  for (std::size_t worker = 0; worker < workers.size(); ++worker)
    LOCKSTEP_EXPECTS(
        workers[worker].has_data || workers[worker].knows_structure, ContextError, kWhat, "worker ", worker,
        " has no data although others have, and cannot make elements without ",
        "rows: a function makes its elements, and lengths or keys are known only after the first. ",
        "Give each worker an element, or return a type whose lengths and keys are fixed.");
  return first->leaves;
}

}  // namespace lockstep::detail
