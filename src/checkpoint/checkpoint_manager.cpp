#include <algorithm>
#include <charconv>
#include <exception>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <lockstep/checkpoint/checkpoint_manager.hpp>
#include <lockstep/error.hpp>

#include "checkpoint/safetensors_file.hpp"
#include "checkpoint/staging.hpp"
#include "detail/atomic_file.hpp"
#include "detail/expects.hpp"
#include "detail/names_in_folder.hpp"
#include "detail/process.hpp"
#include "detail/start_thread.hpp"
#include "detail/warn.hpp"
#include "trace/span.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kManager = "CheckpointManager";
constexpr std::string_view kSave = "CheckpointManager::save";

/// @throws Error  `error` is set.
void check(const std::error_code& error, std::string_view what, const std::filesystem::path& path,
           std::string_view step) {
  LOCKSTEP_EXPECTS(!error, Error, what, ": ", path, " cannot be ", step, ": ", error.message(),
                   ". Check the path and its permissions.");
}

/// The program may change its folder while a thread writes.
std::filesystem::path from_root(std::filesystem::path directory) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(directory, error);
  return error ? directory : whole;
}

template <class State>
State& present(const std::unique_ptr<State>& state) {
  LOCKSTEP_EXPECTS(state != nullptr, ContextError, kManager,
                   ": this one has been moved from. Use the one that it was moved to.");
  return *state;
}

}  // namespace

