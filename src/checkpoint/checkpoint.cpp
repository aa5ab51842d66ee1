#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/detail/cross_replica.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "checkpoint/safetensors_file.hpp"
#include "checkpoint/staging.hpp"
#include "detail/cpu_0.hpp"
#include "detail/expects.hpp"
#include "strategy/context/default_strategy.hpp"
#include "strategy/strategy_access.hpp"
#include "strategy/variable/variable_access.hpp"
#include "trace/span.hpp"

namespace lockstep {
namespace {

using detail::concat;
using detail::ContextFrame;
using detail::in_quotes;
using detail::SafetensorsEntry;
using detail::SafetensorsFile;
using Variables = std::map<std::string, Variable>;

constexpr std::string_view kAdd = "Checkpoint::add";
constexpr std::string_view kSave = "Checkpoint::save";
constexpr std::string_view kRestore = "Checkpoint::restore";

void insert(Variables& variables, std::string key, const Variable& variable, std::string_view what) {
  detail::check_safetensors_key(key, what);
  const auto [place, is_new] = variables.emplace(std::move(key), variable);
  LOCKSTEP_EXPECTS(is_new, InvalidArgument, what, ": the key ", in_quotes(place->first), " of the variable '",
                   variable.name(), "' is that of the variable '", place->second.name(),
                   "' already. Give every variable a key of its own.");
}

/// @throws InvalidArgument  the key is in use.
template <class Entries>
void check_free(const Entries& entries, const std::string& key, std::string_view what) {
  LOCKSTEP_EXPECTS(!entries.contains(key), InvalidArgument, what, ": the key ", in_quotes(key),
                   " is in use already. Give every variable and iterator a key of its own.");
}

/// Calls fn in the strategy's cross-replica context.
template <class F>
void in_context_of(Strategy& strategy, std::string_view what, F fn) {
  std::optional<ContextFrame> frame;
  if (&strategy == &detail::default_strategy())  // so that it works in any scope
    frame.emplace(ContextFrame::Mode::cross_replica, strategy);
  detail::call_serialised(strategy, what, fn);
}

/// Variables of one strategy, and their values on the host.
struct Group {
  std::vector<Variable> variables;
  std::vector<std::string> keys;
  std::vector<Tensor> values;
};

using Groups = std::vector<std::pair<Strategy*, Group>>;

/// In the order of the keys, which all workers of a strategy share.
Groups by_strategy(const Variables& variables) {
  Groups groups;
  for (const auto& [key, variable] : variables) {
    auto found = std::ranges::find(groups, &variable.strategy(), &Groups::value_type::first);
    if (found == groups.end()) found = groups.insert(found, {&variable.strategy(), {}});
    found->second.variables.push_back(variable);
    found->second.keys.push_back(key);
  }
  return groups;
}

/// The strategy of several workers that has variables here; null: none has.
Strategy* find_workers(const Groups& groups) {
  const auto found =
      std::ranges::find_if(groups, [](const auto& group) { return detail::has_workers(*group.first); });
  return found == groups.end() ? nullptr : found->first;
}

/// Whether variables can be read and written as a whole on this thread. @throws ContextError
void check_context(std::string_view what) {
  const ContextFrame* const top = ContextFrame::top();
  if (top == nullptr) return;
  LOCKSTEP_EXPECTS(top->mode() != ContextFrame::Mode::replica, ContextError, what, " inside replica ",
                   top->replica_context()->replica_id_in_sync_group(), "'s function of ",
                   top->strategy().name(), ". Call it outside run, or in a function given to merge_call.");
  LOCKSTEP_EXPECTS(top->mode() != ContextFrame::Mode::update, ContextError, what,
                   " inside an update function of ", top->strategy().name(),
                   ", where a variable is one of its components. Call it after update.");
}

/// @throws InvalidArgument  unless the file has an entry for the variable, which it can take.
void check_entry(const SafetensorsFile& file, const std::string& key, const Variable& variable,
                 const std::filesystem::path& path) {
  const auto found = file.entries().find(key);
  LOCKSTEP_EXPECTS(found != file.entries().end(), InvalidArgument, kRestore, ": ", path, " has no entry ",
                   in_quotes(key), " for the variable '", variable.name(), "', ", variable.shape(), " ",
                   variable.dtype(), ". Restore what was saved under this name, or leave the variable out.");
  const SafetensorsEntry& entry = found->second;
  LOCKSTEP_EXPECTS(entry.unsupported.empty(), InvalidArgument, kRestore, ": ", path, ", entry ",
                   in_quotes(key), " for the variable '", variable.name(), "': ", entry.unsupported,
                   ". Convert it before, or leave the variable out.");
  LOCKSTEP_EXPECTS(entry.dtype == variable.dtype() && entry.shape == variable.shape(), InvalidArgument,
                   kRestore, ": ", path, ", entry ", in_quotes(key), ": it is ", entry.shape, " ",
                   entry.dtype, ", the variable '", variable.name(), "' ", variable.shape(), " ",
                   variable.dtype(), ". Restore into variables of the shape and dtype that were saved.");
}

/// The state of an iterator in the file. @throws InvalidArgument  there is none.
IteratorState read_state(const SafetensorsFile& file, const std::string& key,
                         const std::filesystem::path& path) {
  const auto found = file.entries().find(key);
  LOCKSTEP_EXPECTS(found != file.entries().end(), InvalidArgument, kRestore, ": ", path, " has no entry ",
                   in_quotes(key),
                   " for an iterator. Restore what was saved under this name, or leave it out.");
  const SafetensorsEntry& entry = found->second;
  LOCKSTEP_EXPECTS(entry.unsupported.empty() && entry.dtype == DType::u8 && entry.shape.rank() == 1,
                   InvalidArgument, kRestore, ": ", path, ", entry ", in_quotes(key),
                   ": it is not the state of an iterator, which is a list of uint8. Pass a file with one.");
  const Tensor bytes = file.read(entry);
  const auto* const data = static_cast<const std::byte*>(bytes.view().data);
  return {data, data + bytes.nbytes()};
}

/// What restores an iterator. @throws InvalidArgument  it cannot go on from the state: the entry, and why.
template <class Iterator>
detail::SharedFunction<void()> prepare(const Iterator& iterator, const IteratorState& state,
                                       const std::string& key, const std::filesystem::path& path) try {
  return iterator.prepare_restore(state);
} catch (const InvalidArgument& error) {
  detail::raise<InvalidArgument>({__FILE__, __LINE__, __func__}, concat(kRestore, ": ", path, ", entry ",
                                                                        in_quotes(key), ": ", error.what()));
}

/// The values of a file, for those variables that are on GPUs alone in memory that these copy from at their
/// full rate.
class StagedValues {
 public:
  explicit StagedValues(const Variables& variables) : variables_(variables) {
    for (const auto& [key, variable] : variables)
      staging_.plan(place_of(variable),
                    variable.shape().size() * static_cast<std::int64_t>(size_of(variable.dtype())));
  }
  /// The copies may go on after the assignment has returned.
  ~StagedValues() {
    for (const auto& [key, variable] : variables_)
      if (place_of(variable).kind() == DeviceKind::gpu)
        for (const Device& device : detail::devices_of(variable)) synchronize(device);
  }
  StagedValues(const StagedValues&) = delete;
  StagedValues& operator=(const StagedValues&) = delete;

