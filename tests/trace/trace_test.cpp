#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <lockstep/lockstep.hpp>
#include <lockstep/trace.hpp>

#include "support/temporary_directory.hpp"
#include "trace/span.hpp"

namespace lockstep {

namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

constexpr int kReplicas = 4;
constexpr int kSteps = 3;

std::vector<Device> replicas() {
  std::vector<Device> devices;
  for (int i = 0; i < kReplicas; ++i) devices.emplace_back(DeviceKind::cpu, i);
  return devices;
}

/// Each step takes 3 floats for each replica from a dataset, and updates a variable by an optimizer.
void train(Strategy& strategy) {
  const auto data =
      Dataset::from_tensor_slices(Tensor::zeros(Shape(kSteps * kReplicas, 3), DType::f32)).batch(kReplicas);
  std::optional<Variable> weights;
  {
    const auto scope = strategy.scope();
    weights.emplace(Tensor::zeros(Shape(3), DType::f32));
  }
  optim::SGD sgd;
  for (const PerReplica<Tensor>& rows : strategy.distribute_dataset(data))
    strategy.run(
        [&](const Tensor&) {
          auto& context = *get_replica_context();
          const Tensor sum = context.all_reduce(
              ReduceOp::sum, Tensor::ones(Shape(5), DType::f32, context.device()), {.label = "a label"});
          sgd.apply_gradients({{Tensor::ones(Shape(3), DType::f32, context.device()), *weights}});
        },
        rows);
}

const trace::SummaryRow& row_of(const trace::Summary& summary, std::string_view kind, std::string_view name) {
  for (const trace::SummaryRow& row : summary.rows)
    if (row.kind == kind && row.name == name) return row;
  std::ostringstream text;
  text << summary;
  FAIL("no row " << kind << ' ' << name << " in\n" << text.str());
  throw 0;
}

json read(const std::filesystem::path& file) { return json::parse(std::ifstream(file)); }

}  // namespace

TEST_CASE("what was not recorded cannot be written", "[trace][host]") {
  if (!trace::summary().rows.empty()) SKIP("an earlier test has recorded");
  CHECK_THROWS_WITH(trace::write("spans.json"),
                    ContainsSubstring("trace::write to \"spans.json\": nothing was recorded"));
  CHECK(trace::summary().num_spans == 0);
  trace::stop();
  CHECK_FALSE(trace::is_recording());
}

TEST_CASE("a recording has room for 1 to 2^24 spans of a thread", "[trace][host]") {
  CHECK_THROWS_AS(trace::start(0), InvalidArgument);
  CHECK_THROWS_WITH(trace::start((1 << 24) + 1),
                    ContainsSubstring("16777217 spans for each thread. Pass a number from 1 to 16777216."));
  CHECK_FALSE(trace::is_recording());
}

TEST_CASE("the summary of a recording counts calls, bytes and waiting", "[trace][host]") {
  MirroredStrategy strategy(replicas());
  train(strategy);
  trace::start();
  CHECK(trace::is_recording());
  train(strategy);
  trace::stop();
  train(strategy);
  const trace::Summary summary = trace::summary();
  CHECK(summary.num_lost == 0);

  CHECK(row_of(summary, "run", "run").num_calls == kSteps * kReplicas);
  const trace::SummaryRow& all_reduce = row_of(summary, "collective", "a label: all_reduce(sum)");
  CHECK(all_reduce.num_calls >= kSteps * kReplicas);
  CHECK(all_reduce.bytes >= kSteps * kReplicas * 5 * 4);
  CHECK(all_reduce.waiting.count() > 0);
  CHECK(all_reduce.waiting <= all_reduce.total);
  CHECK(all_reduce.longest <= all_reduce.total);
  CHECK(row_of(summary, "run", "apply_gradients").num_calls == kSteps * kReplicas);
  CHECK(row_of(summary, "update", "apply_gradients").num_calls == kSteps);
  CHECK(row_of(summary, "input", "DistributedIterator::next").num_calls == kSteps + 1);
  CHECK(summary.duration >= row_of(summary, "run", "run").longest);

  std::ostringstream text;
  text << 1.5 << ' ' << summary << 1.5;
  CHECK_THAT(text.str(), ContainsSubstring("waiting") && ContainsSubstring("a label: all_reduce(sum)") &&
                             ContainsSubstring(" spans in ") && !ContainsSubstring("replaced"));
  CHECK(text.str().ends_with("\n1.5"));
}

