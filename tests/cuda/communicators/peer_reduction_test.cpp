#include "communicators/peer_reduction.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "cuda/capture.hpp"
#include "cuda/communicators/operands.hpp"
#include "support/matchers.hpp"

namespace lockstep::test {
namespace {

using cuda::CudaDevice;
using cuda::PeerLayout;
using cuda::PeerReduction;

std::vector<CudaDevice*> gpus(int n) {
  need_gpus(n);
  std::vector<CudaDevice*> devices;
  for (int i = 0; i < n; ++i) {
    devices.push_back(static_cast<CudaDevice*>(&DeviceManager::instance().open(Device(DeviceKind::gpu, i))));
    if (devices.back()->ordinal() != i) SKIP("needs GPUs that are not split into virtual devices");
    for (CudaDevice* const other : std::span(devices).first(static_cast<std::size_t>(i)))
      if (!other->reaches(*devices.back())) SKIP("needs GPUs that reach each other's memory");
  }
  return devices;
}

/// Inputs and outputs on n GPUs, and a stream for each.
struct Values {
  Values(int n, std::int64_t count, DType dtype = DType::f32, std::int64_t begin = 0) {
    for (int rank = 0; rank < n; ++rank) {
      const Device device(DeviceKind::gpu, rank);
      streams.emplace_back(device);
      const StreamScope scope(streams.back());
      const auto part = [&](float first) {
        std::vector<float> all;
        for (std::int64_t i = 0; i < begin + count; ++i)
          all.push_back(first * static_cast<float>(i % 13 - 6));
        return Tensor::from(std::span<const float>(all), {begin + count})
            .to(device)
            .cast(dtype)
            .slice(begin, begin + count);
      };
      inputs.push_back(part(static_cast<float>(rank + 1)));
      outputs.push_back(part(0));
    }
    synchronize();
  }
  void synchronize() const {
    for (const Stream& stream : streams) stream.synchronize();
  }
  /// One call, with other streams if they are given.
  void all_reduce(PeerReduction& peers, ReduceOp op, bool in_place = false,
                  const std::deque<Stream>* others = nullptr) {
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      const backend::Segment segment{inputs[r].view().data,
                                     in_place ? inputs[r].view().data : outputs[r].view().data,
                                     inputs[r].size(), inputs[r].dtype()};
      const StreamRef stream = others == nullptr ? streams[r] : (*others)[r];
      for (std::int64_t piece = 0; piece < peers.num_pieces(segment); ++piece)
        peers.enqueue(op, {static_cast<int>(r), stream.handle(), {&segment, 1}}, segment, {}, piece);
    }
  }
  std::vector<Tensor> results(bool in_place = false) const {
    std::vector<Tensor> values;
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      const StreamScope scope(streams[r]);
      values.push_back((in_place ? inputs[r] : outputs[r]).to("CPU:0").clone());
    }
    return values;
  }
  /// What the host's communicator makes of the inputs, whose bits are to be met.
  std::vector<std::byte> expected(ReduceOp op) const {
    std::vector<Device> devices;
    std::vector<Tensor> values;
    std::vector<Stream> host;
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      devices.emplace_back(DeviceKind::cpu, static_cast<int>(r));
      const StreamScope scope(streams[r]);
      values.push_back(inputs[r].to(devices.back()).clone());
      host.emplace_back(devices.back());
    }
    std::vector<TensorView> views;
    for (const Tensor& value : values) views.push_back(value.view());
    const std::vector<StreamRef> refs(host.begin(), host.end());
    Communicator::create(devices).all_reduce(op, views, views, refs);
    return bytes(values.front());
  }
  static std::vector<std::byte> bytes(const Tensor& tensor) {
    const auto* const begin = static_cast<const std::byte*>(tensor.data());
    return {begin, begin + tensor.nbytes()};
  }

  std::deque<Stream> streams;
  std::vector<Tensor> inputs, outputs;
};

void require_all(const std::vector<Tensor>& results, const std::vector<std::byte>& expected) {
  for (const Tensor& result : results) REQUIRE(Values::bytes(result) == expected);
}

}  // namespace

