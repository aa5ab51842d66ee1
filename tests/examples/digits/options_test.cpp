#include "digits/options.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "support/matchers.hpp"

using namespace digits;
using lockstep::test::says;

namespace {

using Devices = std::vector<ls::Device>;
const Devices kNoGpus;
const Devices kTwoGpus{"GPU:0", "GPU:1"};

Options parse(const std::vector<std::string>& arguments) { return parse_options(arguments, kNoGpus); }

}  // namespace

TEST_CASE("train_digits runs on every GPU, else on four host replicas", "[examples]") {
  CHECK(parse_options({}, kTwoGpus).devices == kTwoGpus);
  CHECK(parse({}).devices == Devices{"CPU:0", "CPU:1", "CPU:2", "CPU:3"});
  CHECK(choose_devices(1, kTwoGpus) == Devices{"GPU:0"});
  CHECK(choose_devices(5, kNoGpus).size() == 5);
  CHECK_THROWS_MATCHES(choose_devices(3, kTwoGpus), OptionError,
                       says("--replicas 3", "are 2 GPUs", "--devices"));
  CHECK_THROWS_MATCHES(choose_devices(3, {"GPU:0"}), OptionError, says("there is 1 GPU."));
}

TEST_CASE("train_digits reads its options", "[examples]") {
  const Options defaults = parse({});
  CHECK(defaults.num_epochs == 30);
  CHECK(defaults.trainer.batch_size == 64);
  CHECK(defaults.trainer.optimizer == OptimizerKind::adam);
  CHECK(defaults.trainer.learning_rate == 0.005);
  CHECK(defaults.data == LOCKSTEP_DIGITS_DATA);
  CHECK_FALSE(defaults.required_accuracy);
  CHECK_FALSE(defaults.help);

  const Options options =
      parse({"--devices", "CPU:2,cpu:0", "--epochs", "3", "--batch-size=32", "--seed", "18446744073709551615",
             "--optimizer", "sgd", "--data", "/tmp", "--require-accuracy", "96"});
  CHECK(options.devices == Devices{"CPU:2", "CPU:0"});
  CHECK(options.num_epochs == 3);
  CHECK(options.trainer.batch_size == 32);
  CHECK(options.trainer.seed == 18446744073709551615u);
  CHECK(options.trainer.optimizer == OptimizerKind::sgd);
  CHECK(options.trainer.learning_rate == 0.1);
  CHECK(options.data == "/tmp");
  CHECK(options.required_accuracy == 0.96);
  CHECK(parse({"--learning-rate", "0.5"}).trainer.learning_rate == 0.5);
  CHECK(parse({"--replicas", "2"}).devices.size() == 2);
  CHECK(parse({"--help"}).help);
  CHECK_FALSE(defaults.grow);
  CHECK(parse({"--checkpoints", "c", "--grow"}).grow);
  const Options joining = parse({"--checkpoints", "c", "--join", "10.0.0.1:2222"});
  CHECK(joining.join == "10.0.0.1:2222");
  CHECK(joining.grow);
  CHECK(joining.shrink);
  CHECK(joining.address.empty());
  CHECK(parse({"--checkpoints", "c", "--join", "10.0.0.1:2222", "--address", "10.0.0.2:2222"}).address ==
        "10.0.0.2:2222");
}

TEST_CASE("train_digits refuses options in one line that names the culprit", "[examples]") {
  const auto refusal = [](const std::vector<std::string>& arguments) -> std::string {
    try {
      parse(arguments);
    } catch (const OptionError& error) {
      const std::string message = error.what();
      return std::count(message.begin(), message.end(), '\n') == 0 ? message : "several lines";
    }
    return "accepted";
  };
  const auto refuses = [&](const std::vector<std::string>& arguments, const std::string& part) {
    const std::string message = refusal(arguments);
    CAPTURE(message, part);
    CHECK(message.find(part) != std::string::npos);
  };
  refuses({"--frobnicate"}, "--frobnicate");
  refuses({"digits"}, "digits");
  refuses({"--replicas"}, "--replicas");
  refuses({"--replicas", "0"}, "--replicas");
  refuses({"--replicas", "many"}, "--replicas");
  refuses({"--replicas", "2", "--devices", "CPU:0,CPU:1"}, " excludes --");
  refuses({"--devices", ""}, "--devices");
  refuses({"--devices", "TPU:0"}, "TPU:0");
  refuses({"--devices", "CPU:0,,CPU:1"}, "--devices");
  refuses({"--devices", "CPU:0,"}, "--devices");
  refuses({"--devices", "CPU:0,cpu:0"}, "CPU:0 is listed twice");
  refuses({"--devices", "GPU:77"}, "GPU:77");
  refuses({"--epochs", "0"}, "--epochs");
  refuses({"--epochs", "1.5"}, "--epochs");
  refuses({"--batch-size", "-1"}, "--batch-size");
  refuses({"--seed", "-1"}, "--seed");
  refuses({"--seed", "seven"}, "--seed");
  refuses({"--seed", "18446744073709551616"}, "--seed");
  refuses({"--batch-size", "99999999999999999999"}, "--batch-size");
  refuses({"--optimizer", "lion"}, "--optimizer");
  refuses({"--learning-rate", "0"}, "--learning-rate 0");
  refuses({"--learning-rate", "nan"}, "--learning-rate nan");
  refuses({"--grow"}, "--checkpoints");
  refuses({"--join", "10.0.0.1:2222"}, "--checkpoints");
  refuses({"--checkpoints", "c", "--join", ""}, "--join");
  refuses({"--address", "10.0.0.2:2222"}, "--join");
  refuses({"--checkpoints", "c", "--join", "10.0.0.1:2222", "--address", ""}, "--address");
  refuses({"--require-accuracy", "101"}, "--require-accuracy");
}

TEST_CASE("train_digits lists its options", "[examples]") {
  for (const char* option : {"--replicas", "--devices", "--epochs", "--batch-size", "--seed", "--optimizer",
                             "--learning-rate", "--data", "--require-accuracy", "--help"})
    CHECK(usage().find(option) != std::string::npos);
}
