#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/detail/shared_function.hpp>
#include <lockstep/input/iterator_state.hpp>
#include <lockstep/values/variable.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Variables and their names.
using NamedVariables = std::vector<std::pair<std::string, Variable>>;

/// An object that lists its variables, as optimizers and metrics do.
template <class T>
concept Tracked = requires(const T& object) {
  { object.variables() } -> std::convertible_to<NamedVariables>;
};

/// An iterator whose position can be saved: a DatasetIterator or DistributedIterator.
template <class T>
concept Resumable = requires(T& iterator, const IteratorState& state) {
  { iterator.save_state() } -> std::convertible_to<IteratorState>;
  iterator.prepare_restore(state)();
};

/// What Checkpoint::restore accepts.
struct RestoreOptions {
  /// Ignores entries of the file that no variable takes, even if no Tensor could have their dtype or rank.
  bool ignore_unknown_entries = false;
};

/// Saves variables in one file of the safetensors format, with one tensor for each key, and restores them:
/// `Checkpoint c({{"w", w}, {"b", b}}); c.save(path); c.restore(path);`
///
/// The file holds each variable's value as read in cross-replica context: component 0 of an on_write
/// variable, the aggregate of an on_read variable, with the variable's dtype and shape. Restoring assigns the
/// value in cross-replica context: every component gets it, and an on_read sum is divided among its
/// components. A file thus does not depend on the strategy or the number of replicas.
///
/// If several workers have a strategy's replicas, all of them save, and the chief writes; all restore from a
/// file that each can read. An error on one worker is thrown on all.
///
/// A checkpoint holds handles of its variables; their strategies must outlive its use. Save and restore in a
/// strategy's scope, in its merge functions, or outside every scope; variables of the default strategy may be
/// included anywhere. Both calls wait for the devices. `restore` writes, so it also waits for other threads'
/// calls of the strategies; `save` only reads and never waits for a run. All variables of a strategy are
/// saved as of one moment, which may be in the middle of a step if a run is active. Thread safety: none for
/// one object. If the file must hold the result of a whole step, no other thread may write the variables
/// meanwhile.
class Checkpoint {
 public:
  Checkpoint() = default;
  /// @throws InvalidArgument  as add.
  Checkpoint(std::initializer_list<std::pair<std::string, Variable>> variables);
  explicit Checkpoint(const NamedVariables& variables);

  /// @param key  the name of the file's entry. @return this checkpoint.
  /// @throws InvalidArgument  the key is empty, not UTF-8, "__metadata__", or in use already: names it.
  Checkpoint& add(std::string key, const Variable& variable);
  /// Adds the variables that `object.variables()` lists at each save and restore, under "prefix/name". The
  /// object must outlive the checkpoint. An object that makes variables late, as an optimizer makes its
  /// slots, must have made them before restoring.
  /// @throws InvalidArgument  the prefix is not a valid key. Save and restore check the names.
  template <Tracked T>
  Checkpoint& add(std::string prefix, const T& object) {
    return add_tracked(std::move(prefix), [&object] { return NamedVariables(object.variables()); });
  }
  template <Tracked T>
  Checkpoint& add(const std::string& prefix, const T&& object) = delete;
  /// Adds the position of the pass that `iterator` makes when the checkpoint is saved, as u8 [bytes].
  /// Restoring lets it go on there (DistributedIterator::restore_state). The object must outlive the
  /// checkpoint; another iterator may be moved into it meanwhile. A checkpoint with an iterator of several
  /// workers has variables of their strategy too. @throws InvalidArgument  as for a variable.
  template <Resumable T>
  Checkpoint& add(std::string key, T& iterator) {
    return add_iterator(std::move(key),
                        {[&iterator] { return iterator.save_state(); },
                         [&iterator](const IteratorState& state) -> detail::SharedFunction<void()> {
                           return iterator.prepare_restore(state);
                         }});
  }

  /// Writes the file. It replaces an existing file as a whole, once it is on the disk: after a crash at any
  /// moment either the old or the new file is there. The call needs host memory for all values. Equal values
  /// make equal files, byte for byte. A symbolic link is replaced, not followed. The new file has the
  /// permissions that the process gives to new files, and needs space beside the old one.
  /// @throws InvalidArgument  an on_read variable with aggregation none; keys of tracked objects as in add.
  /// Exceptions of iterators' save_state pass through.
  /// @throws ContextError  in a replica or update function, or another strategy's scope.
  /// @throws NotFound  the folder does not exist.
  /// @throws Error  the file cannot be written; the message has the system's reason, such as "No space left
  /// on device". The old file is unchanged.
  void save(const std::filesystem::path& path) const;

  /// Reads a file, written by this library or any other, and assigns its values. It reads and checks
  /// everything first: on the errors below no variable, iterator or dataset has changed. If memory runs out,
  /// either all variables of a strategy have been assigned or none. (If a device fails during assignment,
  /// some have been assigned.)
  /// @throws NotFound  the file cannot be opened.
  /// @throws InvalidArgument  the file is damaged; it lacks a variable's entry, or has one that no variable
  /// takes; an entry's dtype or shape is not the variable's, or one that no Tensor has: names file and entry.
  /// Exceptions of iterators' restore_state pass through.
  /// @throws ContextError  as save. @throws Error  the file cannot be read.
  void restore(const std::filesystem::path& path, RestoreOptions options = {});

 private:
  friend class CheckpointManager;
  struct Iterator {
    detail::SharedFunction<IteratorState()> save;
    /// Does all that can fail. @return what remains to be done.
    detail::SharedFunction<detail::SharedFunction<void()>(const IteratorState& state)> prepare_restore;
  };
  Checkpoint& add_iterator(std::string key, Iterator iterator);
  Checkpoint& add_tracked(std::string prefix, detail::SharedFunction<NamedVariables()> variables);
  std::map<std::string, Variable> collect(std::string_view what) const;

  /// Values by key, on the devices that they were read on. Later writes of the variables do not change them.
  using Values = std::map<std::string, Tensor>;
  /// Calls `write` in the process that writes the file. @param path  for messages.
  void save(const std::filesystem::path& path, detail::FunctionRef<void(Values values)> write) const;
  /// Calls fn in that process; where several workers have the variables' replicas all throw what it throws.
  void in_writer(std::string_view what, detail::FunctionRef<void()> fn) const;
  void restore(const std::filesystem::path& path, RestoreOptions options, bool follows_links);
  /// What `number` gives, in the chief's process where several workers have the variables' replicas.
  std::int64_t of_chief(detail::FunctionRef<std::int64_t()> number) const;
  /// All workers throw where `step` throws in one of them, or two have different ones.
  void agree(std::string_view what, detail::FunctionRef<std::int64_t()> step) const;

  std::map<std::string, Variable> variables_;
  std::map<std::string, Iterator> iterators_;
  std::vector<std::pair<std::string, detail::SharedFunction<NamedVariables()>>> tracked_;  // by prefix
};

}  // namespace lockstep

#pragma GCC visibility pop
