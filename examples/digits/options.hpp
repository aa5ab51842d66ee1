#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <lockstep/lockstep.hpp>

#include "trainer.hpp"

namespace digits {

/// The command line cannot be used. The message is one line and names the culprit.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command line of train_digits.
struct Options {
  bool help = false;
  std::vector<ls::Device> devices;  ///< One for each replica.
  int num_epochs = 30;
  TrainerOptions trainer;
  std::filesystem::path data;
  std::filesystem::path checkpoints;        ///< Folder to go on from, and to save into; empty: none.
  std::optional<double> required_accuracy;  ///< Of the test images, from 0 to 1.
};

/// @param arguments  without the program's name.
/// @param gpus  those that are there, for the default.
/// @throws OptionError
Options parse_options(const std::vector<std::string>& arguments, const std::vector<ls::Device>& gpus);

/// The devices of `num_replicas` replicas when nobody names any: GPUs, or without one, host replicas.
/// @throws OptionError  there are fewer GPUs.
std::vector<ls::Device> choose_devices(std::optional<int> num_replicas, const std::vector<ls::Device>& gpus);

/// What --help prints.
std::string usage();

}  // namespace digits
