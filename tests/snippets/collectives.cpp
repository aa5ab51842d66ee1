// Examples of the documentation: collectives on an engine's own buffers.
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;
using namespace std::chrono_literals;

//! [CrossDeviceOps]
/// Counts the batches that a strategy reduces, and leaves the work to another algorithm.
class Counting : public ls::CrossDeviceOps {
 public:
  explicit Counting(int& num_batches) : num_batches_(num_batches) {}
  std::string_view name() const noexcept override { return "Counting"; }
  std::vector<std::vector<ls::Tensor>> reduce(ls::ReduceOp op,
                                              const std::vector<std::vector<ls::Tensor>>& inputs,
                                              const std::vector<ls::Device>& devices, int root) override {
    ++num_batches_;
    return to_one_.reduce(op, inputs, devices, root);
  }

 private:
  int& num_batches_;
  ls::ReductionToOneDevice to_one_;
};
//! [CrossDeviceOps]

TEST_CASE("the examples of communicators are right", "[docs]") {
  std::vector<float> memory_of_rank[] = {{1, 2}, {10, 20}};
  //! [Communicator]
  const std::vector<ls::Device> devices{"CPU:0", "CPU:1"};
  auto communicator = ls::Communicator::create(devices);
  std::vector<ls::TensorView> buffers;
  std::vector<ls::StreamRef> streams;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    buffers.emplace_back(memory_of_rank[rank].data(), ls::Shape{2}, ls::DType::f32, devices[rank]);
    streams.push_back(ls::current_stream(devices[rank]));
  }
  communicator.all_reduce(ls::ReduceOp::sum, buffers, buffers, streams);  // in place, all ranks by one thread
  //! [Communicator]
  CHECK(memory_of_rank[0] == std::vector<float>{11, 22});
  CHECK(memory_of_rank[1] == std::vector<float>{11, 22});

  //! [RankBatch]
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < communicator.num_ranks(); ++rank)
    threads.emplace_back([&, rank] {                             // each rank's thread, with any number
      const std::vector<ls::TensorView> tensors{buffers[rank]};  // of tensors
      const std::vector<ls::RankBatch> batches{
          {.rank = rank, .stream = streams[rank], .inputs = tensors, .outputs = tensors}};
      communicator.all_reduce(ls::ReduceOp::max, batches);
    });
  threads.clear();  // joins
  //! [RankBatch]
  CHECK(memory_of_rank[1] == std::vector<float>{11, 22});

  //! [CommunicationPlan]
  ls::CommunicationPlan plan = communicator.plan(ls::ReduceOp::sum, ls::DType::f32, /*size_bytes=*/1 << 20);
  std::string text = plan.to_string();  // its path and why; LOCKSTEP_LOG=plan logs the same
  bool is_shared = plan.path == ls::CommunicationPath::shared_memory;  // true between host replicas
  //! [CommunicationPlan]
  CHECK(text.find("1048576 bytes") != std::string::npos);
  CHECK(is_shared);
}

TEST_CASE("the examples of a strategy's collectives are right", "[docs]") {
  //! [CommunicationOptions, Setting, Setting< std::chrono::milliseconds >]
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"}, {.timeout = 30s});  // for all its collectives
  auto sums = strategy.run([](ls::ReplicaContext& context) {
    return context.all_reduce(ls::ReduceOp::sum, 1.0f, {.timeout = 0ms});  // for this call: no limit
  });
  ls::CommunicationOptions given{.timeout = 0ms};
  bool is_given = given.timeout.is_given();  // true, though it equals the default
  //! [CommunicationOptions, Setting, Setting< std::chrono::milliseconds >]
  CHECK(sums[0].item<float>() == 2);
  CHECK(is_given);

  //! [CommunicatorConfig]
  ls::CommunicatorConfig config{.name = "gradients", .max_ctas = 8};  // NCCL leaves the rest to other kernels
  ls::MirroredStrategy named({"CPU:0", "CPU:1"}, {.communicator = config});
  //! [CommunicatorConfig]
  CHECK(named.num_replicas_in_sync() == 2);

  //! [ReductionToOneDevice, HierarchicalCopyAllReduce, NcclAllReduce]
  const std::vector<ls::Device> devices{"CPU:0", "CPU:1"};
  ls::MirroredStrategy at_one(devices, std::make_unique<ls::ReductionToOneDevice>());
  ls::MirroredStrategy in_halves(devices, std::make_unique<ls::HierarchicalCopyAllReduce>());
  ls::MirroredStrategy in_packs(devices, std::make_unique<ls::NcclAllReduce>(/*num_packs=*/2));
  //! [ReductionToOneDevice, HierarchicalCopyAllReduce, NcclAllReduce]
  int num_batches = 0;
  ls::MirroredStrategy counting(devices, std::make_unique<Counting>(num_batches));
  for (ls::Strategy* each : std::vector<ls::Strategy*>{&at_one, &in_halves, &in_packs, &counting}) {
    auto ones = each->run([] { return ls::Tensor::ones({2}); });
    CHECK(each->reduce(ls::ReduceOp::sum, ones).to_vector<float>() == std::vector<float>{2, 2});
  }
  CHECK(num_batches == 1);
}
