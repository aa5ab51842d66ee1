#include <algorithm>
#include <atomic>
#include <functional>

#include <lockstep/error.hpp>
#include <lockstep/input/distribute.hpp>
#include <lockstep/input/sharding.hpp>

#include "detail/expects.hpp"
#include "input/distribution/saved_pass.hpp"
#include "input/distribution/splitting.hpp"
#include "input/distribution/steps.hpp"
#include "input/rows/host_rows.hpp"
#include "input/state/pipeline_state.hpp"
#include "input/state/sealed_state.hpp"
#include "input/statistics/pass_statistics.hpp"

namespace lockstep::detail {
namespace {

void check_options(const InputOptions& options, std::string_view what) {
  LOCKSTEP_EXPECTS(options.per_replica_buffer_size >= 0, InvalidArgument, what,
                   ": per_replica_buffer_size is ", options.per_replica_buffer_size,
                   ". Pass at least 0, which turns prefetching off.");
  LOCKSTEP_EXPECTS(
      !options.place_dataset_on_device || options.replication_mode == InputReplicationMode::per_replica,
      InvalidArgument, what, ": place_dataset_on_device needs a dataset for each replica, but ",
      "replication_mode is ", options.replication_mode, ". Pass InputReplicationMode::per_replica.");
  LOCKSTEP_EXPECTS(
      !options.place_dataset_on_device || !options.fetch_to_device, InvalidArgument, what,
      ": place_dataset_on_device and fetch_to_device are both set, but elements that are made on the "
      "device are not fetched. Pass fetch_to_device = false.");
}

bool is_static(const std::vector<TensorSpec>& spec) {
  return !spec.empty() &&
         std::all_of(spec.begin(), spec.end(), [](const TensorSpec& leaf) { return leaf.is_static(); });
}

StepPlan plan_of(const InputTarget& target, const InputOptions& options, bool fills_with_empty,
                 const std::vector<PipelineHandle>& datasets, Sharing sharing) {
  const bool on_device = options.fetch_to_device || options.place_dataset_on_device;
  const auto is_known = [](const PipelineHandle& dataset) { return dataset->type.structure().has_value(); };
  return {on_device ? target.devices : std::vector<Device>(target.devices.size(), input_device()),
          options.per_replica_buffer_size,
          fills_with_empty,
          target.open_exchange,
          target.check_caller,
          target.context.input_pipeline_id(),
          target.context.num_input_pipelines(),
          sharing,
          [datasets, is_known] { return std::any_of(datasets.begin(), datasets.end(), is_known); }};
}

/// Cuts a dataset's batches into parts.
using Splitter = std::function<std::unique_ptr<PartIterator>(PendingBatches batches)>;
using ShareSources = std::vector<std::shared_ptr<const ShareSource>>;

/// @param sources  of each dataset.
Steps steps_of(const ShareSources& sources, const Splitter& split, StepPlan given,
               std::vector<std::vector<TensorSpec>> spec) {
  const auto plan = std::make_shared<const StepPlan>(std::move(given));
  const auto next_epoch = std::make_shared<std::atomic<std::int64_t>>(0);  // owners: the functions below
  const auto counts_of = [](const ShareSource& source) {
    return source.pipeline(source.num_shards, source.index)->counts;
  };
  const auto open_parts = [sources, split](const std::vector<IterationKey>& keys,
                                           const std::shared_ptr<PassStatistics>& statistics) {
    PartIterators parts;
    for (std::size_t i = 0; i < sources.size(); ++i)
      parts.push_back(split(PendingBatches(sources[i], keys.empty() ? nullptr : &keys[i], statistics)));
    return parts;
  };
  Steps steps;
  steps.open = [=](std::optional<std::int64_t> epoch) -> std::unique_ptr<StepIterator> {
    std::vector<IterationKey> keys;
    for (const auto& source : sources)
      keys.push_back(key_of_epoch("DistributedDataset::iterator", counts_of(*source), epoch));
    if (epoch) *next_epoch = *epoch;
    PassNumbers numbers{.epoch = (*next_epoch)++};
    for (const IterationKey& key : keys) numbers.orders.push_back(key.numbers());
    const auto statistics = PassStatistics::if_recording();
    return std::make_unique<ReceiveIterator>([=] { return open_parts(keys, statistics); }, plan, numbers,
                                             statistics);
  };
  steps.restore = [=](const IteratorState& state) -> RestoredSteps {
    if (plan->check_caller) plan->check_caller("DistributedIterator::restore_state");
    return with_state_faults([&] {
      const SavedPass saved = saved_pass(state, *plan);
      const auto statistics = PassStatistics::if_recording();
      auto pass = std::make_unique<ReceiveIterator>([=] { return open_parts({}, statistics); }, plan,
                                                    saved.numbers, statistics);
      PassState content(saved.content);
      content(*pass);
      content.expect_end();
      const PassNumbers& numbers = saved.numbers;
      content.when_restored([next_epoch, next = numbers.epoch + 1] { *next_epoch = next; });
      for (std::size_t i = 0; i < std::min(sources.size(), numbers.orders.size()); ++i)
        content.when_restored(IterationKey(std::vector(numbers.orders[i])).reaching(counts_of(*sources[i])));
      return RestoredSteps{std::move(pass), content.take_actions()};
    });
  };
  steps.spec = std::move(spec);
  return steps;
}

/// The whole of a dataset that is this worker's.
std::shared_ptr<const ShareSource> fixed_source(const PipelineHandle& dataset) {
  return std::make_shared<const ShareSource>(
      ShareSource{[dataset](std::int64_t, std::int64_t) { return dataset; }});
}

Steps deal(const ShareSources& sources, const std::vector<PipelineHandle>& datasets,
           const InputTarget& target, const InputOptions& options, Sharing sharing);

/// Drops the numbers of rows from a spec, because a step may leave a replica without rows.
void forget_num_rows(std::vector<TensorSpec>& spec) {
  for (TensorSpec& leaf : spec)
    if (leaf.rank() > 0) leaf.extents[0] = std::nullopt;
}

bool has_other_workers(const InputTarget& target) { return target.context.num_input_pipelines() > 1; }

/// The rule that splits each batch over all replicas. Its weights are in the order of the slices.
SplitRule split_rule(const InputTarget& target, const InputOptions& options, bool deals_slices) {
  constexpr std::string_view kWhat = "distribute_dataset";
  const std::size_t num_workers = static_cast<std::size_t>(target.context.num_input_pipelines());
  const std::size_t num_local = target.devices.size();
  LOCKSTEP_EXPECTS(num_workers * num_local == static_cast<std::size_t>(target.context.num_replicas_in_sync()),
                   InvalidArgument, kWhat, ": ", target.strategy_name, " has ",
                   target.context.num_replicas_in_sync(), " replicas on ", num_workers, " workers, but ",
                   num_local, " on this one. Give every worker the same number of replicas.");
  SplitRule rule{options.batch_split, num_workers * num_local, options.batch_weights};
  rule.check(kWhat);
  if (rule.weights.empty() || num_workers == 1) return rule;
  LOCKSTEP_EXPECTS(deals_slices, Unsupported, kWhat, ": the ", num_workers,
                   " workers read datasets of their own, whose batches cannot be split by weights that are "
                   "for all replicas. Pass AutoShardPolicy::data, or another batch_split.");
  // Slice i goes to worker i % num_workers.
  for (std::size_t slice = 0; slice < rule.num_slices; ++slice)
    rule.weights[slice] = options.batch_weights[(slice % num_workers) * num_local + slice / num_workers];
  return rule;
}

/// @throws InvalidArgument  replicas' elements are known to differ in number of components or dtypes.
void check_same_components(const std::vector<std::vector<TensorSpec>>& spec) {
  constexpr std::string_view kWhat = "distribute_datasets_from_function";
  const auto first = std::find_if(spec.begin(), spec.end(), [](const auto& one) { return !one.empty(); });
  if (first == spec.end()) return;
  for (auto one = first; one != spec.end(); ++one)
    LOCKSTEP_EXPECTS(one->empty() || one->size() == first->size(), InvalidArgument, kWhat,
                     ": the elements of replica ", one - spec.begin(), "'s dataset have ", one->size(),
                     " components, those of replica ", first - spec.begin(), "'s ", first->size(),
                     ". Make datasets of one structure.");
  for (std::size_t i = 0; i < first->size(); ++i) {
    const auto is_known = [i](const auto& one) { return !one.empty() && one[i].is_known; };
    const auto known = std::find_if(spec.begin(), spec.end(), is_known);
    for (auto one = known; one != spec.end(); ++one)
      LOCKSTEP_EXPECTS(!is_known(*one) || (*one)[i].dtype == (*known)[i].dtype, InvalidArgument, kWhat,
                       ": component ", i, " of replica ", one - spec.begin(), "'s elements is ", (*one)[i],
                       ", of replica ", known - spec.begin(), "'s ", (*known)[i],
                       ". Make datasets of the same dtypes.");
  }
}

/// The type of the first dataset whose type is known; null: none is. @throws InvalidArgument  two of them
/// differ.
const ElementType* find_common_type(const std::vector<PipelineHandle>& datasets) {
  const ElementType* known = nullptr;
  std::size_t first = 0;
  std::string text;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const ElementType& type = datasets[i]->type;
    if (!type.structure().has_value()) continue;
    if (!known) {
      known = &type;
      first = i;
      text = type.text();
    }
    LOCKSTEP_EXPECTS(type.text() == text, InvalidArgument,
                     "distribute_datasets_from_function: the elements of replica ", i,
                     "'s dataset have the structure ", type.text(), ", those of replica ", first, "'s ", text,
                     ". Make datasets whose elements have the same keys and lengths.");
  }
  return known;
}

}  // namespace

