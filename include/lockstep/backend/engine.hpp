#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/process_group.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// Values by name that all processes of a group share. Any thread.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  /// @throws CollectiveAborted  the connection to the store is lost.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits until some process has set it. @throws CollectiveTimeout, CollectiveAborted
  [[nodiscard]] virtual std::string get(const std::string& key, Deadline deadline) = 0;
  /// Removes all keys that begin with `prefix`. @throws as set
  virtual void erase(const std::string& prefix) = 0;
};

/// What an engine is started with, in each process.
struct EngineSetup {
  int process = 0;
  int num_processes = 1;
  KeyValueStore* store = nullptr;  ///< Outlives the engine; null for a kind that is_launched.
  /// For all processes to come, of a kind that is_launched; 0: none.
  std::chrono::milliseconds start_limit{0};
  /// A name or address of this process's host, by which the others reach it; may be empty.
  std::string host{};
  /// A connection on which nothing is answered for so long is lost; 0: the system's limit.
  std::chrono::milliseconds silence_limit{0};
};

/// A library that moves bytes between the processes of a group: MPI, Gloo.
class Engine {
 public:
  virtual ~Engine() = default;
  /// All processes open the n-th channel together.
  virtual std::unique_ptr<Channel> open_channel() = 0;
  /// A process is lost: nothing waits for its end. Any thread.
  virtual void abandon() noexcept {}
};

/// How to start an engine.
struct EngineKind {
  std::string_view name;  ///< "mpi", "gloo".
  /// A launcher has connected the processes already, as mpirun does: no store is needed.
  bool is_launched = false;
  /// @throws Unsupported, ContextError  it cannot start here: says why and what to do. @throws
  /// CollectiveTimeout  a process has not come.
  std::unique_ptr<Engine> (*start)(const EngineSetup&) = nullptr;
};

/// Makes an engine known to strategies of several processes, which use it where LOCKSTEP_ENGINE has its name,
/// or, of mpi and gloo, where it suits how the processes were started. Later ones of the same name are
/// ignored. Any thread, also in static initialisation.
void register_engine(const EngineKind& kind);
/// The engine of that name: linked into the program; else, where lockstep is a shared library, loaded as
/// liblockstep_NAME.so.MAJOR.MINOR from its folder, or from where the system finds that; null: there is none.
[[nodiscard]] const EngineKind* find_engine(std::string_view name);

}  // namespace lockstep::backend

#pragma GCC visibility pop
