#include <utility>

#include <lockstep/input/dataset_iterator.hpp>

#include "detail/expects.hpp"
#include "input/iterators/outer_iterator.hpp"
#include "input/state/pipeline_state.hpp"
#include "input/state/sealed_state.hpp"
#include "input/statistics/pass_statistics.hpp"

namespace lockstep::detail {

namespace {

constexpr std::string_view kNext = "DatasetIterator::next";

/// Begins a state of this class.
std::string kind() { return "a dataset"; }

std::unique_ptr<Iterator<FlatElement>> open_outer(const PipelineHandle& pipeline, const IterationKey& key) {
  return std::make_unique<OuterIterator<FlatElement>>(pipeline->open(key), kNext);
}

}  // namespace

DatasetPass open_for_user(const PipelineHandle& pipeline, std::optional<std::int64_t> epoch) {
  const IterationKey key = key_of_epoch("TypedDataset::iterator", pipeline->counts, epoch)
                               .measured(PassStatistics::if_recording());
  auto elements = open_outer(pipeline, key);
  return {key, std::move(elements)};
}

IteratorState save_pass(const PipelineHandle& pipeline, const DatasetPass& pass) {
  PassState state;
  std::string of = kind();
  std::int64_t num_taken = pass.num_taken;
  state(of);
  transfer_stages(state, *pipeline);
  IterationKey::transferred(state, &pass.key, pipeline->counts);
  state(num_taken, *pass.elements);
  return seal(state.take());
}

DatasetPass restored_pass(const PipelineHandle& pipeline, const IteratorState& bytes) {
  return with_state_faults([&] {
    PassState state(unseal(bytes));
    check_kind(state, kind());
    transfer_stages(state, *pipeline);
    DatasetPass pass{
        IterationKey::transferred(state, nullptr, pipeline->counts).measured(PassStatistics::if_recording())};
    pass.elements = open_outer(pipeline, pass.key);
    state(pass.num_taken, *pass.elements);
    state.expect_end();
    state.when_restored(pass.key.reaching(pipeline->counts));
    pass.actions = state.take_actions();
    return pass;
  });
}

void replace_pass(DatasetPass& pass, DatasetPass& restored) noexcept {
  for (const auto& action : std::exchange(restored.actions, {})) action();
  pass = std::move(restored);
}

InputStatistics statistics_of(const DatasetPass& pass) {
  return statistics_of(pass.key.statistics(), "DatasetIterator::statistics");
}

void raise_end_of_input(std::string_view what, std::int64_t count, std::string_view unit) {
  raise<OutOfRange>({__FILE__, __LINE__, __func__},
                    concat(what, ": the dataset has ended after ", count, " ", unit,
                           ". Take another iterator() for another pass; next_optional() gives nothing at the "
                           "end."));
}

void raise_iterator_moved_from(std::string_view type) {
  raise<ContextError>({__FILE__, __LINE__, __func__},
                      concat(type, ": used after it was moved from. Use the one it was moved to."));
}

}  // namespace lockstep::detail
