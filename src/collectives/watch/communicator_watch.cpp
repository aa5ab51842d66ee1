#include <lockstep/backend/backend.hpp>
#include <lockstep/backend/loss.hpp>
#include <lockstep/device_manager.hpp>

#include "collectives/communicator_impl.hpp"
#include "detail/warn.hpp"

/// Time limits of a communicator's calls on its devices.
namespace lockstep {

void Communicator::Impl::watch_devices() {
  if (!DeviceManager::instance().backend(devices.front().kind()).capabilities().asynchronous) return;
  const auto begin = device_backends.begin() + first_rank;
  watch.emplace(std::vector(begin, begin + static_cast<std::ptrdiff_t>(num_local_ranks())),
                rendezvous.calls(), [this](const std::string& text) { give_up(text); });
}

void Communicator::Impl::begin_watch(std::span<const CollectiveCall* const> calls,
                                     std::chrono::milliseconds timeout) {
  if (!watch) return;
  bool is_captured = false;
  for (const CollectiveCall* const call : calls)
    is_captured |= watch->add_captured(static_cast<int>(local(call->batch->rank)), timeout);
  if (is_captured || timeout.count() == 0) return;
  // This thread drives the first rank; others' threads may not have counted the meeting yet.
  const std::uint64_t number = rendezvous.last_meeting(static_cast<int>(local(calls.front()->batch->rank)));
  for (const CollectiveCall* const call : calls)
    watch->begin(static_cast<int>(local(call->batch->rank)), number,
                 detail::operation_name(call->collective, call->op), call->batch->stream.handle());
}

void Communicator::Impl::end_watch(std::span<const CollectiveCall* const> calls,
                                   std::chrono::milliseconds timeout) {
  if (!watch || timeout.count() == 0) return;
  for (const CollectiveCall* const call : calls)
    watch->end(static_cast<int>(local(call->batch->rank)), call->batch->stream.handle(), timeout);
}

void Communicator::Impl::give_up(const std::string& text) {
  const std::string report = Report{{rendezvous.calls().report({}, first_rank)}}.to_string();
  // Before the streams go on with what the collective leaves in memory.
  const auto loss = std::make_shared<backend::Loss>(text, /*is_time_out=*/true);
  for (backend::DeviceBackend* const device : device_backends)
    if (device != nullptr) device->lose_results(loss);
  rendezvous.abort(text);
  detail::warn(detail::concat(text, ' ', report));  // before what follows, which may take seconds
  abort(text);
}

}  // namespace lockstep
