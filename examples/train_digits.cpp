#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <lockstep/lockstep.hpp>

#include "digits/digits_data.hpp"
#include "digits/options.hpp"
#include "digits/progress.hpp"
#include "digits/trainer.hpp"

namespace {

namespace ls = lockstep;

constexpr int kFailure = 1;
constexpr int kUsage = 2;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string describe(const std::vector<ls::Device>& devices, int num_workers) {
  std::ostringstream text;
  text << devices.size() << (devices.size() == 1 ? " replica (" : " replicas (");
  for (const ls::Device& device : devices) text << (&device == &devices.front() ? "" : " ") << device;
  text << ")";
  if (num_workers > 1) text << " in each of " << num_workers << " workers";
  return text.str();
}

using Workers = ls::MultiWorkerMirroredStrategy;

// The replicas of this process, or of all processes that a launcher has started, or that it joins.
std::unique_ptr<ls::Strategy> make_strategy(const digits::Options& options) {
  const ls::WorkerOptions workers{.devices = options.devices};
  if (!options.join.empty()) return Workers::join(options.join, {}, workers, options.address);
  const auto cluster = ls::cluster::from_environment();
  if (options.grow && cluster->cluster_spec().empty())
    throw digits::OptionError("--grow: there is no cluster to join. Start it by torchrun or with TF_CONFIG.");
  if (cluster->cluster_spec().empty()) return std::make_unique<ls::MirroredStrategy>(options.devices);
  return std::make_unique<Workers>(cluster, ls::CommunicationOptions{}, workers);
}

// Others wait to join: what ends an epoch in its midst.
struct Joining {};

// Nothing: others wait to join.
std::optional<int> train(ls::Strategy& strategy, const digits::DigitsData& data,
                         const digits::Options& options) {
  digits::Trainer trainer(strategy, data, options.trainer);
  const bool is_chief = strategy.extended().should_save_summary();
  std::ostream out(is_chief ? std::cout.rdbuf() : nullptr);
  const std::string replicas =
      describe(options.devices, strategy.num_replicas_in_sync() / static_cast<int>(options.devices.size()));
  out << "Training on " << replicas << ": " << digits::with_thousands(data.training.num_rows())
      << " images to learn from, " << digits::with_thousands(data.test.num_rows()) << " to be tested on"
      << std::endl;

  digits::Progress progress(out, isatty(STDOUT_FILENO) != 0, options.num_epochs, data.training.num_rows());
  digits::EpochReport report;
  double seconds = 0;
  std::optional<ls::CheckpointManager> checkpoints;
  if (!options.checkpoints.empty()) {
    checkpoints.emplace(trainer.checkpoint(), options.checkpoints,
                        ls::CheckpointManagerOptions{.asynchronous = true});
    if (const auto step = checkpoints->restore_latest())
      out << "Going on after epoch " << trainer.num_epochs() << " and step " << *step << ", from "
          << options.checkpoints.string() << std::endl;
  }
  const auto save = [&] {
    if (checkpoints) checkpoints->save(trainer.num_steps());
  };
  auto* const workers = options.grow ? dynamic_cast<Workers*>(&strategy) : nullptr;
  const int first_epoch = trainer.num_epochs() + 1;
  report.test = trainer.evaluate();
  for (int epoch = first_epoch; epoch <= options.num_epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    report.epoch = epoch;
    try {
      report.training = trainer.train_epoch([&](std::int64_t num_rows) {
        progress.step(epoch, num_rows);
        if (options.save_every && trainer.num_steps() % *options.save_every == 0) save();
        if (workers != nullptr && workers->num_waiting() > 0) throw Joining();
      });
    } catch (const Joining&) {
      save();
      checkpoints->wait();
      return std::nullopt;
    }
    const double epoch_seconds = seconds_since(start);
    seconds += epoch_seconds;
    report.images_per_second = static_cast<double>(report.training.num_rows) / epoch_seconds;
    report.test = trainer.evaluate();
    progress.finish_epoch(report);
    save();
  }
  if (checkpoints) checkpoints->wait();

  const int num_epochs = std::max(0, options.num_epochs - first_epoch + 1);
  const auto num_images = report.training.num_rows * num_epochs;
  out << "Trained " << num_epochs << (num_epochs == 1 ? " epoch" : " epochs") << " with "
      << digits::name(options.trainer.optimizer) << " on " << replicas << ", batches of "
      << options.trainer.batch_size << ": "
      << digits::with_thousands(
             num_epochs == 0 ? 0 : static_cast<std::int64_t>(static_cast<double>(num_images) / seconds))
      << " images/s\n"
      << "Test accuracy " << digits::percent(report.test.accuracy()) << ": " << report.test.num_correct
      << " of " << report.test.num_rows << " images are read correctly" << std::endl;
  if (options.required_accuracy && report.test.accuracy() < *options.required_accuracy) {
    std::cerr << "train_digits: the test accuracy is below the required "
              << digits::percent(*options.required_accuracy) << '\n';
    return kFailure;
  }
  return 0;
}

int train(const digits::Options& options) {
  if (!options.trace.empty()) ls::trace::start();
  const digits::DigitsData data = digits::load_digits(options.data);
  std::unique_ptr<ls::Strategy> strategy = make_strategy(options);
  std::optional<int> status;
  while (!status) {
    try {
      status = train(*strategy, data, options);
      if (status) break;
      if (auto grown = dynamic_cast<Workers&>(*strategy).grow()) strategy = std::move(grown);
    } catch (const ls::PeerLost& lost) {
      auto* const workers = dynamic_cast<Workers*>(strategy.get());
      if (!options.shrink || workers == nullptr) throw;
      std::cerr << "train_digits: " << lost.what() << "\ntrain_digits: going on without it" << std::endl;
      strategy = workers->shrink();
    }
  }
  if (!options.trace.empty()) {
    ls::trace::stop();
    ls::trace::write(options.trace);
    if (strategy->extended().should_save_summary()) std::cout << ls::trace::summary();
  }
  return *status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const digits::Options options = digits::parse_options(
        {argv + (argc > 0 ? 1 : 0), argv + argc}, ls::DeviceManager::instance().devices(ls::DeviceKind::gpu));
    if (options.help) {
      std::cout << digits::usage();
      return 0;
    }
    return train(options);
  } catch (const digits::OptionError& error) {
    std::cerr << "train_digits: " << error.what() << '\n' << digits::usage();
    return kUsage;
  } catch (const std::exception& error) {
    std::cerr << "train_digits: " << error.what() << '\n';
    return kFailure;
  }
}