const ElementType& common_type(const std::vector<PipelineHandle>& datasets) {
  const ElementType* const type = find_common_type(datasets);
  LOCKSTEP_EXPECTS(type, ContextError,
                   "element_spec: a function makes the elements, whose lengths or keys are known after the "
                   "first. Fetch a step before.");
  return *type;
}

std::vector<InputContext> input_contexts(const InputTarget& target, const InputOptions& options) {
  constexpr std::string_view kWhat = "distribute_datasets_from_function";
  check_options(options, kWhat);
  LOCKSTEP_EXPECTS(
      options.batch_split == BatchSplit::ceiling && options.batch_weights.empty(), InvalidArgument, kWhat,
      ": batch_split is ", options.batch_split, ", with ", options.batch_weights.size(),
      " batch_weights, but each replica takes whole elements, which are not split. Leave both out, "
      "or use distribute_dataset.");
  if (options.replication_mode == InputReplicationMode::per_worker) return {target.context};

  LOCKSTEP_EXPECTS(target.per_replica_datasets, Unsupported, kWhat, ": ", target.strategy_name,
                   " does not take a dataset for each replica. Pass InputReplicationMode::per_worker.");
  const auto num_replicas = static_cast<int>(target.devices.size());
  std::vector<InputContext> contexts;
  for (int replica = 0; replica < num_replicas; ++replica)
    contexts.emplace_back(num_replicas, replica, target.context.num_replicas_in_sync());
  return contexts;
}

