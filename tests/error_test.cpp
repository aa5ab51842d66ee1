#include <string>
#include <type_traits>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

using namespace lockstep;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Message;

namespace {

void demand(bool condition, int& evaluations) {
  LOCKSTEP_EXPECTS(condition, Unsupported, "copy number ", ++evaluations, " of shape ", "[2, 3]", ": ", true);
}

}  // namespace

TEST_CASE("LOCKSTEP_EXPECTS throws the kind, with the parts as the message", "[error][host]") {
  int evaluations = 0;
  CHECK_THROWS_MATCHES(demand(false, evaluations), Unsupported,
                       Message("copy number 1 of shape [2, 3]: true"));
  CHECK(evaluations == 1);
}

TEST_CASE("LOCKSTEP_EXPECTS builds no message when the condition holds", "[error][host]") {
  int evaluations = 0;
  CHECK_NOTHROW(demand(true, evaluations));
  CHECK(evaluations == 0);
}

TEST_CASE("LOCKSTEP_EXPECTS is one statement", "[error][host]") {
  bool reached = false;
  if (reached)
    LOCKSTEP_EXPECTS(false, InvalidArgument, "never");
  else
    reached = true;
  CHECK(reached);
}

TEST_CASE("an error knows where it was noticed", "[error][host]") {
  int evaluations = 0;
  try {
    demand(false, evaluations);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK_THAT(error.context().location.file, EndsWith("error_test.cpp"));
    CHECK(error.context().location.line > 0);
    CHECK(std::string(error.context().location.function).find("demand") != std::string::npos);
  }
}

TEST_CASE("an error's context has what its message says", "[error][host]") {
  const auto context_of = [](const std::string& message, ErrorContext given = {}) {
    return detail::complete(std::move(given), message);
  };
  const ErrorContext all = context_of(
      "all_reduce(sum) on replica 2 (CPU:2): shape [128, 32] float32 differs from replica 0's [128, 64] "
      "int8. "
      "Pass equal shapes on every replica, or use all_gather for ragged values.");
  CHECK(all.operation == "all_reduce");
  CHECK(all.device == "CPU:2");
  CHECK(all.operands == "[128, 32] float32, [128, 64] int8");
  CHECK(all.hint == "Pass equal shapes on every replica, or use all_gather for ragged values.");
  CHECK(all.replica == 2);

  CHECK(context_of("Dataset::batch: batches of 0 elements. Pass at least 1.").operation == "Dataset::batch");
  CHECK(context_of("matmul on GPU:13: [] by [2, ?].").operation == "matmul");
  CHECK(context_of("matmul on GPU:13: [] by [2, ?].").device == "GPU:13");
  CHECK(context_of("matmul on GPU:13: [] by [2, ?].").operands == "[], [2, ?]");
  CHECK(context_of("The variable was moved from.").operation.empty());
  CHECK(context_of("The variable was moved from.").hint.empty());
  CHECK(context_of("fill: [2] float8_e4m3, [3] bool; [4] integers.").operands ==
        "[2] float8_e4m3, [3] bool, [4]");
  CHECK(context_of("").operation.empty());
  CHECK(context_of("[").operands.empty());
  CHECK(context_of("CPU:").device.empty());

  const ErrorContext given = context_of(
      "reduce: [1] differs. Pass others.",
      {.operation = "mine", .replica = 3, .device = "GPU:0", .operands = "none", .hint = "Think."});
  CHECK(given.operation == "mine");
  CHECK(given.replica == 3);
  CHECK(given.device == "GPU:0");
  CHECK(given.operands == "none");
  CHECK(given.hint == "Think.");
}

TEST_CASE("an error's context has each field from where the message says it", "[error][host]") {
  struct Row {
    const char* message;
    ErrorContext expected;
  };
  const Row rows[] = {
      {"Device: 'TPU:0' is not the name of a device. Write it as GPU:0 or /cpu:1.", {.operation = "Device"}},
      {"gather on replica 0: scalars cannot be concatenated. Reshape them to [1] first.",
       {.operation = "gather", .replica = 0}},
      {"distribute_dataset: batch_weights[1] is -1. Pass finite numbers.",
       {.operation = "distribute_dataset"}},
      {"all_reduce(sum), call 0: replica 1 (CPU:1) calls it where replica 0 (CPU:0) calls broadcast. Stop.",
       {.operation = "all_reduce", .replica = 1, .device = "CPU:1"}},
      {"reduce(sum): replica 1's component [2] int8 differs from replica 0's [1] int8. Pass others.",
       {.operation = "reduce", .replica = 1, .operands = "[2] int8, [1] int8"}},
      {"broadcast on rank 3 (GPU:1): ([2]) has no memory. Pass [2].",
       {.operation = "broadcast", .replica = 3, .device = "GPU:1", .operands = "[2]"}},
      {"Tensor::narrow: axis 3 is outside [-1, 1) for shape [2] of rank 1. Pass one of its axes.",
       {.operation = "Tensor::narrow", .operands = "[2]"}},
      {"run: a per-replica value of replicas 0 and 1. Pass others.", {.operation = "run"}},
      {"Variable 'gone': its strategy has been destroyed. Keep it.", {.operation = "Variable"}},
      {"reading the variable 'v' as one value: it has none. Read it.", {.operation = "reading"}},
      {"from_environment (Slurm): there is no task. Start one.", {.operation = "from_environment"}},
      {"all_reduce, which is a collective. Stop.", {}},
      {"f: replica ", {.operation = "f"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    const ErrorContext context = detail::complete({}, row.message);
    CHECK(context.operation == row.expected.operation);
    CHECK(context.replica == row.expected.replica);
    CHECK(context.device == row.expected.device);
    CHECK(context.operands == row.expected.operands);
  }
  CHECK(detail::complete({.operation = "all_reduce(sum)"}, "why").operation == "all_reduce");
}

TEST_CASE("an error carries its context", "[error][host]") {
  try {
    throw DeviceError("fill on GPU:1 failed",
                      {.operation = "fill", .device = "GPU:1", .code = 700, .hint = "restart"}, true);
  } catch (const Error& error) {
    CHECK(error.context().operation == "fill");
    CHECK(error.context().replica == -1);
    CHECK(error.context().device == "GPU:1");
    CHECK(error.context().code == 700);
    CHECK(error.context().hint == "restart");
    CHECK(dynamic_cast<const DeviceError&>(error).is_fatal());
  }
}

TEST_CASE("the exception tree is the documented one", "[error][host]") {
  STATIC_CHECK(std::is_base_of_v<std::runtime_error, Error>);
  STATIC_CHECK(std::is_base_of_v<Error, InvalidArgument>);
  STATIC_CHECK(std::is_base_of_v<InvalidArgument, CollectiveMismatch>);
  STATIC_CHECK(std::is_base_of_v<Error, ContextError>);
  STATIC_CHECK(std::is_base_of_v<Error, NotFound>);
  STATIC_CHECK(std::is_base_of_v<Error, OutOfRange>);
  STATIC_CHECK(std::is_base_of_v<Error, Unsupported>);
  STATIC_CHECK(std::is_base_of_v<Error, OutOfMemory>);
  STATIC_CHECK(std::is_base_of_v<Error, DeviceError>);
  STATIC_CHECK(std::is_base_of_v<Error, CollectiveError>);
  STATIC_CHECK(std::is_base_of_v<CollectiveError, CollectiveTimeout>);
  STATIC_CHECK(std::is_base_of_v<CollectiveError, CollectiveAborted>);
  STATIC_CHECK(std::is_copy_constructible_v<Error>);
}