TEST_CASE("a thread keeps its newest spans, and the summary counts those that are lost", "[trace][host]") {
  trace::start(2);
  for (int i = 0; i < 10; ++i) const detail::Span span(detail::SpanKind::run, "a span");
  trace::stop();
  const trace::Summary summary = trace::summary();
  CHECK(summary.num_spans + summary.num_lost == 10);
  CHECK(summary.num_spans >= 2);
  CHECK(summary.num_lost > 0);
  std::ostringstream text;
  text << summary;
  CHECK_THAT(text.str(), ContainsSubstring("older ones were replaced"));
}

TEST_CASE("threads record at the same time, also after they have recorded before", "[trace][host]") {
  for (int recording = 0; recording < 3; ++recording) {
    trace::start();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([] {
        for (int i = 0; i < 100; ++i) const detail::Span span(detail::SpanKind::input, "a span");
      });
    for (int i = 0; i < 100; ++i) const detail::Span span(detail::SpanKind::input, "a span");
    for (std::thread& thread : threads) thread.join();
    trace::stop();
    CHECK(trace::summary().num_spans == 500);
  }
}

TEST_CASE("spans nest, and the waiting counts for the innermost", "[trace][host]") {
  trace::start();
  {
    const detail::Span outer(detail::SpanKind::run, "outer", 3);
    const detail::Span inner(detail::SpanKind::collective, "inner", 1);
    const detail::SpanWait waits;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  trace::stop();
  const trace::Summary summary = trace::summary();
  CHECK(row_of(summary, "collective", "inner").waiting >= std::chrono::milliseconds(2));
  CHECK(row_of(summary, "run", "outer").waiting.count() == 0);
}

TEST_CASE("while nothing is recorded, nothing listens", "[trace][host]") {
  trace::stop();
  const detail::Span span(detail::SpanKind::run, "a span");
  CHECK((detail::Span::listeners() & detail::Span::kRecording) == 0);
}

TEST_CASE("a written recording is a picture with a row for each replica", "[trace][host]") {
  const test::TemporaryDirectory folder;
  const std::filesystem::path file = folder.path() / "spans.json";
  MirroredStrategy strategy(replicas());
  trace::start();
  train(strategy);
  trace::stop();
  trace::write(file.string());
  CHECK_THROWS_AS(trace::write((folder.path() / "nowhere" / "spans.json").string()), NotFound);

  const json events = read(file).at("traceEvents");
  std::map<int, std::string> rows;
  std::map<int, std::vector<std::pair<double, double>>> open;  // by row: spans around the next
  std::map<std::string, std::string> arrows;
  std::map<int, int> runs;
  int num_labelled = 0;
  for (const json& event : events) {
    const std::string phase = event.at("ph");
    REQUIRE(event.at("pid") == getpid());
    const int row = event.at("tid");
    if (phase == "M") {
      if (event.at("name") == "thread_name") rows[row] = event.at("args").at("name");
      continue;
    }
    REQUIRE(rows.contains(row));
    const double begin = event.at("ts");
    if (phase != "X") {
      arrows[event.at("id")] += phase;
      continue;
    }
    const double end = begin + event.at("dur").get<double>();
    // Spans are sorted by their begin: on each row they nest. Numbers have fractions of nanoseconds lost.
    auto& around = open[row];
    while (!around.empty() && around.back().second <= begin + 0.002) around.pop_back();
    REQUIRE((around.empty() || end <= around.back().second + 0.002));
    around.emplace_back(begin, end);
    if (event.at("name") == "run") ++runs[row];
    if (event.at("name") != "a label: all_reduce(sum)") continue;
    REQUIRE(event.at("args").at("bytes") == 20);
    REQUIRE(event.at("args").at("path") == to_string(CommunicationPath::with_meeting));
    ++num_labelled;
  }
  for (int i = 0; i < kReplicas; ++i) {
    CHECK(rows[i] == "replica " + std::to_string(i));
    CHECK(runs[i] == kSteps);
  }
  CHECK(num_labelled == kSteps * kReplicas);
  REQUIRE(arrows.size() >= kSteps);
  for (const auto& [id, phases] : arrows) CHECK(phases == "sttf");
}

}  // namespace lockstep
