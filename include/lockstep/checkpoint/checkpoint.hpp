#pragma once

#include <concepts>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/detail/shared_function.hpp>
#include <lockstep/values/variable.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Variables and their names.
using NamedVariables = std::vector<std::pair<std::string, Variable>>;

/// An object that tells its variables, as optimizers and metrics do.
template <class T>
concept Tracked = requires(const T& object) {
  { object.variables() } -> std::convertible_to<NamedVariables>;
};

struct RestoreOptions {
  /// Entries of the file that no variable takes are left alone, also of dtypes and ranks that no Tensor has.
  bool ignore_unknown_entries = false;
};

/// The values of variables in one file of the safetensors format, a tensor for each key:
/// `Checkpoint c({{"w", w}, {"b", b}}); c.save(path); c.restore(path);`
///
/// A variable is saved as what it reads as in cross-replica context: component 0 of an on_write variable, the
/// aggregate of an on_read one, with the variable's dtype and shape. It is restored by `assign` there: the
/// value on every component, that of an on_read sum divided among them. So a file does not know the number of
/// replicas or the strategy, and fits any.
///
/// Holds handles of its variables; their strategies must outlive its use. Save and restore in a strategy's
/// scope, its merge functions, or outside every scope; variables of the default strategy go along anywhere.
/// The calls wait for the devices; restore, which writes, also for other threads' calls of the strategies,
/// but save, which reads, never for a run. A strategy's variables are saved as they are at one moment, which
/// beside a run may be in the middle of its step. Thread safety: none for one object; no other thread may
/// write its variables meanwhile, where the file shall have what a whole step has left.
class Checkpoint {
 public:
  Checkpoint() = default;
  /// @throws InvalidArgument  as add.
  Checkpoint(std::initializer_list<std::pair<std::string, Variable>> variables);
  explicit Checkpoint(const NamedVariables& variables);

  /// @param key  of the file's entry. @return this checkpoint.
  /// @throws InvalidArgument  the key is empty, not UTF-8, "__metadata__", or there already: names it.
  Checkpoint& add(std::string key, const Variable& variable);
  /// Adds what `object.variables()` gives at the time of each save and restore, under "prefix/name". The
  /// object must outlive the checkpoint. Make variables that it makes late, as an optimizer's slots, before
  /// restoring.
  /// @throws InvalidArgument  the prefix is no key. The names are checked by save and restore.
  template <Tracked T>
  Checkpoint& add(std::string prefix, const T& object) {
    return add_tracked(std::move(prefix), [&object] { return NamedVariables(object.variables()); });
  }
  template <Tracked T>
  Checkpoint& add(const std::string& prefix, const T&& object) = delete;

  /// Writes a file. It replaces one of the same name as a whole, when it is on the disk: after a crash, at
  /// whichever moment, the old file is there or the new one. Needs host memory for all values. Equal values
  /// make equal files, byte for byte. A symbolic link is replaced, not followed; the new file has the
  /// permissions that the process gives to new files, and needs space beside the old one.
  /// @throws InvalidArgument  an on_read variable with aggregation none; keys of tracked objects as in add.
  /// @throws ContextError  in a replica or update function, or another strategy's scope.
  /// @throws NotFound  there is no such folder. @throws Error  the file cannot be written: what the system
  /// says, as "No space left on device"; the old file is unchanged.
  void save(const std::filesystem::path& path) const;

  /// Reads a file, of this library's or any other writer's, and assigns. Everything is read and checked
  /// first: on these errors no variable has changed. Where memory runs out, a strategy's variables have all
  /// been assigned, or none. (A device that fails while values are assigned leaves some assigned.)
  /// @throws NotFound  the file cannot be opened.
  /// @throws InvalidArgument  the file is damaged; it lacks a variable's entry, or has one that no variable
  /// takes; an entry's dtype or shape is not the variable's, or none that a Tensor has: names file and entry.
  /// @throws ContextError  as save. @throws Error  the file cannot be read.
  void restore(const std::filesystem::path& path, RestoreOptions options = {});

 private:
  Checkpoint& add_tracked(std::string prefix, detail::SharedFunction<NamedVariables()> variables);
  std::map<std::string, Variable> collect(std::string_view what) const;

  std::map<std::string, Variable> variables_;
  std::vector<std::pair<std::string, detail::SharedFunction<NamedVariables()>>> tracked_;  // by prefix
};

}  // namespace lockstep

#pragma GCC visibility pop
