#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include <lockstep/checkpoint/checkpoint_manager.hpp>
#include <lockstep/error.hpp>

#include "checkpoint/safetensors_header.hpp"
#include "detail/atomic_file.hpp"
#include "detail/expects.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kSuffix = ".safetensors";

/// @throws Error  `error` is set.
void check(const std::error_code& error, std::string_view what, const std::filesystem::path& path,
           std::string_view step) {
  LOCKSTEP_EXPECTS(!error, Error, what, ": ", path, " cannot be ", step, ": ", error.message(),
                   ". Check the path and its permissions.");
}

}  // namespace

CheckpointManager::CheckpointManager(Checkpoint& checkpoint, std::filesystem::path directory,
                                     CheckpointManagerOptions options)
    : checkpoint_(checkpoint), directory_(std::move(directory)), options_(std::move(options)) {
  LOCKSTEP_EXPECTS(options_.max_to_keep >= 1, InvalidArgument, "CheckpointManager: max_to_keep is ",
                   options_.max_to_keep, ". Keep at least 1.");
  LOCKSTEP_EXPECTS(!options_.prefix.empty() && options_.prefix.find_first_of({"/\0", 2}) == std::string::npos,
                   InvalidArgument, "CheckpointManager: the prefix ", detail::in_quotes(options_.prefix),
                   " cannot begin a file's name. Pass one without '/', and the folder apart.");
}

std::filesystem::path CheckpointManager::path_of(std::int64_t step) const {
  return directory_ / (options_.prefix + "-" + std::to_string(step) + std::string(kSuffix));
}

std::vector<std::int64_t> CheckpointManager::steps() const {
  std::vector<std::int64_t> found;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory_, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::size_t begin = options_.prefix.size() + 1;
    if (name.size() <= begin + kSuffix.size()) continue;
    std::int64_t step = 0;
    std::from_chars(name.data() + begin, name.data() + name.size() - kSuffix.size(), step);
    std::error_code ignored;
    // Only names that save gives: not 007, nor steps too large.
    if (step >= 0 && name == path_of(step).filename() &&
        entry->symlink_status(ignored).type() == std::filesystem::file_type::regular)
      found.push_back(step);
  }
  check(error, "CheckpointManager", directory_, "read");
  std::sort(found.begin(), found.end());
  return found;
}

std::filesystem::path CheckpointManager::save(std::int64_t step) {
  constexpr std::string_view kSave = "CheckpointManager::save";
  LOCKSTEP_EXPECTS(step >= 0, InvalidArgument, kSave, ": step ", step, " is negative. Count steps from 0.");
  std::error_code error;
  const auto prepare = [&] {
    std::filesystem::create_directories(directory_, error);
    check(error, kSave, directory_, "made");
    detail::remove_abandoned_files(directory_);
  };
  const auto remove_old = [&] {
    std::vector<std::int64_t> old = steps();
    std::erase(old, step);
    const auto num_kept = static_cast<std::size_t>(options_.max_to_keep) - 1;
    for (std::size_t i = 0; i + num_kept < old.size(); ++i) {
      std::filesystem::remove(path_of(old[i]), error);
      check(error, kSave, path_of(old[i]), "removed");
    }
  };
  std::filesystem::path path = path_of(step);
  checkpoint_.save(path, prepare, remove_old);
  return path;
}

std::optional<std::filesystem::path> CheckpointManager::latest() const {
  const std::vector<std::int64_t> found = steps();
  if (found.empty()) return std::nullopt;
  return path_of(found.back());
}

std::vector<std::filesystem::path> CheckpointManager::checkpoints() const {
  std::vector<std::filesystem::path> paths;
  for (const std::int64_t step : steps()) paths.push_back(path_of(step));
  return paths;
}

std::optional<std::int64_t> CheckpointManager::restore_latest(RestoreOptions options) {
  const std::int64_t latest = checkpoint_.of_chief([&]() -> std::int64_t {
    const std::vector<std::int64_t> found = steps();
    return found.empty() ? -1 : found.back();
  });
  if (latest < 0) return std::nullopt;
  checkpoint_.restore(path_of(latest), options, false);
  return latest;
}

}  // namespace lockstep
