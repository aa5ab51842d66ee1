#include "communicators/process_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/error.hpp>

#include "communicators/native_communicators.hpp"
#include "communicators/nccl_communicator.hpp"
#include "detail/concat.hpp"
#include "detail/expects.hpp"
#include "libraries/cuda_error.hpp"
#include "libraries/nccl_library.hpp"

namespace lockstep::cuda {
namespace {

using lockstep::detail::concat;

/// fn()'s text of every process, by process. Where fn() throws in one, all throw.
template <class Fn>
std::vector<std::string> gather(backend::ProcessGroup& group, std::string_view what, const Fn& fn) {
  constexpr char kText = 't', kFailure = 'f';
  std::string own;
  std::exception_ptr error;
  try {
    own = kText + fn();
  } catch (const std::exception& failure) {
    error = std::current_exception();
    own = concat(kFailure, failure.what());
  }
  std::vector<std::string> all = group.all_gather(what, std::move(own));
  if (error) std::rethrow_exception(error);
  for (int p = 0; p < group.num_processes(); ++p) {
    std::string& text = all[static_cast<std::size_t>(p)];
    const char kind = text.front();
    text.erase(0, 1);
    LOCKSTEP_EXPECTS(kind == kText, CollectiveAborted, "An NCCL communicator of ", group.num_processes(),
                     " processes: ", group.label(p), " has failed: ", text);
  }
  return all;
}

/// As nvidia-smi writes it: "GPU-8a2f…"; of an instance of a GPU (MIG) its own.
std::string uuid_of(const CudaDevice& device) {
  cudaDeviceProp properties{};
  LOCKSTEP_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.ordinal()), device.device(),
                      "Reading the GPU's UUID");
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(properties.uuid.bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

struct Gpu {
  int process;
  std::string device;
  std::string uuid;
};

/// All processes have the same list, and throw alike.
void require_distinct(const std::vector<Gpu>& gpus, const backend::ProcessGroup& group) {
  for (auto second = gpus.begin(); second != gpus.end(); ++second) {
    const auto first = std::ranges::find(gpus.begin(), second, second->uuid, &Gpu::uuid);
    if (first == second) continue;
    const std::string what =
        concat("A communicator of ", gpus.size(), " GPUs in ", group.num_processes(), " processes: ");
    LOCKSTEP_EXPECTS(
        first->process != second->process, Unsupported, what, first->device, " and ", second->device, " of ",
        group.label(first->process),
        " are virtual devices of one GPU, and NCCL takes a GPU once. Use one device of each GPU, "
        "or the virtual devices of a GPU in one process.");
    LOCKSTEP_EXPECTS(false, InvalidArgument, what, first->device, " of ", group.label(first->process),
                     " and ", second->device, " of ", group.label(second->process), " are the same GPU, ",
                     first->uuid,
                     ". Give each worker GPUs of its own: set CUDA_VISIBLE_DEVICES, or pass "
                     "WorkerOptions::devices.");
  }
}

}  // namespace

std::unique_ptr<backend::CommunicatorBackend> make_process_communicator(const std::vector<CudaDevice*>& ranks,
                                                                        const backend::ProcessRanks& all,
                                                                        const CommunicatorConfig& config) {
  backend::ProcessGroup& group = *all.group;
  const Device& device = ranks.front()->device();
  const auto lists = gather(group, "the GPUs of a communicator", [&] {
    std::string list;
    for (const CudaDevice* rank : ranks) list += concat(rank->device(), ' ', uuid_of(*rank), ' ');
    return list;
  });
  std::vector<Gpu> gpus;
  for (int p = 0; p < group.num_processes(); ++p) {
    std::istringstream list(lists[static_cast<std::size_t>(p)]);
    list.exceptions(std::ios::badbit);  // a lack of memory would end the list
    for (Gpu gpu{.process = p}; list >> gpu.device >> gpu.uuid;) gpus.push_back(gpu);
  }
  require_distinct(gpus, group);

  SharedGroup shared{.first_rank = all.own_begin(), .num_ranks = all.total()};
  const auto ids = gather(group, "the id of an NCCL communicator", [&] {
    if (group.process() != 0) return std::string();
    const ncclUniqueId id = make_native_id(device);
    return std::string(id.internal, sizeof id.internal);
  });
  std::memcpy(shared.id.internal, ids.front().data(), sizeof shared.id.internal);
  shared.go_on = [&] { group.throw_if_lost("making an NCCL communicator"); };

  std::unique_ptr<NcclCommunicator> communicator;
  try {
    const auto windows = gather(group, "that an NCCL communicator is made", [&] {
      try {
        const auto made = make_native_communicators(ordinals_of(ranks), device,
                                                    NcclCommunicator::kCreationLimit, &shared, config);
        communicator = std::make_unique<NcclCommunicator>(ranks, all, made, config);
      } catch (const std::exception& error) {
        group.break_off(error.what());  // the others wait in NCCL for this process's ranks
        throw;
      }
      return std::string(communicator->has_windows() ? "windows" : "");
    });
    // All processes register windows together, or none does.
    if (!std::ranges::all_of(windows, [](const std::string& text) { return !text.empty(); }))
      communicator->give_up_windows();
  } catch (...) {
    if (communicator) communicator->abort();  // the others' parts may not be there
    throw;
  }
  return communicator;
}

}  // namespace lockstep::cuda
