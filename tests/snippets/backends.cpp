// Examples of the documentation: the interface that every kind of device implements, as the core calls it.
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/backend/backend.hpp>
#include <lockstep/backend/engine.hpp>
#include <lockstep/backend/graph_backend.hpp>
#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/lockstep.hpp>

namespace ls = lockstep;
namespace backend = lockstep::backend;

TEST_CASE("the examples of backends are right", "[docs]") {
  //! [backend::Backend, backend::Capabilities]
  backend::Backend& host = ls::DeviceManager::instance().backend(ls::DeviceKind::cpu);
  bool is_asynchronous = host.capabilities().asynchronous;  // false: its calls have done their work
  int version = host.interface_version();                   // backend::kInterfaceVersion
  //! [backend::Backend, backend::Capabilities]
  CHECK_FALSE(is_asynchronous);
  CHECK(version == backend::kInterfaceVersion);

  //! [backend::DeviceBackend]
  backend::DeviceBackend& device = ls::DeviceManager::instance().open("CPU:0");
  backend::StreamHandle stream = device.default_stream_handle();
  auto* numbers = static_cast<float*>(device.allocate(4 * sizeof(float), stream));
  const float values[] = {1, 2, 3, 4};
  device.copy_from_host(numbers, values, sizeof(values), stream);
  device.synchronize(stream);
  //! [backend::DeviceBackend]
  CHECK(numbers[3] == 4);

  std::vector<float> result(2);
  //! [backend::KernelBackend, backend::AxisExtents]
  ls::TensorView in(numbers, {2, 2}, ls::DType::f32), out(result.data(), {2}, ls::DType::f32);
  device.kernels().reduce_axis(ls::ReduceOp::sum, out, in, {.outer = 1, .axis = 2, .inner = 2}, /*divisor=*/1,
                               stream);
  //! [backend::KernelBackend, backend::AxisExtents]
  CHECK(result == std::vector<float>{4, 6});

  //! [backend::RowGroups]
  std::int64_t targets[] = {1}, begins[] = {0, 2}, rows[] = {0, 1};  // rows 0 and 1 go to row 1
  backend::RowGroups groups{
      {targets, {1}, ls::DType::i64}, {begins, {2}, ls::DType::i64}, {rows, {2}, ls::DType::i64}};
  std::vector<float> table(4);
  device.kernels().scatter_rows(backend::ScatterOp::add, {table.data(), {2, 2}, ls::DType::f32}, in, groups,
                                stream);
  //! [backend::RowGroups]
  CHECK(table == std::vector<float>{0, 0, 4, 6});

  //! [backend::UpdateParameters, backend::StepNumbers]
  backend::UpdateParameters parameters{.learning_rate = 0.5};  // in a graph .numbers, on the device
  ls::TensorView no_velocity;
  device.kernels().sgd_update(out, no_velocity, {numbers, {2}, ls::DType::f32}, parameters, stream);
  //! [backend::UpdateParameters, backend::StepNumbers]
  CHECK(result == std::vector<float>{3.5f, 5});

  const ls::TensorView row(table.data(), {2}, ls::DType::f32);
  //! [backend::UpdateTensors]
  backend::UpdateTensors updates[] = {{.variable = out, .gradient = {numbers, {2}, ls::DType::f32}},
                                      {.variable = row, .gradient = {numbers + 2, {2}, ls::DType::f32}}};
  device.kernels().sgd_updates(updates, parameters, stream);  // on GPUs one kernel
  //! [backend::UpdateTensors]
  CHECK(result == std::vector<float>{3, 4});
  CHECK(table == std::vector<float>{-1.5f, -2, 4, 6});
  device.deallocate(numbers, 4 * sizeof(float), stream);

  //! [backend::GraphBackend, backend::Graph, backend::ListedCopy]
  if (backend::GraphBackend* graphs = device.graphs()) {  // null on the host
    const ls::Tensor x = ls::Tensor::ones({4}), y = ls::Tensor::zeros({4});
    graphs->begin_capture(stream);
    device.kernels().copy(y.view(), x.view(), stream);
    std::unique_ptr<backend::Graph> graph = graphs->end_capture(stream);
    graph->launch(stream);  // as often as the caller wants
  }
  //! [backend::GraphBackend, backend::Graph, backend::ListedCopy]
}