Steps split_steps(const PipelineHandle& given, const InputTarget& target, const InputOptions& options) {
  constexpr std::string_view kWhat = "distribute_dataset";
  check_options(options, kWhat);
  LOCKSTEP_EXPECTS(
      options.replication_mode == InputReplicationMode::per_worker, Unsupported, kWhat,
      ": one dataset cannot be made for each replica. Pass InputReplicationMode::per_worker, or use "
      "distribute_datasets_from_function.");
  const InputContext& context = target.context;
  const AutoShardPolicy policy = resolve_auto_shard(*given, context, options.auto_shard_policy);
  // Slices are assigned to the workers after the split; files, elements and hints are shared out before it.
  const bool deals_slices = target.splits && policy == AutoShardPolicy::data && has_other_workers(target);
  const SplitRule rule = split_rule(target, options, deals_slices);
  const PipelineHandle dataset =
      deals_slices ? counted_as_shard(given, context.num_input_pipelines(), context.input_pipeline_id())
                   : auto_sharded(given, context, policy);
  // Where workers read parts, a state says whose part it is of, which is found again by the same rule.
  const Sharing sharing = policy == AutoShardPolicy::off                     ? Sharing::each
                          : target.splits && policy == AutoShardPolicy::data ? Sharing::common
                                                                             : Sharing::parts;
  const auto share_of = [=](std::int64_t num_shards, std::int64_t index) {
    const bool is_own = num_shards == context.num_input_pipelines() && index == context.input_pipeline_id();
    if (sharing != Sharing::parts || is_own) return dataset;
    const auto num = static_cast<int>(num_shards);
    return auto_sharded(given, InputContext(num, static_cast<int>(index), num), policy);
  };
  const bool is_common = sharing == Sharing::common;
  const auto source = std::make_shared<const ShareSource>(
      ShareSource{share_of, is_common ? 1 : context.num_input_pipelines(),
                  is_common ? 0 : context.input_pipeline_id(), deals_slices});
  if (!target.splits) return deal({source}, {dataset}, target, options, sharing);

  const std::size_t num_slices = rule.num_slices;
  std::vector<TensorSpec> spec = dataset->spec;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    if (!spec[i].is_known) continue;  // the iterator will check it
    LOCKSTEP_EXPECTS(spec[i].rank() > 0, InvalidArgument, kWhat, ": component ", i,
                     " of the elements is a scalar, ", spec[i], ", which ", target.strategy_name,
                     " cannot split over ", num_slices, " replicas. Batch the dataset first.");
    std::optional<std::int64_t>& num_rows = spec[i].extents[0];
    if (!num_rows) continue;
    const std::vector<std::int64_t> sizes = rule.sizes(*num_rows);
    const bool is_even = std::count(sizes.begin(), sizes.end(), sizes[0]) == std::ssize(sizes);
    num_rows = is_even ? std::optional(sizes[0]) : std::nullopt;
  }

  std::vector<std::int64_t> sizes;
  const bool is_balanced = policy != AutoShardPolicy::data;
  if (is_balanced && dataset->batch_size && rule.split == BatchSplit::ceiling)
    sizes = balanced_batch_sizes(*dataset->batch_size, context);
  const std::size_t num_dealt_to = deals_slices ? static_cast<std::size_t>(context.num_input_pipelines()) : 1;
  const std::size_t index = deals_slices ? static_cast<std::size_t>(context.input_pipeline_id()) : 0;
  const bool is_shared = has_other_workers(target);
  const auto split = [=](PendingBatches batches) -> std::unique_ptr<PartIterator> {
    if (sizes.empty())
      return std::make_unique<BatchSplitIterator>(std::move(batches), rule, num_dealt_to, index);
    return std::make_unique<BalancedSplitIterator>(std::move(batches), sizes, is_shared);
  };
  const bool fills_with_empty = is_shared || (num_slices > 1 && !is_static(spec));
  if (is_shared) forget_num_rows(spec);
  return steps_of({source}, split, plan_of(target, options, fills_with_empty, {dataset}, sharing),
                  std::vector(target.devices.size(), std::move(spec)));
}