struct CheckpointManager::State {
  State(Checkpoint& of, std::filesystem::path in, CheckpointManagerOptions with)
      : checkpoint(of), directory(from_root(std::move(in))), options(std::move(with)) {}
  ~State() {
    forget_parents();
    try {
      finish();
    } catch (const std::exception& error) {
      detail::warn(error.what());
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::filesystem::path path_of(std::int64_t step) const {
    return directory / (options.prefix + "-" + std::to_string(step) + std::string(kSuffix));
  }
  std::vector<std::int64_t> steps() const;  // ascending
  void write(std::int64_t step, const std::map<std::string, Tensor>& values) const;
  void remove_old(std::int64_t newest) const;
  void begin(std::int64_t step, std::map<std::string, Tensor> values);
  /// Returns when no save is under way. @throws what it has thrown
  void finish();
  /// A fork has no thread that writes.
  void forget_parents() noexcept {
    if (!process.is_forked()) return;
    static_cast<void>(writing.release());
    process = {};
  }

  Checkpoint& checkpoint;
  const std::filesystem::path directory;
  const CheckpointManagerOptions options;
  detail::Staging staging;  // the thread's while there is one
  std::unique_ptr<std::thread> writing;
  std::exception_ptr failure;  // written by the thread, read once it has ended
  detail::Process process;
};

std::vector<std::int64_t> CheckpointManager::State::steps() const {
  std::vector<std::int64_t> found;
  std::error_code error;
  const std::vector<std::string> names = detail::names_in_folder(directory, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  check(error, kManager, directory, "read");
  for (const std::string& name : names) {
    const std::size_t begin = options.prefix.size() + 1;
    if (name.size() <= begin + kSuffix.size()) continue;
    std::int64_t step = 0;
    std::from_chars(name.data() + begin, name.data() + name.size() - kSuffix.size(), step);
    // Only names that save gives: not 007, nor steps too large.
    if (step < 0 || name != path_of(step).filename()) continue;
    const std::filesystem::file_type type = std::filesystem::symlink_status(path_of(step), error).type();
    if (type != std::filesystem::file_type::not_found) check(error, kManager, path_of(step), "read");
    if (type == std::filesystem::file_type::regular) found.push_back(step);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void CheckpointManager::State::write(std::int64_t step, const std::map<std::string, Tensor>& values) const {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  check(error, kSave, directory, "made");
  detail::remove_abandoned_files(directory);
  detail::write_safetensors(path_of(step), values, kSave);
  remove_old(step);
}

void CheckpointManager::State::remove_old(std::int64_t newest) const {
  std::vector<std::int64_t> old = steps();
  std::erase(old, newest);
  const auto num_kept = static_cast<std::size_t>(options.max_to_keep) - 1;
  for (std::size_t i = 0; i + num_kept < old.size(); ++i) {
    std::error_code error;
    std::filesystem::remove(path_of(old[i]), error);
    check(error, kSave, path_of(old[i]), "removed");
  }
}

void CheckpointManager::State::begin(std::int64_t step, std::map<std::string, Tensor> values) {
  staging.clear();
  values = detail::on_host(std::move(values), staging);
  if (!options.asynchronous) return write(step, values);
  auto thread = std::make_unique<std::thread>();  // before it starts: nobody would join it without memory
  *thread = detail::start_thread(
      "CheckpointManager::save: the thread that writes", [this, step, held = std::move(values)]() mutable {
        const detail::Span span(detail::SpanKind::checkpoint, "CheckpointManager: write");
        const std::map<std::string, Tensor> own = std::move(held);  // not kept until the thread is joined
        try {
          write(step, own);
        } catch (...) {
          failure = std::current_exception();
        }
      });
  writing = std::move(thread);
}

void CheckpointManager::State::finish() {
  forget_parents();
  if (writing == nullptr) return;
  writing->join();
  writing.reset();
  if (const std::exception_ptr thrown = std::exchange(failure, nullptr)) std::rethrow_exception(thrown);
}

CheckpointManager::CheckpointManager(Checkpoint& checkpoint, std::filesystem::path directory,
                                     CheckpointManagerOptions options) {
  LOCKSTEP_EXPECTS(options.max_to_keep >= 1, InvalidArgument, "CheckpointManager: max_to_keep is ",
                   options.max_to_keep, ". Keep at least 1.");
  LOCKSTEP_EXPECTS(!options.prefix.empty() && options.prefix.find_first_of({"/\0", 2}) == std::string::npos,
                   InvalidArgument, "CheckpointManager: the prefix ", detail::in_quotes(options.prefix),
                   " cannot begin a file's name. Pass one without '/', and the folder apart.");
  state_ = std::make_unique<State>(checkpoint, std::move(directory), std::move(options));
}

CheckpointManager::~CheckpointManager() = default;
CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;
CheckpointManager& CheckpointManager::operator=(CheckpointManager&&) noexcept = default;

std::filesystem::path CheckpointManager::save(std::int64_t step) {
  State& own = present(state_);
  own.checkpoint.agree(kSave, [step] {
    LOCKSTEP_EXPECTS(step >= 0, InvalidArgument, kSave, ": step ", step, " is negative. Count steps from 0.");
    return step;
  });
  if (own.options.asynchronous) own.checkpoint.in_writer(kSave, [&] { own.finish(); });
  std::filesystem::path path = own.path_of(step);
  own.checkpoint.save(path, [&](Checkpoint::Values values) { own.begin(step, std::move(values)); });
  return path;
}

void CheckpointManager::wait() {
  State& own = present(state_);
  own.checkpoint.in_writer("CheckpointManager::wait", [&own] { own.finish(); });
}

std::optional<std::filesystem::path> CheckpointManager::latest() const {
  const std::vector<std::int64_t> found = present(state_).steps();
  if (found.empty()) return std::nullopt;
  return present(state_).path_of(found.back());
}

std::vector<std::filesystem::path> CheckpointManager::checkpoints() const {
  std::vector<std::filesystem::path> paths;
  const State& own = present(state_);
  for (const std::int64_t step : own.steps()) paths.push_back(own.path_of(step));
  return paths;
}

std::optional<std::int64_t> CheckpointManager::restore_latest(RestoreOptions options) {
  State& own = present(state_);
  const std::int64_t latest = own.checkpoint.of_chief([&own]() -> std::int64_t {
    own.finish();
    const std::vector<std::int64_t> found = own.steps();
    return found.empty() ? -1 : found.back();
  });
  if (latest < 0) return std::nullopt;
  own.checkpoint.restore(own.path_of(latest), options, false);
  return latest;
}

}  // namespace lockstep
