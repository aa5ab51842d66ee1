#include "input/state/pipeline_state.hpp"

#include <algorithm>
#include <locale>
#include <sstream>
#include <string>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/rows/host_rows.hpp"
#include "input/rows/part.hpp"
#include "input/state/sealed_state.hpp"

namespace lockstep::detail {

void transfer_stages(PassState& state, const Pipeline& pipeline) {
  std::vector<std::string> stages = pipeline.stages;
  state(stages);
  for (std::size_t i = 0; i < std::max(stages.size(), pipeline.stages.size()); ++i) {
    const auto text = [i](const std::vector<std::string>& all) {
      return i < all.size() ? all[i] : std::string("none");
    };
    LOCKSTEP_EXPECTS(text(stages) == text(pipeline.stages), InvalidArgument, kRestoreState, ": stage ", i + 1,
                     " of the dataset that the state is of is ", text(stages), ", but of this one ",
                     text(pipeline.stages), ". Restore it into the dataset that it was saved from.");
  }
  for (const auto& learned : pipeline.learned) learned(state);
}

IterationKey key_of_epoch(std::string_view what, const std::vector<IterationCount>& counts,
                          std::optional<std::int64_t> epoch) {
  if (!epoch) return IterationKey::next(counts);
  LOCKSTEP_EXPECTS(*epoch >= 0, InvalidArgument, what, ": epoch ", *epoch, ". Count epochs from 0.");
  IterationKey key = IterationKey::of_epoch(counts, static_cast<std::uint64_t>(*epoch));
  key.reach(counts);
  return key;
}

void check_kind(PassState& state, std::string_view expected) {
  std::string kind;
  state(kind);
  LOCKSTEP_EXPECTS(kind == expected, InvalidArgument, kRestoreState, ": the state is of a pass over ", kind,
                   ", and this one is over ", expected, ". Restore it into an iterator of its kind.");
}

void transfer(PassState& state, BatchHandle& batch) {
  const auto* const rows = dynamic_cast<const TableBatch*>(batch.get());
  const auto& tables = state.tables();
  std::size_t table = tables.size();  // no table: the tensors
  if (rows)
    table = static_cast<std::size_t>(std::find(tables.begin(), tables.end(), rows->table()) - tables.begin());
  state(table);
  if (table < tables.size()) {
    std::vector<std::int64_t> numbers = rows ? rows->rows() : std::vector<std::int64_t>();
    state(numbers);
    if (state.is_saving()) return;
    const std::int64_t end = tables[table]->num_rows();
    if (std::ranges::any_of(numbers, [end](std::int64_t row) { return row < 0 || row >= end; }))
      state.fail("a row of a batch is none of the table's");
    batch = std::make_shared<const TableBatch>(tables[table], std::move(numbers));
  } else {
    FlatElement element = batch ? gather(whole(batch), input_device()) : FlatElement();
    state(element);
    if (!state.is_saving()) batch = std::make_shared<const TensorBatch>(std::move(element));
  }
}

BatchHandle rows_of(const BatchHandle& batch, const std::vector<RowRange>& rows) {
  const auto* const of_table = dynamic_cast<const TableBatch*>(batch.get());
  if (of_table && !rows.empty()) {
    const auto begin = of_table->rows().begin();
    return std::make_shared<const TableBatch>(
        of_table->table(), std::vector<std::int64_t>(begin + rows[0].begin, begin + rows[0].end));
  }
  return std::make_shared<const TensorBatch>(gather({{batch, rows}}, input_device()));
}

void transfer(PassState& state, std::mt19937_64& random) {
  std::stringstream text;  // the standard has no other form of an engine's state: decimal numbers
  text.imbue(std::locale::classic());
  std::vector<std::uint64_t> words;
  if (state.is_saving()) {
    text << random;
    for (std::uint64_t word = 0; text >> word;) words.push_back(word);
  }
  state(words);
  if (state.is_saving()) return;
  for (const std::uint64_t word : words) text << word << ' ';
  if (!(text >> random) || words.size() > std::mt19937_64::state_size + 1 ||
      (words.size() > std::mt19937_64::state_size && words.back() > std::mt19937_64::state_size))
    state.fail("the numbers are no state of a random order");
}

}  // namespace lockstep::detail
