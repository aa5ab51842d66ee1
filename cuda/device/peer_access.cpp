#include "device/peer_access.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/error.hpp>

#include "detail/immortal.hpp"
#include "device/cuda_memory.hpp"
#include "device/device_guard.hpp"
#include "graphs/capture.hpp"
#include "libraries/cuda_error.hpp"

namespace lockstep::cuda {
namespace {

using Side = PeerAccess::Side;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kTrialBytes = 1 << 16;
constexpr std::chrono::seconds kTrialLimit{2};

bool can_access(int from, int to) {
  int can = 0;
  return cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess && can != 0;
}

bool set_access(const Side& owner, const Side& reader, bool allowed) {
  cudaMemAccessDesc access{};
  access.location = {cudaMemLocationTypeDevice, reader.ordinal};
  access.flags = allowed ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
  return cudaMemPoolSetAccess(owner.memory.pool(), &access, 1) == cudaSuccess;
}

/// A stream and a buffer for a trial. A copy that hangs keeps both: nothing may wait for it.
struct Trial {
  explicit Trial(const Side& of) : side(of) {
    const DeviceGuard guard(side.ordinal, side.device);
    LOCKSTEP_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), side.device,
                        "Trying peer access");
    data = side.memory.allocate(kTrialBytes, stream, side.device);
  }
  ~Trial() {
    if (!finished) return;
    if (data != nullptr) side.memory.deallocate(data, kTrialBytes, stream);
    LOCKSTEP_CUDA_LOG(cudaStreamSynchronize(stream));  // the program may end before anything else waits
    LOCKSTEP_CUDA_LOG(cudaStreamDestroy(stream));
  }
  bool wait() {
    const auto deadline = Clock::now() + kTrialLimit;
    cudaError_t code = cudaErrorNotReady;
    while ((code = cudaStreamQuery(stream)) == cudaErrorNotReady && Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    finished = code != cudaErrorNotReady;
    return code == cudaSuccess;
  }

  const Side& side;
  cudaStream_t stream = nullptr;
  void* data = nullptr;
  bool finished = true;
};

/// Whether known bytes arrive unchanged.
bool delivers(const Side& from, const Side& to) try {
  std::vector<std::uint32_t> sent(kTrialBytes / sizeof(std::uint32_t)), received(sent.size());
  std::iota(sent.begin(), sent.end(), 0x9e3779b9u * static_cast<std::uint32_t>(from.ordinal + 1));
  Trial source(from), destination(to);
  const auto ok = [](cudaError_t code) { return code == cudaSuccess; };
  if (!ok(cudaMemcpyAsync(source.data, sent.data(), kTrialBytes, cudaMemcpyHostToDevice, source.stream)) ||
      !source.wait())
    return false;
  if (!ok(cudaMemcpyPeerAsync(destination.data, to.ordinal, source.data, from.ordinal, kTrialBytes,
                              destination.stream)) ||
      !destination.wait()) {
    source.finished = destination.finished;
    return false;
  }
  return ok(cudaMemcpyAsync(received.data(), destination.data, kTrialBytes, cudaMemcpyDeviceToHost,
                            destination.stream)) &&
         destination.wait() && sent == received;
} catch (const Error&) {  // there is no stream or memory for a trial
  return false;
}

}  // namespace

PeerAccess& PeerAccess::instance() { return lockstep::detail::immortal<PeerAccess>(); }

bool PeerAccess::prepare(const Side& a, const Side& b) noexcept try {
  const DeviceGuard guard(a.ordinal, a.device);
  const OutsideCaptures outside;
  const std::lock_guard lock(mutex_);
  const auto key = std::minmax(a.ordinal, b.ordinal);
  if (const auto found = direct_.find(key); found != direct_.end()) return found->second;
  bool& direct = direct_[key];
  const bool have_pools = a.memory.pool() != nullptr && b.memory.pool() != nullptr;
  if (!have_pools || !can_access(a.ordinal, b.ordinal) || !can_access(b.ordinal, a.ordinal)) {
    cudaGetLastError();
    return false;
  }
  direct = set_access(a, b, true) && set_access(b, a, true) && delivers(a, b) && delivers(b, a);
  if (!direct) {
    set_access(a, b, false);
    set_access(b, a, false);
    std::fprintf(
        stderr,
        "lockstep: %s and %s claim peer access, but a trial copy did not arrive whole; copies between "
        "them go by way of the host\n",
        a.device.to_string().c_str(), b.device.to_string().c_str());
  }
  cudaGetLastError();
  return direct;
} catch (const std::exception&) {
  cudaGetLastError();
  return false;
}

}  // namespace lockstep::cuda
