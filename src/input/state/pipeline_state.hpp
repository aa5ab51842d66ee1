#pragma once

#include <random>

#include <lockstep/input/detail/pass_state.hpp>

#include "input/pipeline/pipeline.hpp"
#include "input/rows/batch.hpp"

/// The parts of an IteratorState that are not those of one transformation.
namespace lockstep::detail {

/// Writes the pipeline's stages and what is known of its elements' structures, or compares and learns them.
/// @throws InvalidArgument  the stages are others; names the first that differs.
void transfer_stages(PassState& state, const Pipeline& pipeline);

/// What decides which elements a stage gives, as far as the calls say it: a text for each stage, inputs
/// first.
std::vector<std::string> element_texts(const Stage& stage);

/// The pass of an epoch, after which the next ones come; without one, the next pass.
/// @throws InvalidArgument  the epoch is negative; names `what`.
IterationKey key_of_epoch(std::string_view what, const std::vector<IterationCount>& counts,
                          std::optional<std::int64_t> epoch);

/// Reads what the state is of: "a dataset". @throws InvalidArgument  it is of another kind of iterator.
void check_kind(PassState& state, std::string_view expected);

/// A batch of rows of a table by their numbers, if PassState::tables has the table; any other as its tensors.
void transfer(PassState& state, BatchHandle& batch);
/// Rows [begin, end) of each leaf of it.
BatchHandle rows_of(const BatchHandle& batch, const std::vector<RowRange>& rows);

void transfer(PassState& state, std::mt19937_64& random);

}  // namespace lockstep::detail
