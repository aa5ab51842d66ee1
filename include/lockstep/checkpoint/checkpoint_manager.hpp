#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// How many files a CheckpointManager keeps, and how it calls them.
struct CheckpointManagerOptions {
  int max_to_keep = 5;                ///< At least 1.
  std::string prefix = "checkpoint";  ///< Start of the files' names: not empty, without '/'.
};

/// Keeps the last few checkpoints of a run, in files PREFIX-STEP.safetensors of a folder. It leaves other
/// files alone, and follows no symbolic link in it.
///
/// A manager refers to its checkpoint, which must outlive it. Thread safety: that of the checkpoint. Only one
/// process at a time should save under one prefix in a folder; others may read meanwhile.
class CheckpointManager {
 public:
  /// @throws InvalidArgument  max_to_keep is below 1, or the prefix cannot begin a file's name.
  CheckpointManager(Checkpoint& checkpoint, std::filesystem::path directory,
                    CheckpointManagerOptions options = {});

  /// Saves a checkpoint and makes the folder if it is missing. Then removes the files of the lowest steps
  /// beyond max_to_keep (never the one just written) and the remains of saves that a crash cut short.
  /// @param step  not negative; an existing file of the same step is replaced. @return the file's path.
  /// @throws as Checkpoint::save. @throws InvalidArgument  the step is negative.
  /// @throws Error  the folder cannot be made or read, or an old file cannot be removed; the new one is in
  /// place then.
  std::filesystem::path save(std::int64_t step);

  /// The file of the highest step. @throws Error  the folder cannot be read; a missing one is empty.
  [[nodiscard]] std::optional<std::filesystem::path> latest() const;
  /// All files, by ascending step. @throws as latest.
  [[nodiscard]] std::vector<std::filesystem::path> checkpoints() const;
  /// Restores the file of the highest step. @return its step, or nothing if there is no file.
  /// @throws as Checkpoint::restore. If that file is refused, no older file is tried.
  std::optional<std::int64_t> restore_latest(RestoreOptions options = {});

 private:
  std::vector<std::int64_t> steps() const;  // ascending
  std::filesystem::path path_of(std::int64_t step) const;

  Checkpoint& checkpoint_;
  std::filesystem::path directory_;
  CheckpointManagerOptions options_;
};

}  // namespace lockstep

#pragma GCC visibility pop
