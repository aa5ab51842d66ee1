#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

struct CheckpointManagerOptions {
  int max_to_keep = 5;                ///< At least 1.
  std::string prefix = "checkpoint";  ///< Of the files' names: no '/', not empty.
};

/// The last few checkpoints of a run: files PREFIX-STEP.safetensors in a folder. Other files are not touched.
///
/// Refers to the checkpoint, which must outlive it. Thread safety: that of the checkpoint. One process at a
/// time should save in a folder under one prefix; others may read meanwhile.
class CheckpointManager {
 public:
  /// @throws InvalidArgument  max_to_keep below 1; a prefix that cannot begin a file's name.
  CheckpointManager(Checkpoint& checkpoint, std::filesystem::path directory,
                    CheckpointManagerOptions options = {});

  /// Saves, making the folder where it is missing; then removes the files of the lowest steps beyond
  /// max_to_keep (never the one just written), and what saves cut short by a crash have left.
  /// @param step  not negative; the file of the same step is replaced. @return the file.
  /// @throws as Checkpoint::save. @throws InvalidArgument  the step is negative. @throws Error  the folder
  /// cannot be made or read, or an old file not removed; the new one is in place then.
  std::filesystem::path save(std::int64_t step);

  /// The file of the highest step. @throws Error  the folder cannot be read; a missing one is empty.
  [[nodiscard]] std::optional<std::filesystem::path> latest() const;
  /// All files, by ascending step. @throws as latest.
  [[nodiscard]] std::vector<std::filesystem::path> checkpoints() const;
  /// Restores the file of the highest step. @return that step; nothing where there is no file.
  /// @throws as Checkpoint::restore. No older file takes the place of one that is refused.
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
