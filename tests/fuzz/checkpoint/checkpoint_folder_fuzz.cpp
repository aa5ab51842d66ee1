#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <lockstep/checkpoint/checkpoint_manager.hpp>

#include "fuzz/expect.hpp"

namespace {

using namespace lockstep;
using test::expect;

/// An empty folder in memory, with managers of two prefixes.
class Folder {
 public:
  Folder() : path_("/dev/shm/lockstep_fuzz." + std::to_string(getpid())) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  const CheckpointManager& manager(bool is_short) const noexcept { return is_short ? short_ : usual_; }

 private:
  std::filesystem::path path_;
  Checkpoint checkpoint_;
  CheckpointManager usual_{checkpoint_, path_}, short_{checkpoint_, path_, {.prefix = "-"}};
};

}  // namespace

/// A name in a folder of checkpoints: it is passed over, or is one that a step gives. The first byte chooses
/// the prefix.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  if (size < 2 || size > 200) return 0;
  const std::string name(data + 1, data + size);
  if (name.find_first_of({"/\0", 2}) != name.npos || name == "." || name == "..") return 0;
  const std::filesystem::path path = folder.path() / name;
  std::ofstream(path).close();
  const bool is_short = (data[0] & 1) != 0;
  const auto found = folder.manager(is_short).checkpoints();
  expect(folder.manager(is_short).latest().value_or("") == (found.empty() ? "" : found.back()),
         "the latest checkpoint is not the last one");
  std::filesystem::remove(path);
  if (found.empty()) return 0;
  const std::string prefix = is_short ? "--" : "checkpoint-", suffix = ".safetensors";
  expect(found.size() == 1 && found[0] == path, "a checkpoint has another name than its file");
  const std::string step = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  expect(name == prefix + std::to_string(std::stoll(step)) + suffix, "no step gives this name");
  return 0;
}