TEST_CASE("the example of a communicator's backend is right", "[docs]") {
  backend::DeviceBackend* devices[] = {&ls::DeviceManager::instance().open("CPU:0"),
                                       &ls::DeviceManager::instance().open("CPU:1")};
  //! [backend::CommunicatorBackend, backend::GroupCall, backend::RankCall, backend::Segment]
  auto group = ls::DeviceManager::instance().backend(ls::DeviceKind::cpu).create_communicator(devices, {});
  float memory[2][2] = {{1, 2}, {10, 20}};
  std::vector<backend::Segment> segments[2];
  std::vector<backend::RankCall> calls;
  for (int rank = 0; rank < 2; ++rank) {
    segments[rank].push_back(
        {.send = memory[rank], .receive = memory[rank], .count = 2, .dtype = ls::DType::f32});
    calls.push_back(
        {.rank = rank, .stream = devices[rank]->default_stream_handle(), .segments = segments[rank]});
  }
  group->all_reduce({.operation = "all_reduce(sum)", .calls = calls, .own = calls, .op = ls::ReduceOp::sum});
  //! [backend::CommunicatorBackend, backend::GroupCall, backend::RankCall, backend::Segment]
  CHECK(memory[1][1] == 22);

  //! [backend::Transfer]
  const backend::Transfer one_element[] = {
      {.segment = 0, .source = 0, .destination = 1, .size_bytes = sizeof(float)}};
  memory[0][0] = 5;
  group->transfer({.operation = "send_recv", .calls = calls, .own = calls, .transfers = one_element});
  //! [backend::Transfer]
  CHECK(memory[1][0] == 5);

  //! [backend::Route]
  backend::Route route{.in_rank_order = true};  // as CommunicationOptions::deterministic
  ls::CommunicationPlan plan = group->plan(ls::ReduceOp::sum, segments[0], route);
  //! [backend::Route]
  CHECK(plan.in_rank_order);
}

//! [backend::Engine, backend::EngineKind, backend::EngineSetup, backend::KeyValueStore]
/// An engine for a single process, which has nobody to talk to.
class Alone : public backend::Engine {
 public:
  static std::unique_ptr<backend::Engine> start(const backend::EngineSetup& setup) {
    if (setup.num_processes != 1) throw ls::Unsupported("the engine alone is for one process");
    if (setup.store != nullptr)
      setup.store->set("address of process 0", setup.host);  // for the others to get
    return std::make_unique<Alone>();
  }
  std::unique_ptr<backend::Channel> open_channel() override;
};
inline const backend::EngineKind kAlone{.name = "alone", .is_launched = true, .start = &Alone::start};
//! [backend::Engine, backend::EngineKind, backend::EngineSetup, backend::KeyValueStore]

//! [backend::Channel]
class AloneChannel : public backend::Channel {
 public:
  void all_gather(std::span<const std::byte> own, std::span<std::byte> all, backend::Deadline) override {
    std::copy(own.begin(), own.end(), all.begin());
  }
  void broadcast(std::span<std::byte>, int, backend::Deadline) override {}
  void barrier(backend::Deadline) override {}
  void all_to_all(std::span<const std::span<const std::byte>> sends,
                  std::span<const std::span<std::byte>> receives, backend::Deadline) override {
    std::copy(sends[0].begin(), sends[0].end(), receives[0].begin());
  }
  void abort(std::string_view) noexcept override {}  // nothing waits here
};
//! [backend::Channel]

std::unique_ptr<backend::Channel> Alone::open_channel() { return std::make_unique<AloneChannel>(); }

//! [backend::ProcessGroup, backend::ProcessRanks]
class AloneGroup : public backend::ProcessGroup {
 public:
  int num_processes() const noexcept override { return 1; }
  int process() const noexcept override { return 0; }
  const std::string& label(int) const override { return label_; }
  int host(int) const noexcept override { return 0; }
  std::vector<std::string> all_gather(std::string_view, std::string own) override { return {std::move(own)}; }
  std::unique_ptr<backend::Channel> open_channel() override { return std::make_unique<AloneChannel>(); }

 private:
  std::string label_ = "worker 0";
};

/// The ranks of a communicator over it: two, both of this process.
inline backend::ProcessRanks two_ranks(AloneGroup& group) { return {.group = &group, .num_ranks = {2}}; }
//! [backend::ProcessGroup, backend::ProcessRanks]

TEST_CASE("the examples of engines are right", "[docs]") {
  backend::register_engine(kAlone);
  const backend::EngineKind* found = backend::find_engine("alone");
  REQUIRE(found != nullptr);
  const auto channel = found->start({})->open_channel();
  std::byte own{7}, all{};
  channel->all_gather({&own, 1}, {&all, 1}, {});
  CHECK(all == own);
  AloneGroup group;
  CHECK(two_ranks(group).own_end() == 2);

  //! [backend::Loss]
  backend::Loss loss("worker 1 (10.0.0.2:2222) was lost: its connection was closed");
  const auto before = backend::Loss::now();
  loss.tell();                                       // before the program hears of it
  bool is_withheld = !loss.was_told_before(before);  // what was computed before it knew
  //! [backend::Loss]
  CHECK(is_withheld);
}
