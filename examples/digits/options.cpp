#include "options.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <system_error>

#include <CLI/CLI.hpp>

#include "text.hpp"

namespace digits {
namespace {

constexpr int kDefaultHostReplicas = 4;
constexpr int kMostReplicas = 1024;
constexpr int kMostEpochs = 1'000'000;

// Options that need further checks after parsing.
struct RawOptions {
  int replicas = 0;
  std::string devices;
  std::string seed;
  std::string optimizer = "adam";
  double learning_rate = 0;
  double required_percent = 0;
};

void declare(CLI::App& app, Options& options, RawOptions& raw) {
  app.get_formatter()->column_width(30);
  auto* const replicas =
      app.add_option("--replicas", raw.replicas, "replicas [every GPU; without one, 4 on the host]")
          ->check(CLI::Range(1, kMostReplicas))
          ->type_name("N");
  app.add_option("--devices", raw.devices, "one replica on each, as GPU:0,GPU:1 or CPU:0,CPU:1")
      ->excludes(replicas)
      ->type_name("LIST");
  app.add_option("--epochs", options.num_epochs, "passes over the images [30]")
      ->check(CLI::Range(1, kMostEpochs))
      ->type_name("N");
  app.add_option("--batch-size", options.trainer.batch_size,
                 "images in a step, of all replicas together [64]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31))
      ->type_name("N");
  app.add_option("--seed", raw.seed, "of the weights and the order of the images [1]")->type_name("N");
  app.add_option("--optimizer", raw.optimizer, "adam or sgd (with momentum) [adam]")
      ->check(CLI::IsMember({"adam", "sgd"}))
      ->type_name("NAME");
  app.add_option("--learning-rate", raw.learning_rate, "[0.005 with adam, 0.1 with sgd]")->type_name("X");
  app.add_flag("--graph", options.trainer.graph, "trace the steps: on GPUs each is one launch of a graph");
  app.add_option("--data", options.data,
                 "folder of digits_images.npy and digits_labels.npy [" LOCKSTEP_DIGITS_DATA "]")
      ->type_name("DIR");
  auto* const checkpoints =
      app.add_option("--checkpoints", options.checkpoints,
                     "folder to save into after each epoch; training goes on from the latest there")
          ->type_name("DIR");
  app.add_option("--save-every", options.save_every, "save a checkpoint also after every so many steps")
      ->needs(checkpoints)
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31))
      ->type_name("N");
  app.add_flag("--shrink", options.shrink,
               "when a worker is lost, go on from the latest checkpoint with those that are left")
      ->needs(checkpoints);
  app.add_flag("--grow", options.grow, "after a step in which others wait to join, go on with them")
      ->needs(checkpoints);
  auto* const join =
      app.add_option(
             "--join", options.join,
             "join the workers whose chief has this address, and which --grow; then --grow and --shrink")
          ->needs(checkpoints)
          ->type_name("HOST:PORT");
  app.add_option("--address", options.address,
                 "this process's own, to lead those that are left when the chief is lost [none]")
      ->needs(join)
      ->type_name("HOST:PORT");
  app.add_option("--trace", options.trace,
                 "record what runs into this file, for Perfetto, and print a summary of it")
      ->type_name("FILE");
  app.add_option("--require-accuracy", raw.required_percent,
                 "fail if the test accuracy ends below this, in percent")
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("X");
}

constexpr const char* kDescription =
    "train_digits: trains a network of two layers to read handwritten digits, on several replicas in step.";

std::vector<ls::Device> parse_devices(const std::string& list) {
  std::vector<ls::Device> devices;
  std::istringstream names(list + ",");  // getline returns no empty last name
  for (std::string name; std::getline(names, name, ',');) {
    try {
      if (name.empty())
        throw OptionError(text("--devices ", list, ": a name is empty. Write GPU:0 or CPU:0."));
      devices.emplace_back(name);
      static_cast<void>(ls::DeviceManager::instance().info(devices.back()));
    } catch (const ls::Error& error) {
      throw OptionError(text("--devices ", list, ": ", error.what()));
    }
    for (std::size_t i = 0; i + 1 < devices.size(); ++i)
      if (devices[i] == devices.back())
        throw OptionError(
            text("--devices ", list, ": ", devices.back(), " is listed twice. Each replica needs its own."));
  }
  return devices;
}

std::uint64_t parse_seed(const std::string& given) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), seed);
  if (given.empty() || error != std::errc() || *end != '\0')
    throw OptionError(text("--seed '", given, "' is not a whole number from 0 to 2^64 - 1"));
  return seed;
}

}  // namespace

std::vector<ls::Device> choose_devices(std::optional<int> num_replicas, const std::vector<ls::Device>& gpus) {
  const int num_gpus = static_cast<int>(gpus.size());
  const int n = num_replicas.value_or(num_gpus > 0 ? num_gpus : kDefaultHostReplicas);
  std::vector<ls::Device> devices;
  if (num_gpus == 0) {
    for (int i = 0; i < n; ++i) devices.emplace_back(ls::DeviceKind::cpu, i);
    return devices;
  }
  if (n > num_gpus)
    throw OptionError(text("--replicas ", n, ": there ",
                           num_gpus == 1 ? "is 1 GPU" : text("are ", num_gpus, " GPUs"),
                           ". For replicas on the host, use --devices CPU:0,CPU:1,..."));
  return {gpus.begin(), gpus.begin() + n};
}

Options parse_options(const std::vector<std::string>& arguments, const std::vector<ls::Device>& gpus) {
  Options options;
  options.data = LOCKSTEP_DIGITS_DATA;
  RawOptions raw;
  CLI::App app(kDescription, "train_digits");
  declare(app, options, raw);
  try {
    app.parse(
        std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them from the back
  } catch (const CLI::CallForHelp&) {
    options.help = true;
    return options;
  } catch (const CLI::ParseError& error) {
    throw OptionError(error.what());
  }

  TrainerOptions& trainer = options.trainer;
  trainer.optimizer = raw.optimizer == "sgd" ? OptimizerKind::sgd : OptimizerKind::adam;
  trainer.learning_rate =
      app.count("--learning-rate") > 0 ? raw.learning_rate : default_learning_rate(trainer.optimizer);
  if (!std::isfinite(trainer.learning_rate) || trainer.learning_rate <= 0)
    throw OptionError(text("--learning-rate ", trainer.learning_rate, " is not a number above 0"));
  if (app.count("--seed") > 0) trainer.seed = parse_seed(raw.seed);
  if (std::isnan(raw.required_percent))
    throw OptionError("--require-accuracy nan is not a number from 0 to 100");
  if (app.count("--checkpoints") > 0 && options.checkpoints.empty())
    throw OptionError("--checkpoints '' names no folder");
  if (app.count("--join") > 0 && options.join.empty()) throw OptionError("--join '' names no chief");
  if (app.count("--address") > 0 && options.address.empty()) throw OptionError("--address '' is no address");
  options.grow = options.grow || !options.join.empty();
  options.shrink = options.shrink || !options.join.empty();
  if (app.count("--require-accuracy") > 0) options.required_accuracy = raw.required_percent / 100;
  options.devices =
      app.count("--devices") > 0
          ? parse_devices(raw.devices)
          : choose_devices(app.count("--replicas") > 0 ? std::optional(raw.replicas) : std::nullopt, gpus);
  return options;
}

std::string usage() {
  Options options;
  RawOptions raw;
  CLI::App app(kDescription, "train_digits");
  declare(app, options, raw);
  return app.help();
}

}  // namespace digits
