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

/// The command line is invalid. The message is one line and names the faulty option.
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
  std::filesystem::path checkpoints;        ///< Folder to resume from and to save into; empty: none.
  std::string trace;                        ///< File for a recording of what runs; empty: none.
  std::optional<std::int64_t> save_every;   ///< Steps after which a checkpoint is saved, besides each epoch.
  bool shrink = false;                      ///< Go on without workers that are lost.
  bool grow = false;                        ///< Go on with others that join.
  std::string join;                         ///< The chief's address, to join its workers; empty: start.
  std::string address;                      ///< With join: this process's own; empty: none.
  std::optional<double> required_accuracy;  ///< Fraction of the test images, from 0 to 1.
};

/// @param arguments  without the program's name.
/// @param gpus  the existing GPUs, for the default devices.
/// @throws OptionError
Options parse_options(const std::vector<std::string>& arguments, const std::vector<ls::Device>& gpus);

/// The devices of `num_replicas` replicas if the command line names none: GPUs or, without any GPU, host
/// replicas.
/// @throws OptionError  there are fewer GPUs than replicas.
std::vector<ls::Device> choose_devices(std::optional<int> num_replicas, const std::vector<ls::Device>& gpus);

/// The text of --help.
std::string usage();

}  // namespace digits
