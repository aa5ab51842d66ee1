#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <dlfcn.h>
#include <nccl.h>

#include <lockstep/lockstep.hpp>

#include "support/communicator_group.hpp"
#include "support/matchers.hpp"

namespace lockstep::test {
namespace {

/// Communicators that an engine makes, and destroys. Skips the test where there are not n GPUs.
struct EngineCommunicators {
  explicit EngineCommunicators(int n) : handles(static_cast<std::size_t>(n)) {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count < n)
      SKIP("needs " << n << " GPUs, there are " << count);
    REQUIRE(ncclCommInitAll(handles.data(), n, nullptr) == ncclSuccess);
  }
  ~EngineCommunicators() {
    for (ncclComm_t handle : handles) ncclCommDestroy(handle);
  }
  std::vector<ncclComm_t> handles;
};

}  // namespace

TEST_CASE("an engine's NCCL communicators are adopted, and stay the engine's", "[cuda]") {
  const EngineCommunicators engine(2);
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
  std::vector<StreamRef> streams;
  for (int rank = 0; rank < 2; ++rank) {
    const Device device = TestBackend::device(rank);
    tensors.push_back(Tensor::full({7}, static_cast<float>(rank + 1), DType::f32, device));
    views.push_back(tensors.back().view());
    streams.push_back(current_stream(device));
  }
  for (int round = 0; round < 2; ++round) {
    Communicator communicator = Communicator::adopt(engine.handles);
    REQUIRE(communicator.devices() == TestBackend::devices(2));
    communicator.all_reduce(ReduceOp::mean, views, views, streams);
    communicator.abort();
    REQUIRE_THROWS_AS(communicator.all_reduce(ReduceOp::sum, views, views, streams), CollectiveAborted);
  }
  for (const Tensor& tensor : tensors) REQUIRE(tensor.to_vector<float>() == std::vector<float>(7, 1.5f));
}

TEST_CASE("adopting refuses what is not one whole group in rank order", "[cuda]") {
  const EngineCommunicators engine(2);
  const auto& [first, second] = std::tie(engine.handles[0], engine.handles[1]);
  const std::vector<ncclComm_t> none, null{nullptr, second}, part{first}, swapped{second, first};
  REQUIRE_THROWS_MATCHES(Communicator::adopt(none), InvalidArgument, says("no communicators"));
  REQUIRE_THROWS_MATCHES(Communicator::adopt(null), InvalidArgument, says("communicator 0", "null"));
  REQUIRE_THROWS_MATCHES(Communicator::adopt(part), InvalidArgument, says("rank 0 of 2", "all ranks"));
  REQUIRE_THROWS_MATCHES(Communicator::adopt(swapped), InvalidArgument, says("rank 1 of 2", "rank order"));
}

TEST_CASE("adopting is refused where the process has NCCLs of two versions", "[cuda]") {
  const EngineCommunicators engine(2);
  void* const other = ::dlopen(LOCKSTEP_OTHER_NCCL, RTLD_NOW | RTLD_LOCAL);
  if (other == nullptr) SKIP("there is no " << LOCKSTEP_OTHER_NCCL);
  CHECK_THROWS_MATCHES(Communicator::adopt(engine.handles), Unsupported,
                       says("Communicator::adopt", "libnccl.so.2", "NCCL 2.23.4", LOCKSTEP_OTHER_NCCL));
  ::dlclose(other);
  CHECK_NOTHROW(Communicator::adopt(engine.handles));
}

}  // namespace lockstep::test
