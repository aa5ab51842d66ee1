// Checkpoints that are saved, rotated and restored, at once and by a thread.
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <lockstep/lockstep.hpp>

#include "faults/scenario.hpp"
#include "support/temporary_directory.hpp"

namespace ls = lockstep;
namespace fs = std::filesystem;

namespace {

void expects(bool condition, const std::string& what) {
  if (!condition) throw std::logic_error(what);
}

/// A variable whose elements are all the number of the last step.
class Run {
 public:
  explicit Run(fs::path folder) : folder_(std::move(folder)) {
    assign(7);
    checkpoint_.save(folder_ / "first.safetensors");
  }

  void attempt() {
    assign(0);
    ls::CheckpointManager manager(checkpoint_, folder_ / "runs" / "one", {.max_to_keep = 2});
    for (int step = 1; step <= 3; ++step) {
      assign(step);
      manager.save(step);
    }
    assign(9);
    restore([&] { expects(manager.restore_latest() == 3, "another step"); }, 3);
    ls::CheckpointManager later(checkpoint_, folder_ / "later", {.max_to_keep = 1, .asynchronous = true});
    for (int step = 1; step <= 2; ++step) {
      assign(step);
      later.save(step);
      assign(8);
    }
    later.wait();
    restore([&] { expects(later.restore_latest() == 2, "another step"); }, 2);
    assign(7);
    checkpoint_.save(folder_ / "first.safetensors");
    restore([&] { checkpoint_.restore(folder_ / "first.safetensors"); }, 7);
  }

  void check(bool has_failed) {
    expects(has(value_), "the variable has another value than " + std::to_string(value_));
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_directory()) continue;
      const std::string name = entry.path().stem();
      expects(entry.path().extension() == ".safetensors", "left behind: " + entry.path().string());
      checkpoint_.restore(entry.path());
      value_ = name == "first" ? 7 : std::stoi(name.substr(name.rfind('-') + 1));
      expects(has(value_), entry.path().string() + " has other values");
    }
    const auto num_files = [&](const fs::path& run) {
      std::error_code error;
      return std::distance(fs::directory_iterator(run, error), fs::directory_iterator());
    };
    if (has_failed) return;
    expects(num_files(folder_ / "runs" / "one") == 2 && num_files(folder_ / "later") == 1, "files are left");
  }

 private:
  void assign(int value) {
    const ls::Tensor values = ls::Tensor::full({300}, static_cast<float>(value));
    variable_.assign(values);
    value_ = value;
  }
  template <class F>
  void restore(const F& function, int value) {
    function();
    value_ = value;
    expects(has(value), "restored other values");
  }
  bool has(int value) {
    for (const ls::Tensor& component : strategy_.local_results(variable_))
      if (component.to_vector<float>() != std::vector<float>(300, static_cast<float>(value))) return false;
    return true;
  }

  fs::path folder_;
  ls::MirroredStrategy strategy_{{"CPU:0", "CPU:1"}};
  ls::Variable variable_ = strategy_.make_variable(ls::Tensor::zeros({300}));
  ls::Checkpoint checkpoint_{{{"variable", variable_}}};
  int value_ = 0;  // that the variable must have
};

}  // namespace

int main() {
  const ls::test::TemporaryDirectory folder;
  Run run(folder.path());
  return ls::test::run_scenario({.attempt = [&] { run.attempt(); },
                                 .check = [&](bool has_failed) { run.check(has_failed); },
                                 .places = {folder.path().string()}});
}
