#include "input/state/pipeline_state.hpp"

#include <algorithm>
#include <locale>
#include <map>
#include <sstream>
#include <string>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/rows/host_rows.hpp"
#include "input/rows/part.hpp"
#include "input/state/sealed_state.hpp"

namespace lockstep::detail {

namespace {

/// The stages that lead to one, inputs first, each once: a pipeline may have one as its input in many ways.
class Stages {
 public:
  /// @param of_elements  whether the texts are those of Stage::elements.
  explicit Stages(const Stage& last, bool of_elements = false) : of_elements_(of_elements) { add(last); }
  const std::vector<std::string>& texts() const noexcept { return texts_; }
  const std::vector<const Stage*>& all() const noexcept { return all_; }

 private:
  /// @return the stage's number.
  std::size_t add(const Stage& stage) {
    if (const auto known = numbers_.find(&stage); known != numbers_.end()) return known->second;
    std::string text = of_elements_ ? stage.elements.value_or(stage.text) : stage.text;
    for (const auto& input : stage.inputs) {
      const std::size_t number = add(*input);
      if (stage.inputs.size() > 1)
        text += concat(&input == &stage.inputs.front() ? " of stages " : ", ", number);
    }
    all_.push_back(&stage);
    texts_.push_back(std::move(text));
    return numbers_[&stage] = all_.size();
  }

  bool of_elements_;
  std::vector<const Stage*> all_;
  std::vector<std::string> texts_;
  std::map<const Stage*, std::size_t> numbers_;
};

}  // namespace

void transfer_stages(PassState& state, const Pipeline& pipeline) {
  const Stages own(*pipeline.stage);
  std::vector<std::string> texts = own.texts();
  state(texts);
  for (std::size_t i = 0; i < std::max(texts.size(), own.texts().size()); ++i) {
    const auto text = [i](const std::vector<std::string>& all) {
      return i < all.size() ? all[i] : std::string("none");
    };
    LOCKSTEP_EXPECTS(text(texts) == text(own.texts()), InvalidArgument, kRestoreState, ": stage ", i + 1,
                     " of the dataset that the state is of is ", text(texts), ", but of this one ",
                     text(own.texts()), ". Restore it into the dataset that it was saved from.");
  }
  for (const Stage* const stage : own.all())
    for (const auto& learned : stage->learned) learned(state);
}

std::vector<std::string> element_texts(const Stage& stage) {
  std::vector<std::string> texts = Stages(stage, true).texts();
  std::erase(texts, "");
  return texts;
}

IterationKey key_of_epoch(std::string_view what, const std::vector<IterationCount>& counts,
                          std::optional<std::int64_t> epoch) {
  if (!epoch) return IterationKey::next(counts);
  LOCKSTEP_EXPECTS(*epoch >= 0, InvalidArgument, what, ": epoch ", *epoch, ". Count epochs from 0.");
  IterationKey key = IterationKey::of_epoch(counts, static_cast<std::uint64_t>(*epoch));
  key.reaching(counts)();
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
  // The standard has no other form of an engine's state: decimal numbers.
  std::stringstream text;
  text.exceptions(std::ios::badbit);  // a lack of memory would cut it short
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
