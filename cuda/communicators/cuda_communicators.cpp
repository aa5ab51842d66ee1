#include "communicators/cuda_communicators.hpp"

#include <algorithm>
#include <utility>

#include <lockstep/error.hpp>
#include <lockstep/version.hpp>

#include "communicators/local_communicator.hpp"
#include "detail/expects.hpp"
#include "device/device_guard.hpp"
#if LOCKSTEP_HAS_NCCL
#include "communicators/nccl_communicator.hpp"
#include "communicators/process_communicator.hpp"
#include "libraries/nccl_error.hpp"
#include "libraries/nccl_library.hpp"
#endif

namespace lockstep::cuda {
namespace {

#if !LOCKSTEP_HAS_NCCL
[[noreturn]] void throw_without_nccl(std::size_t num_gpus) {
  LOCKSTEP_EXPECTS(
      false, Unsupported, "A communicator of ", num_gpus,
      " GPUs: this library was built without NCCL. Build it with LOCKSTEP_NCCL=ON, or use one GPU.");
}
#endif

}  // namespace

std::unique_ptr<backend::CommunicatorBackend> make_cuda_communicator(
    std::vector<CudaDevice*> ranks, [[maybe_unused]] const CommunicatorConfig& config) {
  use_in_this_process(ranks.front()->device());
  const int first = ranks.front()->ordinal();
  if (std::ranges::all_of(ranks, [&](const CudaDevice* rank) { return rank->ordinal() == first; }))
    return std::make_unique<LocalCommunicator>(std::move(ranks));

  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      LOCKSTEP_EXPECTS(
          ranks[i]->ordinal() != ranks[j]->ordinal(), Unsupported, "A communicator of ", ranks.size(),
          " GPUs: ", ranks[j]->device(), " and ", ranks[i]->device(),
          " are virtual devices of one GPU, others are of another. Use one device of each GPU, or "
          "virtual devices of a single one.");
    }
  }
#if LOCKSTEP_HAS_NCCL
  return std::make_unique<NcclCommunicator>(ranks, NcclCommunicator::kCreationLimit, config);
#else
  throw_without_nccl(ranks.size());
#endif
}

std::unique_ptr<backend::CommunicatorBackend> make_cuda_communicator(std::vector<CudaDevice*> ranks,
                                                                     const backend::ProcessRanks& all,
                                                                     const CommunicatorConfig& config) {
  if (all.num_ranks.size() == 1) return make_cuda_communicator(std::move(ranks), config);
  use_in_this_process(ranks.front()->device());
#if LOCKSTEP_HAS_NCCL
  return make_process_communicator(ranks, all, config);
#else
  throw_without_nccl(static_cast<std::size_t>(all.total()));
#endif
}

#if LOCKSTEP_HAS_NCCL

std::vector<int> ordinals_of(std::span<void* const> communicators) {
  constexpr const char* kOperation = "Communicator::adopt";
  const Device unknown(DeviceKind::gpu, 0);
  require_one_nccl_version(kOperation);
  std::vector<int> ordinals;
  for (std::size_t i = 0; i < communicators.size(); ++i) {
    const auto communicator = static_cast<ncclComm_t>(communicators[i]);
    LOCKSTEP_EXPECTS(communicator != nullptr, InvalidArgument, kOperation, ": communicator ", i,
                     " is null. Pass one for each rank.");
    int count = 0, rank = 0;
    LOCKSTEP_NCCL_CHECK(ncclCommCount(communicator, &count), communicator, unknown, kOperation);
    LOCKSTEP_NCCL_CHECK(ncclCommUserRank(communicator, &rank), communicator, unknown, kOperation);
    LOCKSTEP_NCCL_CHECK(ncclCommCuDevice(communicator, &ordinals.emplace_back()), communicator, unknown,
                        kOperation);
    LOCKSTEP_EXPECTS(
        static_cast<std::size_t>(count) == communicators.size() && static_cast<std::size_t>(rank) == i,
        InvalidArgument, kOperation, ": communicator ", i, " of ", communicators.size(), " is rank ", rank,
        " of ", count, ". Pass those of all ranks of one group, in rank order.");
  }
  return ordinals;
}

std::unique_ptr<backend::CommunicatorBackend> adopt_cuda_communicators(const std::vector<CudaDevice*>& ranks,
                                                                       std::span<void* const> communicators) {
  std::vector<ncclComm_t> native;
  for (void* communicator : communicators) native.push_back(static_cast<ncclComm_t>(communicator));
  return std::make_unique<NcclCommunicator>(ranks, native);
}

#endif

}  // namespace lockstep::cuda