Steps deal_steps(const std::vector<PipelineHandle>& datasets, const InputTarget& target,
                 const InputOptions& options) {
  ShareSources sources;
  for (const PipelineHandle& dataset : datasets) sources.push_back(fixed_source(dataset));
  return deal(sources, datasets, target, options, Sharing::fixed);
}

namespace {

Steps deal(const ShareSources& sources, const std::vector<PipelineHandle>& datasets,
           const InputTarget& target, const InputOptions& options, Sharing sharing) {
  const std::size_t num_replicas = target.devices.size();
  std::vector<std::vector<TensorSpec>> spec;
  for (std::size_t replica = 0; replica < num_replicas; ++replica)
    spec.push_back(datasets[replica % datasets.size()]->spec);
  check_same_components(spec);
  find_common_type(datasets);  // throws if they differ
  const bool fills_with_empty =
      has_other_workers(target) || (num_replicas > 1 && !std::all_of(spec.begin(), spec.end(), is_static));
  if (fills_with_empty) std::for_each(spec.begin(), spec.end(), forget_num_rows);

  const auto split = [](PendingBatches batches) -> std::unique_ptr<PartIterator> {
    return std::make_unique<WholeIterator>(std::move(batches));
  };
  return steps_of(sources, split, plan_of(target, options, fills_with_empty, datasets, sharing),
                  std::move(spec));
}

}  // namespace

}  // namespace lockstep::detail
