#include <algorithm>
#include <sstream>

#include <lockstep/backend/backend.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/version.hpp>

#include "collectives/communicator_impl.hpp"
#include "detail/expects.hpp"

namespace lockstep {

using detail::Collective;

Communicator Communicator::create(const std::vector<Device>& devices, const CommunicationOptions& options) {
  return create(devices, "rank", options);
}

Communicator Communicator::create(const std::vector<Device>& devices, std::string_view member,
                                  const CommunicationOptions& options) {
  const CommunicatorConfig config = options.merged_over({}).communicator;
  LOCKSTEP_EXPECTS(!devices.empty(), InvalidArgument, "Communicator::create: no devices. Pass at least one.");
  std::vector<backend::DeviceBackend*> opened;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto before = devices.begin() + static_cast<std::ptrdiff_t>(i);
    LOCKSTEP_EXPECTS(std::find(devices.begin(), before, devices[i]) == before, InvalidArgument,
                     "Communicator::create: ", devices[i], " is listed twice. For several ", member,
                     "s on one device make virtual devices of it first.");
    LOCKSTEP_EXPECTS(devices[i].kind() == devices.front().kind(), InvalidArgument,
                     "Communicator::create: ", devices.front(), " and ", devices[i],
                     " are devices of two kinds. Pass devices of one kind.");
    opened.push_back(&DeviceManager::instance().open(devices[i]));
  }
  auto made = DeviceManager::instance().backend(devices.front().kind()).create_communicator(opened, config);
  return Communicator(std::make_unique<Impl>(devices, std::move(opened), std::move(made), member));
}

Communicator Communicator::create(const std::vector<Device>& devices, std::string_view member,
                                  const CommunicationOptions& options, backend::ProcessGroup& group,
                                  detail::WorkerMeeting& meeting) {
  std::string own;
  for (const Device& device : devices) own += detail::concat(own.empty() ? "" : " ", device);
  const std::vector<std::string> names = group.all_gather("the devices of a communicator", own);
  backend::ProcessRanks ranks{&group, {}};
  std::vector<Device> all;
  std::vector<backend::DeviceBackend*> opened, own_opened;
  for (int worker = 0; worker < group.num_processes(); ++worker) {
    std::istringstream list(names[static_cast<std::size_t>(worker)]);
    list.exceptions(std::ios::badbit);  // a lack of memory would end the list
    const std::size_t begin = all.size();
    for (std::string name; list >> name;) {
      const bool is_own = worker == group.process();
      all.emplace_back(is_own ? name : detail::concat("/job:worker/task:", worker, "/device:", name));
      opened.push_back(is_own ? &DeviceManager::instance().open(all.back()) : nullptr);
      if (is_own) own_opened.push_back(opened.back());
      LOCKSTEP_EXPECTS(all.back().kind() == all.front().kind(), InvalidArgument,
                       "Communicator::create: ", all.front(), " and ", all.back(),
                       " are devices of two kinds. Give all workers devices of one kind.");
    }
    ranks.num_ranks.push_back(static_cast<int>(all.size() - begin));
  }
  auto made = DeviceManager::instance()
                  .backend(devices.front().kind())
                  .create_communicator(own_opened, ranks, options.merged_over({}).communicator);
  return Communicator(
      std::make_unique<Impl>(all, std::move(opened), std::move(made), member, std::move(ranks), meeting));
}

