#include <cstring>
#include <exception>

#include "collectives/communicator_impl.hpp"

/// What a communicator over several workers does beside its local ranks.
namespace lockstep {

void Communicator::Impl::meet(std::span<const int> ranks, std::span<const detail::Arrival> arrivals,
                              const detail::Rendezvous::Check& check, std::chrono::milliseconds timeout) {
  detail::RecycledVector<int> own;
  for (const int rank : ranks) own.push_back(static_cast<int>(local(rank)));
  const auto check_all = [&](std::span<const detail::Arrival* const> local_ranks) {
    if (!workers) {
      if (check) check(local_ranks);
      return;
    }
    workers->set_own(local_ranks);
    workers->exchange_arrivals(timeout);
    if (check) check(workers->arrivals());  // which all workers see alike
  };
  or_lost(arrivals.front().operation, [&] { rendezvous.meet(own, arrivals, check_all, timeout); });
}

bool Communicator::Impl::meet_workers(std::span<const detail::Arrival* const> local_ranks,
                                      std::chrono::milliseconds timeout) {
  // What this worker's own ranks bring is checked first: the others must not begin with what it refuses.
  const auto check_all = [&] {
    try {
      checks.run(workers->arrivals());
    } catch (...) {
      workers->refuse(rendezvous.described(std::current_exception()), timeout);
    }
  };
  workers->set_own(local_ranks);
  check_all();
  message.clear();
  const CollectiveCall& first = detail::call_of(local_ranks.front());
  const std::span<const TensorView> inputs = first.batch->inputs;
  const bool is_short = first.collective == Collective::all_reduce && !first.only_checks &&
                        inputs.size() == 1 && comes_with_meeting(inputs.front().nbytes(), false) &&
                        !first.converts(inputs.front());
  if (is_short) {
    for (const detail::Arrival* const arrival : local_ranks) {
      const TensorView& input = detail::call_of(arrival).batch->inputs.front();
      const auto* const begin = static_cast<const std::byte*>(input.data);
      message.insert(message.end(), begin, begin + input.nbytes());
    }
  }
  if (!workers->exchange_collective(message, timeout)) {
    check_all();
    workers->confirm(timeout);
    return false;
  }
  if (is_short) reduce_with_workers(local_ranks);
  return is_short;
}

void Communicator::Impl::reduce_with_workers(std::span<const detail::Arrival* const> local_ranks) {
  const CollectiveCall& first = detail::call_of(local_ranks.front());
  const TensorView& output = first.batch->outputs.front();
  if (output.size() == 0) return;
  Scratch& own = scratch.front();
  const auto size = static_cast<std::size_t>(output.nbytes());
  messages.resize(devices.size() * kMaxMessageBytes);
  own.sources.clear();
  own.destinations.clear();
  for (int rank = 0; rank < num_ranks(); ++rank) {
    std::byte* const place = messages.data() + static_cast<std::size_t>(rank) * kMaxMessageBytes;
    std::memcpy(place, workers->message_of(rank).data(), size);
    own.sources.push_back(place);
  }
  for (const detail::Arrival* const arrival : local_ranks)
    own.destinations.push_back(detail::call_of(arrival).batch->outputs.front().data);
  backend->reduce_here(first.op, output.dtype, output.size(), own.sources, own.destinations);
}

}  // namespace lockstep
