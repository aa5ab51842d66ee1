#include "communicators/native_communicators.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <lockstep/error.hpp>

#include "communicators/left_communicators.hpp"
#include "communicators/symmetric_window.hpp"
#include "detail/expects.hpp"
#include "detail/start_thread.hpp"
#include "detail/warn.hpp"
#include "graphs/capture.hpp"
#include "libraries/cuda_error.hpp"
#include "libraries/nccl_error.hpp"
#include "libraries/nccl_library.hpp"

namespace lockstep::cuda {
namespace {

constexpr const char* kOperation = "Making an NCCL communicator";

// What NCCL has since which version.
constexpr int kConfigs = NCCL_VERSION(2, 27, 0), kZeroPolicy = NCCL_VERSION(2, 28, 0);

/// Creations under way, also those that nobody waits for any more.
std::atomic<int> num_creations{0};

/// Whether the NCCL that is loaded, and the headers, have what a config is made of.
bool takes_configs() { return NCCL_VERSION_CODE >= kConfigs && loaded_nccl_version() >= kConfigs; }

/// The state that the thread that makes the communicators shares with the one that waits for them.
struct Creation {
  Creation() { ++num_creations; }
  Creation(const Creation&) = delete;
  Creation& operator=(const Creation&) = delete;
  ~Creation() {
    --num_creations;
    num_creations.notify_all();
  }

  /// Whether NCCL is told a configuration. Windows are not NCCL's part of it.
  bool has_config() const {
    return config != CommunicatorConfig{.symmetric_windows = config.symmetric_windows} && takes_configs();
  }
  ncclResult_t init_rank(ncclComm_t* communicator, int rank);

  CommunicatorConfig config;
  std::string name;  // config's, which ends with 0
  std::vector<int> ordinals;
  bool has_id = false;
  ncclUniqueId id{};
  int first_rank = 0;
  int num_ranks = 0;
  std::vector<ncclComm_t> communicators;
  std::exception_ptr error;
  bool is_done = false;
  bool is_abandoned = false;
  std::mutex mutex;  // guards the four above
  std::condition_variable done;

  void run(const Device& device);
};

/// Tells once what of a config NCCL is too old for.
void warn_of_what_is_left_out(const CommunicatorConfig& config) {
  static std::atomic<bool> has_warned{false};
  const int loaded = loaded_nccl_version();
  const std::string left_out = left_out_of(config, std::min(loaded, NCCL_VERSION_CODE));
  if (left_out.empty() || has_warned.exchange(true)) return;
  lockstep::detail::warn(lockstep::detail::concat(
      "CommunicatorConfig: ", left_out, "; NCCL ", version_text(loaded),
      " is loaded, and the library was built with NCCL ", version_text(NCCL_VERSION_CODE)));
}

ncclResult_t Creation::init_rank(ncclComm_t* communicator, int rank) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  if (has_config()) {
    ncclConfig_t native = native_config(config, loaded_nccl_version());
    if (!name.empty()) native.commName = name.c_str();
    return ncclCommInitRankConfig(communicator, num_ranks, id, rank, &native);
  }
#endif
  return ncclCommInitRank(communicator, num_ranks, id, rank);
}

/// NCCL reads this once, with its first communicator. GPUs then run the collectives of several communicators
/// in the order in which they were enqueued, which is the same on all GPUs (LaunchOrder).
void order_launches() { ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0); }

void Creation::run(const Device& device) {
  const OutsideCaptures outside;
  std::vector<ncclComm_t> made;
  std::exception_ptr failure;
  try {
    made.resize(ordinals.size());
    if (!has_id) id = make_native_id(device);
    // Once one rank has called, all must call, or it waits for the others. If a rank's device cannot be made
    // current, NCCL finds two ranks on one device, and gives up.
    cudaError_t device_error = cudaSuccess;
    int failed_ordinal = 0;
    try {
      NcclGroup group(device, kOperation);
      for (std::size_t i = 0; i < ordinals.size(); ++i) {
        if (device_error == cudaSuccess) device_error = cudaSetDevice(failed_ordinal = ordinals[i]);
        const ncclResult_t code = init_rank(&made[i], first_rank + static_cast<int>(i));
        if (code != ncclSuccess && code != ncclInProgress)
          throw_nccl_error(code, has_config() ? "ncclCommInitRankConfig" : "ncclCommInitRank",
                           {__FILE__, __LINE__, __func__}, nullptr, device, kOperation);
      }
      group.end();
      const auto gives_up = [this] {
        const std::lock_guard lock(mutex);
        return is_abandoned;
      };
      for (ncclComm_t communicator : made) require_settled(communicator, gives_up, device, kOperation);
    } catch (const CollectiveError&) {
      if (device_error == cudaSuccess) throw;
    }
    if (device_error != cudaSuccess)
      throw_cuda_error(device_error, lockstep::detail::concat("cudaSetDevice(", failed_ordinal, ")").c_str(),
                       {__FILE__, __LINE__, __func__}, device, kOperation);
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex);
    if (!failure && !is_abandoned) {
      communicators = std::move(made);
      is_done = true;
      done.notify_all();
      return;
    }
    error = failure;
  }
  for (ncclComm_t communicator : made) {  // takes long; whoever waits must not miss the time limit meanwhile
    if (communicator != nullptr) ncclCommAbort(communicator);
  }
  const std::lock_guard lock(mutex);
  is_done = true;
  done.notify_all();
}

}  // namespace