Communicator Communicator::adopt(std::span<ncclComm* const> communicators) {
  LOCKSTEP_EXPECTS(LOCKSTEP_HAS_NCCL != 0, Unsupported, "Communicator::adopt of ", communicators.size(),
                   " communicators: this library was built without NCCL. Build it with LOCKSTEP_NCCL=ON.");
  LOCKSTEP_EXPECTS(!communicators.empty(), InvalidArgument,
                   "Communicator::adopt: no communicators. Pass one for each rank.");
  auto& manager = DeviceManager::instance();
  backend::Backend& backend = manager.backend(DeviceKind::gpu);
  const std::vector<void*> natives(communicators.begin(), communicators.end());
  std::vector<Device> devices;
  std::vector<backend::DeviceBackend*> opened;
  for (const int index : backend.devices_of_native(natives)) {
    devices.emplace_back(DeviceKind::gpu, index);
    opened.push_back(&manager.open(devices.back()));
  }
  auto made = backend.adopt_communicators(opened, natives);
  return Communicator(std::make_unique<Impl>(devices, std::move(opened), std::move(made), "rank"));
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator::Impl& Communicator::impl() const {
  LOCKSTEP_EXPECTS(impl_ != nullptr, ContextError,
                   "Communicator: this one was moved from. Use the one it moved to.");
  return *impl_;
}

const std::vector<Device>& Communicator::devices() const& { return impl().devices; }
int Communicator::num_ranks() const { return impl().num_ranks(); }
int Communicator::first_rank() const { return impl().first_rank; }

void Communicator::all_reduce(ReduceOp op, std::span<const TensorView> inputs,
                              std::span<const TensorView> outputs, std::span<const StreamRef> streams,
                              const CommunicationOptions& options) {
  impl().run_all(Collective::all_reduce, op, 0, inputs, outputs, streams, options);
}
void Communicator::reduce(ReduceOp op, std::span<const TensorView> inputs, const TensorView& output, int root,
                          std::span<const StreamRef> streams, const CommunicationOptions& options) {
  impl().run_all(Collective::reduce, op, root, inputs, {&output, 1}, streams, options);
}
void Communicator::broadcast(const TensorView& input, std::span<const TensorView> outputs, int root,
                             std::span<const StreamRef> streams, const CommunicationOptions& options) {
  impl().run_all(Collective::broadcast, ReduceOp::sum, root, {&input, 1}, outputs, streams, options);
}
void Communicator::all_gather(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                              std::span<const StreamRef> streams, const CommunicationOptions& options) {
  impl().run_all(Collective::all_gather, ReduceOp::sum, 0, inputs, outputs, streams, options);
}
void Communicator::reduce_scatter(ReduceOp op, std::span<const TensorView> inputs,
                                  std::span<const TensorView> outputs, std::span<const StreamRef> streams,
                                  const CommunicationOptions& options) {
  impl().run_all(Collective::reduce_scatter, op, 0, inputs, outputs, streams, options);
}
void Communicator::gather(std::span<const TensorView> inputs, const TensorView& output, int root,
                          std::span<const StreamRef> streams, const CommunicationOptions& options) {
  impl().run_all(Collective::gather, ReduceOp::sum, root, inputs, {&output, 1}, streams, options);
}
void Communicator::scatter(const TensorView& input, std::span<const TensorView> outputs, int root,
                           std::span<const StreamRef> streams, const CommunicationOptions& options) {
  impl().run_all(Collective::scatter, ReduceOp::sum, root, {&input, 1}, outputs, streams, options);
}
void Communicator::all_to_all(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                              std::span<const StreamRef> streams, const CommunicationOptions& options) {
  impl().run_all(Collective::all_to_all, ReduceOp::sum, 0, inputs, outputs, streams, options);
}
void Communicator::send_recv(std::span<const int> destinations, std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs, std::span<const StreamRef> streams,
                             const CommunicationOptions& options) {
  impl().run_all(Collective::send_recv, ReduceOp::sum, 0, inputs, outputs, streams, options, destinations);
}

namespace {

/// A rank's views in a collective of one tensor each.
struct OneTensor {
  OneTensor(int rank, StreamRef stream, const TensorView& input, bool has_input, const TensorView& output,
            bool has_output)
      : batch{rank,
              stream,
              {&input, has_input ? std::size_t{1} : 0},
              {&output, has_output ? std::size_t{1} : 0}} {}

  operator std::span<const RankBatch>() const noexcept { return {&batch, 1}; }

  RankBatch batch;
};

}  // namespace

void Communicator::all_reduce(ReduceOp op, int rank, const TensorView& input, const TensorView& output,
                              StreamRef stream, const CommunicationOptions& options) {
  all_reduce(op, OneTensor(rank, stream, input, true, output, true), options);
}
void Communicator::reduce(ReduceOp op, int root, int rank, const TensorView& input, const TensorView& output,
                          StreamRef stream, const CommunicationOptions& options) {
  reduce(op, root, OneTensor(rank, stream, input, true, output, rank == root), options);
}
void Communicator::broadcast(int root, int rank, const TensorView& input, const TensorView& output,
                             StreamRef stream, const CommunicationOptions& options) {
  broadcast(root, OneTensor(rank, stream, input, rank == root, output, true), options);
}
void Communicator::all_gather(int rank, const TensorView& input, const TensorView& output, StreamRef stream,
                              const CommunicationOptions& options) {
  all_gather(OneTensor(rank, stream, input, true, output, true), options);
}
void Communicator::reduce_scatter(ReduceOp op, int rank, const TensorView& input, const TensorView& output,
                                  StreamRef stream, const CommunicationOptions& options) {
  reduce_scatter(op, OneTensor(rank, stream, input, true, output, true), options);
}
void Communicator::gather(int root, int rank, const TensorView& input, const TensorView& output,
                          StreamRef stream, const CommunicationOptions& options) {
  gather(root, OneTensor(rank, stream, input, true, output, rank == root), options);
}
void Communicator::scatter(int root, int rank, const TensorView& input, const TensorView& output,
                           StreamRef stream, const CommunicationOptions& options) {
  scatter(root, OneTensor(rank, stream, input, rank == root, output, true), options);
}
void Communicator::all_to_all(int rank, const TensorView& input, const TensorView& output, StreamRef stream,
                              const CommunicationOptions& options) {
  all_to_all(OneTensor(rank, stream, input, true, output, true), options);
}
void Communicator::send_recv(std::span<const int> destinations, int rank, const TensorView& input,
                             const TensorView& output, StreamRef stream,
                             const CommunicationOptions& options) {
  const bool sends = static_cast<std::size_t>(rank) < destinations.size() &&
                     destinations[static_cast<std::size_t>(rank)] != -1;
  const bool receives = std::find(destinations.begin(), destinations.end(), rank) != destinations.end();
  send_recv(destinations, OneTensor(rank, stream, input, sends, output, receives), options);
}

void Communicator::all_reduce(ReduceOp op, std::span<const RankBatch> batches,
                              const CommunicationOptions& options) {
  impl().run(Collective::all_reduce, op, 0, batches, options);
}
void Communicator::reduce(ReduceOp op, int root, std::span<const RankBatch> batches,
                          const CommunicationOptions& options) {
  impl().run(Collective::reduce, op, root, batches, options);
}
void Communicator::broadcast(int root, std::span<const RankBatch> batches,
                             const CommunicationOptions& options) {
  impl().run(Collective::broadcast, ReduceOp::sum, root, batches, options);
}
void Communicator::all_gather(std::span<const RankBatch> batches, const CommunicationOptions& options) {
  impl().run(Collective::all_gather, ReduceOp::sum, 0, batches, options);
}
void Communicator::reduce_scatter(ReduceOp op, std::span<const RankBatch> batches,
                                  const CommunicationOptions& options) {
  impl().run(Collective::reduce_scatter, op, 0, batches, options);
}
void Communicator::gather(int root, std::span<const RankBatch> batches, const CommunicationOptions& options) {
  impl().run(Collective::gather, ReduceOp::sum, root, batches, options);
}
void Communicator::scatter(int root, std::span<const RankBatch> batches,
                           const CommunicationOptions& options) {
  impl().run(Collective::scatter, ReduceOp::sum, root, batches, options);
}
void Communicator::all_to_all(std::span<const RankBatch> batches, const CommunicationOptions& options) {
  impl().run(Collective::all_to_all, ReduceOp::sum, 0, batches, options);
}
void Communicator::send_recv(std::span<const int> destinations, std::span<const RankBatch> batches,
                             const CommunicationOptions& options) {
  impl().run(Collective::send_recv, ReduceOp::sum, 0, batches, options, destinations);
}

void Communicator::check_all_reduce(ReduceOp op, std::span<const RankBatch> batches,
                                    const CommunicationOptions& options) {
  impl().check(Collective::all_reduce, op, batches, options);
}

Report Communicator::report() const { return {{impl().rendezvous.calls().report({}, impl().first_rank)}}; }

void Communicator::abort() noexcept {
  if (impl_ != nullptr) impl_->abort("Communicator::abort was called");
}

void Communicator::meet(std::span<const int> ranks, std::span<const detail::Arrival> arrivals,
                        detail::FunctionRef<void(std::span<const detail::Arrival* const>)> check,
                        std::chrono::milliseconds timeout) {
  impl().meet(ranks, arrivals, check, timeout);
}

std::span<const TensorView> Communicator::tensors_at_meeting(int rank, int own) const {
  const Impl& one = impl();
  if (one.workers) return one.workers->arrivals()[static_cast<std::size_t>(rank)]->tensors;
  return one.rendezvous.arrival(rank, own).tensors;
}

void Communicator::abort(const std::string& cause) noexcept {
  if (impl_ != nullptr) impl_->abort(cause);
}

void Communicator::launch_graphs(detail::FunctionRef<void()> launch) {
  impl().backend->launch_graphs(launch);
}

detail::DeviceWatch* Communicator::watch() noexcept { return impl_->watch ? &*impl_->watch : nullptr; }

detail::Rendezvous& Communicator::rendezvous() noexcept { return impl_->rendezvous; }

}  // namespace lockstep