TEST_CASE("long inputs go in two shots, and what fits in no inbox in pieces") {
  const PeerLayout two(2, 512 << 10), four(4, 512 << 10), eight(8, 256 << 10);
  CHECK_FALSE(two.is_in_two_shots(512 << 10));  // two shots would send as much
  CHECK_FALSE(four.is_in_two_shots(160 << 10));
  CHECK(four.is_in_two_shots(512 << 10));
  CHECK_FALSE(eight.is_in_two_shots(64 << 10));
  CHECK(eight.is_in_two_shots(128 << 10));
  for (const PeerLayout& layout : {two, four, eight}) {
    CHECK(layout.capacity % (2 * cuda::kMostPeerThreads) == 0);
    const std::int64_t longest_in_one =
        std::min(layout.largest_piece, PeerLayout::kMostInOneShot / (layout.num_ranks - 1));
    CHECK(layout.capacity * cuda::kPackBytes >= longest_in_one);
    CHECK(layout.capacity / 2 * cuda::kPackBytes * layout.num_ranks >=
          layout.largest_piece * (layout.num_ranks > 2));
    CHECK(layout.inbox_bytes() < 7 << 20);
  }
  CHECK(PeerLayout(8, 1).largest_piece == 8 * cuda::kPackBytes);
}

TEST_CASE("GPUs combine in rank order, in one shot or two, in one piece or several", "[cuda]") {
  const int n = GENERATE(2, 3, 4);
  const auto devices = gpus(n);
  const std::int64_t most_in_one_shot = GENERATE(64, 1 << 20);
  PeerReduction peers(devices, PeerLayout(n, 512, most_in_one_shot));
  const DType dtype = GENERATE(DType::f32, DType::bf16, DType::i8, DType::f64);
  for (const std::int64_t count : {1, 7, 64, 501}) {
    for (const ReduceOp op :
         {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
      if (op == ReduceOp::mean && is_integer(dtype)) continue;  // the core converts them
      const bool in_place = (count + static_cast<int>(op)) % 2 == 0;
      Values values(n, count, dtype, /*begin=*/count % 3);
      const auto expected = values.expected(op);
      values.all_reduce(peers, op, in_place);
      values.synchronize();
      CAPTURE(n, most_in_one_shot, dtype, count, op, in_place);
      require_all(values.results(in_place), expected);
    }
  }
}

TEST_CASE("a mean of peers whose sum overflows is finite", "[cuda]") {
  const auto devices = gpus(2);
  PeerReduction peers(devices, PeerLayout(2, 512));
  Values values(2, 6);
  for (std::size_t r = 0; r < 2; ++r) {
    const StreamScope scope(values.streams[r]);
    values.inputs[r].fill_(3e38f);
  }
  values.all_reduce(peers, ReduceOp::mean);
  values.synchronize();
  for (const Tensor& result : values.results())
    REQUIRE(result.to_vector<float>() == std::vector<float>(6, 3e38f));
}

TEST_CASE("the number of a peers' call may begin again", "[cuda]") {
  const unsigned num_calls = GENERATE(0x007ffffdu, 0xfffffffdu);
  const auto devices = gpus(3);
  PeerReduction peers(devices, PeerLayout(3, 512, GENERATE(64, 4096)), num_calls);
  for (int call = 0; call < 6; ++call) {
    Values values(3, 100 - call);
    const auto expected = values.expected(ReduceOp::sum);
    values.all_reduce(peers, ReduceOp::sum);
    values.synchronize();
    require_all(values.results(), expected);
  }
}

TEST_CASE("calls of peers on other streams follow each other", "[cuda]") {
  const auto devices = gpus(3);
  PeerReduction peers(devices, PeerLayout(3, 512, GENERATE(64, 4096)));
  std::deque<Stream> others;
  for (const CudaDevice* device : devices) others.emplace_back(device->device());
  Values values(3, 90), more(3, 90);
  const auto expected = values.expected(ReduceOp::sum);
  for (int call = 0; call < 4; ++call) {
    values.all_reduce(peers, ReduceOp::sum);
    more.all_reduce(peers, ReduceOp::sum, false, &others);
  }
  for (const Stream& stream : others) stream.synchronize();
  values.synchronize();
  require_all(values.results(), expected);
  require_all(more.results(), expected);
}

TEST_CASE("an abort ends a kernel that waits for a rank that does not come", "[cuda]") {
  const auto devices = gpus(2);
  PeerReduction peers(devices, PeerLayout(2, 512, GENERATE(64, 4096)));
  Values values(2, 90);
  const backend::Segment segment{values.inputs[0].view().data, values.outputs[0].view().data, 90, DType::f32};
  peers.enqueue(ReduceOp::sum, {0, values.streams[0].handle(), {&segment, 1}}, segment, {}, 0);
  REQUIRE_FALSE(values.streams[0].is_complete());
  peers.abort();
  values.streams[0].synchronize();
}

TEST_CASE("an all_reduce by peers is captured, and launched again", "[cuda]") {
  constexpr int kRanks = 2;
  gpus(kRanks);
  Operands operands(kRanks);
  Communicator communicator = Communicator::create(TestBackend::devices(kRanks));
  REQUIRE(communicator.plan(ReduceOp::sum, DType::f32, 28).path == CommunicationPath::peer_one_shot);
  {
    std::deque<Capture> captures;
    for (const StreamRef& stream : operands.streams) captures.emplace_back(std::vector<StreamRef>{stream});
    for (int call = 0; call < 2; ++call)
      communicator.all_reduce(ReduceOp::sum, operands.views, operands.views, operands.streams);
    for (Capture& capture : captures) capture.end();
    float value = 3;
    for (int launch = 0; launch < 3; ++launch) {
      for (Capture& capture : captures) REQUIRE(capture.start() == cudaSuccess);
      for (Capture& capture : captures) REQUIRE(capture.wait() == cudaSuccess);
      value *= launch == 0 ? 2 : 4;
      REQUIRE(operands.all_are(value));
      communicator.all_reduce(ReduceOp::mean, operands.views, operands.views, operands.streams);
      operands.synchronize();
    }
    // Calls on other streams need not be ordered with a launch.
    Operands others(kRanks);
    for (int call = 0; call < 3; ++call) {
      for (Capture& capture : captures) REQUIRE(capture.start() == cudaSuccess);
      communicator.all_reduce(ReduceOp::max, others.views, others.views, others.streams);
    }
    others.synchronize();
    for (Capture& capture : captures) REQUIRE(capture.wait() == cudaSuccess);
    REQUIRE(others.all_are(2));
    REQUIRE(operands.all_are(value * 64));
  }
}

TEST_CASE("calls of captures that interleave follow each other in each of them", "[cuda][function]") {
  constexpr int kRanks = 2;
  gpus(kRanks);
  Communicator communicator = Communicator::create(TestBackend::devices(kRanks));
  for (int round = 0; round < 3; ++round) {  // graphs that are gone make room
    Operands first(kRanks), second(kRanks), other(kRanks);
    std::deque<Capture> both, alone;
    for (std::size_t r = 0; r < kRanks; ++r) {
      both.emplace_back(std::vector<StreamRef>{first.streams[r], second.streams[r]});
      alone.emplace_back(std::vector<StreamRef>{other.streams[r]});
    }
    for (const Operands* const one : {&first, &other, &second, &other, &first})
      communicator.all_reduce(ReduceOp::sum, one->views, one->views, one->streams);
    for (std::deque<Capture>* const captures : {&both, &alone})
      for (Capture& capture : *captures) capture.end();
    for (int launch = 0; launch < 2; ++launch)
      for (std::deque<Capture>* const captures : {&both, &alone}) {
        for (Capture& capture : *captures) REQUIRE(capture.start() == cudaSuccess);
        for (Capture& capture : *captures) REQUIRE(capture.wait() == cudaSuccess);
      }
    // 1 + 2, which is then doubled by each call.
    REQUIRE(first.all_are(3 * 2 * 2 * 2));
    REQUIRE(second.all_are(3 * 2));
    REQUIRE(other.all_are(3 * 2 * 2 * 2));
  }
}

TEST_CASE("options choose the path between GPUs that reach each other's memory", "[cuda]") {
  gpus(2);
  Operands operands(2);
  Communicator made = Communicator::create(TestBackend::devices(2));
  REQUIRE(made.plan(ReduceOp::sum, DType::f32, 28, {.implementation = CommunicationImplementation::peer})
              .in_rank_order);
  REQUIRE(
      made.plan(ReduceOp::sum, DType::f32, 28, {.implementation = CommunicationImplementation::nccl}).path ==
      CommunicationPath::nccl);
  REQUIRE(made.plan(ReduceOp::sum, DType::f32, 28, {.peer_bytes = 27}).path == CommunicationPath::nccl);
  REQUIRE(made.plan(ReduceOp::sum, DType::f32, 28, {.peer_bytes = 28}).path ==
          CommunicationPath::peer_one_shot);
}

TEST_CASE("LOCKSTEP_PEER_BYTES is a number of bytes", "[cuda]") {
  const char* const before = std::getenv("LOCKSTEP_PEER_BYTES");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("LOCKSTEP_PEER_BYTES", "4096", 1);
  CHECK(PeerReduction::default_bytes(8) == 4096);
  for (const char* text : {"-1", "4k", "1e3"}) {
    ::setenv("LOCKSTEP_PEER_BYTES", text, 1);
    CHECK_THROWS_MATCHES(PeerReduction::default_bytes(8), InvalidArgument,
                         says("LOCKSTEP_PEER_BYTES", text, "number of bytes"));
  }
  ::unsetenv("LOCKSTEP_PEER_BYTES");
  CHECK(PeerReduction::default_bytes(4) == 512 << 10);
  CHECK(PeerReduction::default_bytes(5) == 256 << 10);
  if (before != nullptr) ::setenv("LOCKSTEP_PEER_BYTES", kept.c_str(), 1);
}

}  // namespace lockstep::test