std::string left_out_of(const CommunicatorConfig& config, int version) {
  const CommunicatorConfig only_windows{.symmetric_windows = config.symmetric_windows};
  if (config != only_windows && version < kConfigs) return "all is left out, as it takes NCCL 2.27";
  std::string text;
  if (config.cta_policy == CtaPolicy::zero && version < kZeroPolicy)
    text = "cta_policy zero is left out, as it takes NCCL 2.28";
  if (config.symmetric_windows && version < SymmetricWindow::kOldestNccl)
    text += lockstep::detail::concat(text.empty() ? "" : "; ",
                                     "symmetric_windows is left out, as it takes NCCL 2.28.7");
  return text;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
ncclConfig_t native_config(const CommunicatorConfig& config, int version) {
  ncclConfig_t native = NCCL_CONFIG_INITIALIZER;
  if (config.min_ctas > 0) native.minCTAs = config.min_ctas;
  if (config.max_ctas > 0) native.maxCTAs = config.max_ctas;
  if (config.cta_policy == CtaPolicy::efficiency) native.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  if (config.cta_policy == CtaPolicy::zero && version >= kZeroPolicy) native.CTAPolicy = NCCL_CTA_POLICY_ZERO;
#else
  static_cast<void>(version);
#endif
  if (config.nonblocking) native.blocking = 0;
  return native;
}
#endif

std::vector<int> ordinals_of(const std::vector<CudaDevice*>& devices) {
  std::vector<int> ordinals;
  for (const CudaDevice* device : devices) ordinals.push_back(device->ordinal());
  return ordinals;
}

std::vector<ncclComm_t> make_native_communicators(const std::vector<int>& ordinals, const Device& device,
                                                  std::chrono::milliseconds limit, const SharedGroup* shared,
                                                  const CommunicatorConfig& config) {
  LeftCommunicators::instance().end_those_left();
  order_launches();
  warn_of_what_is_left_out(config);
  // Owned by this thread and by the one that makes the communicators, which may never finish.
  const auto creation = std::make_shared<Creation>();
  creation->config = config;
  creation->name = config.name;
  creation->config.name = creation->name;  // the caller's may go with its patience
  creation->ordinals = ordinals;
  creation->num_ranks = static_cast<int>(ordinals.size());
  if (shared != nullptr) {
    creation->has_id = true;
    creation->id = shared->id;
    creation->first_rank = shared->first_rank;
    creation->num_ranks = shared->num_ranks;
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::unique_lock lock(
      creation->mutex);  // locked first, so that a limit of zero has passed before the thread starts
  detail::start_thread("Making an NCCL communicator: its thread", [creation, device] {
    creation->run(device);
  }).detach();
  try {
    while (!creation->is_done) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= deadline && creation->error) break;
      LOCKSTEP_EXPECTS(now < deadline, CollectiveTimeout, kOperation, " of ", creation->num_ranks,
                       " GPUs: it is not there after ", limit.count(),
                       " ms. NCCL_DEBUG=INFO makes NCCL say what it waits for.");
      constexpr std::chrono::milliseconds kInterval{50};
      creation->done.wait_until(lock,
                                std::min<std::chrono::steady_clock::time_point>(now + kInterval, deadline));
      if (shared != nullptr && !creation->is_done) shared->go_on();
    }
  } catch (...) {
    creation->is_abandoned = true;
    throw;
  }
  if (creation->error) std::rethrow_exception(creation->error);
  return creation->communicators;
}

ncclUniqueId make_native_id(const Device& device) {
  order_launches();
  ncclUniqueId id;
  LOCKSTEP_NCCL_CHECK(ncclGetUniqueId(&id), nullptr, device, kOperation);
  return id;
}

void wait_for_abandoned_communicators() {
  for (int n; (n = num_creations) != 0;) num_creations.wait(n);
}

bool revoke([[maybe_unused]] ncclComm_t communicator) noexcept {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
  if (loaded_nccl_version() < NCCL_VERSION(2, 28, 7)) return false;
  ncclCommRevoke(communicator, NCCL_REVOKE_DEFAULT);
  return true;
#else
  return false;
#endif
}

}  // namespace lockstep::cuda