  Tensor read(const SafetensorsFile& file, const std::string& key, const Variable& variable) {
    Tensor value = staging_.make(place_of(variable), variable.shape(), variable.dtype());
    file.read(file.entries().at(key), value);
    return value;
  }

 private:
  static Device place_of(const Variable& variable) {
    const std::vector<Device>& devices = detail::devices_of(variable);
    const bool is_on_gpus =
        std::ranges::all_of(devices, [](const Device& device) { return device.kind() == DeviceKind::gpu; });
    return is_on_gpus ? devices.front() : detail::cpu_0();
  }
  static void synchronize(const Device& device) noexcept try {
    current_stream(device).synchronize();
  } catch (const Error&) {  // the device is lost, and copies nothing any more
  }

  const Variables& variables_;
  detail::Staging staging_;
};

template <class Iterators>
void check_all_taken(const SafetensorsFile& file, const Variables& variables, const Iterators& iterators,
                     const std::filesystem::path& path) {
  for (const auto& [key, entry] : file.entries())
    LOCKSTEP_EXPECTS(
        variables.contains(key) || iterators.contains(key), InvalidArgument, kRestore, ": ", path, ", entry ",
        in_quotes(key), ", ",
        entry.unsupported.empty() ? concat(entry.shape, " ", entry.dtype) : entry.unsupported,
        ": no variable has this key. Add its variable (slots exist once their optimizer has made "
        "them), or pass {.ignore_unknown_entries = true}.");
}

}  // namespace

Checkpoint::Checkpoint(std::initializer_list<std::pair<std::string, Variable>> variables) {
  for (const auto& [key, variable] : variables) add(key, variable);
}

Checkpoint::Checkpoint(const NamedVariables& variables) {
  for (const auto& [key, variable] : variables) add(key, variable);
}

Checkpoint& Checkpoint::add(std::string key, const Variable& variable) {
  check_free(iterators_, key, kAdd);
  insert(variables_, std::move(key), variable, kAdd);
  return *this;
}

Checkpoint& Checkpoint::add_iterator(std::string key, Iterator iterator) {
  detail::check_safetensors_key(key, kAdd);
  check_free(iterators_, key, kAdd);
  check_free(variables_, key, kAdd);
  iterators_.emplace(std::move(key), std::move(iterator));
  return *this;
}

Checkpoint& Checkpoint::add_tracked(std::string prefix, detail::SharedFunction<NamedVariables()> variables) {
  detail::check_safetensors_key(prefix, kAdd);
  tracked_.emplace_back(std::move(prefix), std::move(variables));
  return *this;
}

Variables Checkpoint::collect(std::string_view what) const {
  Variables all = variables_;
  for (const auto& [prefix, variables] : tracked_)
    for (const auto& [name, variable] : variables()) {
      check_free(iterators_, prefix + "/" + name, what);
      insert(all, prefix + "/" + name, variable, what);
    }
  return all;
}

void Checkpoint::save(const std::filesystem::path& path) const {
  save(path, [&](Values values) {
    detail::Staging staging;
    detail::write_safetensors(path, detail::on_host(std::move(values), staging), kSave);
  });
}

void Checkpoint::in_writer(std::string_view what, detail::FunctionRef<void()> fn) const {
  if (Strategy* const workers = find_workers(by_strategy(collect(what))))
    detail::on_chief(*workers, what, fn);
  else
    fn();
}

std::int64_t Checkpoint::of_chief(detail::FunctionRef<std::int64_t()> number) const {
  Strategy* const workers = find_workers(by_strategy(collect(kRestore)));
  return workers == nullptr ? number() : detail::from_chief(*workers, kRestore, number);
}

void Checkpoint::agree(std::string_view what, detail::FunctionRef<std::int64_t()> step) const {
  Strategy* const workers = find_workers(by_strategy(collect(what)));
  if (workers == nullptr) return static_cast<void>(step());
  const std::vector<std::string> all =
      detail::gather_texts(*workers, what, [&] { return std::to_string(step()); });
  for (std::size_t w = 1; w < all.size(); ++w)
    LOCKSTEP_EXPECTS(all[w] == all[0], CollectiveMismatch, what, ": worker ", w, " calls it for step ",
                     all[w], ", worker 0 for step ", all[0], ". Pass the same step on every worker.");
}

void Checkpoint::save(const std::filesystem::path& path,
                      detail::FunctionRef<void(Values values)> write) const {
  const detail::Span span(detail::SpanKind::checkpoint, kSave);
  check_context(kSave);
  const Variables variables = collect(kSave);
  for (const auto& [key, variable] : variables)
    LOCKSTEP_EXPECTS(variable.synchronization() != VariableSynchronization::on_read ||
                         variable.aggregation() != VariableAggregation::none,
                     InvalidArgument, kSave, ": ", path, ", entry ", in_quotes(key),
                     ": the on_read variable '", variable.name(),
                     "' has aggregation none, so its components have no value together. ",
                     "Make it with another aggregation, or leave it out.");
  Values values;
  for (const auto& [key, iterator] : iterators_) {
    const IteratorState state = iterator.save();
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(state.data());
    values[key] = Tensor::from(std::span(bytes, state.size()), Shape(state.size()), detail::cpu_0());
  }
  const Groups groups = by_strategy(variables);
  for (const auto& [strategy, group] : groups) {
    // This is not serialised with the strategy's calls: another thread's run may wait for this thread.
    if (strategy != &detail::default_strategy()) detail::check_cross_replica(*strategy, kSave);
    const auto read = detail::read_variables(group.variables, detail::ReadFrom::component_0);
    for (std::size_t k = 0; k < read.size(); ++k) values[group.keys[k]] = read[k];
  }
  const auto write_values = [&] { write(std::move(values)); };
  if (Strategy* const workers = find_workers(groups))
    detail::on_chief(*workers, kSave, write_values);
  else
    write_values();
}

void Checkpoint::restore(const std::filesystem::path& path, RestoreOptions options) {
  restore(path, options, true);
}

void Checkpoint::restore(const std::filesystem::path& path, RestoreOptions options, bool follows_links) {
  const detail::Span span(detail::SpanKind::checkpoint, kRestore);
  check_context(kRestore);
  const Variables variables = collect(kRestore);
  auto groups = by_strategy(variables);
  // Refuses a wrong context before the file is read.
  for (const auto& [strategy, group] : groups) in_context_of(*strategy, kRestore, [] {});
  std::vector<detail::SharedFunction<void()>> iterators;
  StagedValues staged(variables);
  const auto read = [&] {
    const SafetensorsFile file(path, kRestore,
                               follows_links ? detail::Links::followed : detail::Links::refused);
    for (const auto& [key, variable] : variables) check_entry(file, key, variable, path);
    std::map<std::string, IteratorState> states;
    for (const auto& [key, iterator] : iterators_) states[key] = read_state(file, key, path);
    if (!options.ignore_unknown_entries) check_all_taken(file, variables, iterators_, path);
    for (auto& [strategy, group] : groups)
      for (std::size_t k = 0; k < group.keys.size(); ++k)
        group.values.push_back(staged.read(file, group.keys[k], group.variables[k]));
    for (const auto& [key, iterator] : iterators_)
      iterators.push_back(prepare(iterator, states[key], key, path));
  };
  if (Strategy* const workers = find_workers(groups))
    detail::on_all_workers(*workers, kRestore, read);
  else
    read();
  for (const auto& [strategy, group] : groups)
    in_context_of(*strategy, kRestore,
                  [&mine = group] { detail::assign_variables(mine.variables, mine.values); });
  for (const auto& restore_iterator : iterators) restore_iterator();
}

}  // namespace lockstep
