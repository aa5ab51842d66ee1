#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// How many files a CheckpointManager keeps, how it calls them, and when it writes them.
struct CheckpointManagerOptions {
  int max_to_keep = 5;                ///< At least 1.
  std::string prefix = "checkpoint";  ///< Start of the files' names: not empty, without '/'.
  /// Whether `save` returns once it has the values, and a thread writes them while training goes on.
  bool asynchronous = false;
};

/// Keeps the last few checkpoints of a run, in files PREFIX-STEP.safetensors of a folder. It leaves other
/// files alone, and follows no symbolic link in it.
///
/// Asynchronous saves: what the thread does shows only once it is committed, that is, whole and on the disk
/// under its name: `latest` and `checkpoints` list committed files alone, and after a crash at any moment the
/// newest of them is whole. One save is under way at most; the next one waits for it. Values on a GPU are
/// copied to page-locked memory, which is kept, before `save` returns. Those on the host are shared with the
/// variables, which get new memory when they are written to meanwhile: as much as the values need at most.
/// What a save throws while it is under way the next call of save, wait or restore_latest throws, once; that
/// save then writes nothing. If several workers have the replicas, all call these, and all throw.
///
/// A manager refers to its checkpoint, which must outlive it. Thread safety: that of the checkpoint. Only one
/// process at a time should save under one prefix in a folder; others may read meanwhile. A fork of the
/// process has no save under way. A relative folder is found once, when the manager is made.
class CheckpointManager {
 public:
  /// @throws InvalidArgument  max_to_keep is below 1, or the prefix cannot begin a file's name.
  CheckpointManager(Checkpoint& checkpoint, std::filesystem::path directory,
                    CheckpointManagerOptions options = {});
  /// Waits for the save that is under way. The log has its error.
  ~CheckpointManager();
  CheckpointManager(CheckpointManager&& other) noexcept;
  CheckpointManager& operator=(CheckpointManager&& other) noexcept;

  /// Saves a checkpoint and makes the folder if it is missing. Then removes the files of the lowest steps
  /// beyond max_to_keep (never the one just written) and the remains of saves that a crash cut short.
  /// @param step  not negative; an existing file of the same step is replaced. @return the file's path, where
  /// an asynchronous save puts it later.
  /// @throws as Checkpoint::save. @throws InvalidArgument  the step is negative; or CollectiveMismatch, that
  /// of another worker is different.
  /// @throws Error  the folder cannot be made or read, or an old file cannot be removed; the new one is in
  /// place then.
  std::filesystem::path save(std::int64_t step);
  /// Returns when no save is under way: what was saved is committed. @throws what that save has thrown.
  void wait();

  /// The file of the highest step. @throws Error  the folder cannot be read; a missing one is empty.
  [[nodiscard]] std::optional<std::filesystem::path> latest() const;
  /// All files, by ascending step. @throws as latest.
  [[nodiscard]] std::vector<std::filesystem::path> checkpoints() const;
  /// Waits as `wait` does, and restores the file of the highest step. @return its step, or nothing if there
  /// is no file.
  /// @throws as Checkpoint::restore. If that file is refused, no older file is tried.
  std::optional<std::int64_t> restore_latest(RestoreOptions options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep

#pragma GCC visibility pop
