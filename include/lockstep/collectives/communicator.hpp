#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/options.hpp>
#include <lockstep/detail/borrowed_span.hpp>
#include <lockstep/detail/function_ref.hpp>
#include <lockstep/device.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/report.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor_view.hpp>

#pragma GCC visibility push(default)

struct ncclComm;

namespace lockstep {

namespace backend {
class ProcessGroup;
}

namespace detail {
class DeviceWatch;
class Rendezvous;
class WorkerMeeting;
struct Arrival;
class ReplicaGroup;
}  // namespace detail

/// One rank's contribution to a collective: a batch of tensors, equally many on every rank, and the stream
/// that orders the work. The lists of views must outlive the call; temporary containers do not compile.
struct RankBatch {
  int rank;
  StreamRef stream;
  detail::BorrowedSpan<TensorView> inputs{};   ///< Empty if the rank only receives.
  detail::BorrowedSpan<TensorView> outputs{};  ///< Empty if the rank only sends.
  std::string_view structure{};  ///< The nest whose leaves the tensors are, as text; equal on every rank.
};

/// Collectives over the local devices of a group; ranks are positions in `devices()`. Move only.
///
/// The calling thread drives the ranks that a call names: all ranks, or some while other threads drive the
/// others and make the same calls in the same order. A call returns when its work is enqueued on the ranks'
/// streams (on the host: when it is done) and blocks only to wait for threads that drive other ranks. In
/// steady state calls allocate nothing, with these exceptions, which take temporaries from the device's pool:
/// reduce(mean) and reduce_scatter(mean) of integers, and types that NCCL cannot combine (f16's mean, minima
/// and maxima of floats, f8, 16-bit integers). Memory must stay alive until the streams are done with it.
/// Calls that name all ranks may come from several threads and are serialised.
///
/// Results: every rank receives the same bits, except for a NaN's sign and payload, by the arithmetic that
/// backend::CommunicatorBackend states. The host and virtual devices combine contributions in rank order, so
/// that results repeat bit for bit whatever the batch, and so does the library's own all_reduce between GPUs
/// (CommunicationOptions::peer_bytes). NCCL chooses order and algorithm by size and packing, and adds f16 and
/// bf16 in their own type, unless CommunicationOptions::deterministic is set. The mean of integers is a true
/// division, and its outputs have reduced_dtype(mean).
///
/// Buffers are contiguous and lie on the rank's device. An output may be exactly its input, except in
/// all_to_all and send_recv. The input of all_gather and gather may be exactly the rank's own part of its
/// output, and the output of reduce_scatter and scatter exactly the rank's own part of its input. Any other
/// overlap between buffers of a call is refused, unless both are only read. A call whose ranks all have zero
/// elements does nothing.
///
/// Errors are thrown before anything is enqueued, on every rank:
/// - InvalidArgument: a rank, root or destination is out of range, or a dtype or buffer is not allowed.
/// - CollectiveMismatch: ranks disagree; the message names both.
/// - Unsupported: the streams of some ranks are being captured and those of others are not.
/// - ContextError: the communicator is moved-from, or another thread drives the same rank.
/// - CollectiveTimeout: the message names the missing ranks; the communicator has then failed.
/// - CollectiveAborted: the communicator failed before.
///
/// Options, and ranks in batches, that are out of range are refused on the calling thread alone: the other
/// ranks wait for it to call again.
class Communicator {
 public:
  /// @throws InvalidArgument  no devices, a repeated device, or devices of two kinds.
  /// @throws NotFound  a device does not exist.
  /// @throws Unsupported  virtual devices of one GPU are combined with another GPU, or there are several GPUs
  /// and no NCCL. @throws CollectiveTimeout  NCCL does not initialise in time.
  /// @param options  only `communicator` matters.
  [[nodiscard]] static Communicator create(const std::vector<Device>& devices,
                                           const CommunicationOptions& options = {});
  /// Uses communicators that an engine made, one for each rank, in rank order, all of this process. The
  /// engine keeps ownership: it destroys them after this object, and abort() does not abort them.
  /// Non-blocking communicators are allowed: each call then waits until NCCL has enqueued it. The engine must
  /// use the same NCCL as the library: a shared library, or one that the program exports (-rdynamic).
  /// @throws Unsupported  the library was built without NCCL, or the process has loaded two versions of NCCL.
  /// @throws InvalidArgument  a handle is null, ranks of the group are missing, or the order is another.
  [[nodiscard]] static Communicator adopt(std::span<ncclComm* const> communicators);

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  [[nodiscard]] const std::vector<Device>& devices() const&;
  [[nodiscard]] std::vector<Device> devices() const&& { return devices(); }
  [[nodiscard]] int num_ranks() const;
  /// The first rank of this process; 0 but for the replicas of several workers.
  [[nodiscard]] int first_rank() const;

  /// @name One tensor per rank
  /// All ranks are driven by the calling thread; spans are indexed by rank.
  /// @{
  void all_reduce(ReduceOp op, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                  std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  void reduce(ReduceOp op, std::span<const TensorView> inputs, const TensorView& output, int root,
              std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  void broadcast(const TensorView& input, std::span<const TensorView> outputs, int root,
                 std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// outputs: axis 0 concatenates the inputs along their axis 0, whose lengths may differ.
  void all_gather(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                  std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// outputs: 1/num_ranks of the inputs' elements; rank r gets the r-th part of the reduction.
  void reduce_scatter(ReduceOp op, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                      std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// output: axis 0 concatenates the inputs along their axis 0, whose lengths may differ.
  void gather(std::span<const TensorView> inputs, const TensorView& output, int root,
              std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// outputs: 1/num_ranks of the input's elements; rank r gets the r-th part, the root included.
  void scatter(const TensorView& input, std::span<const TensorView> outputs, int root,
               std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// Inputs have equal shapes and consist of num_ranks equal parts: part p of rank r becomes part r of rank
  /// p. outputs: as many elements.
  void all_to_all(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                  std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// Sends rank r's input to rank `destinations[r]`, which may be r; -1 sends nothing. No rank is named
  /// twice. The two ranks of a transfer have equal shapes and dtypes. Inputs of ranks that do not send, and
  /// outputs of ranks that receive nothing, are ignored.
  void send_recv(std::span<const int> destinations, std::span<const TensorView> inputs,
                 std::span<const TensorView> outputs, std::span<const StreamRef> streams,
                 const CommunicationOptions& options = {});
  /// @}

  /// @name One tensor of one rank
  /// Each rank's thread makes the call. If a rank has no input or output, such as a broadcast's input on
  /// ranks other than the root, any view may be passed: it is ignored.
  /// @{
  void all_reduce(ReduceOp op, int rank, const TensorView& input, const TensorView& output, StreamRef stream,
                  const CommunicationOptions& options = {});
  void reduce(ReduceOp op, int root, int rank, const TensorView& input, const TensorView& output,
              StreamRef stream, const CommunicationOptions& options = {});
  void broadcast(int root, int rank, const TensorView& input, const TensorView& output, StreamRef stream,
                 const CommunicationOptions& options = {});
  void all_gather(int rank, const TensorView& input, const TensorView& output, StreamRef stream,
                  const CommunicationOptions& options = {});
  void reduce_scatter(ReduceOp op, int rank, const TensorView& input, const TensorView& output,
                      StreamRef stream, const CommunicationOptions& options = {});
  void gather(int root, int rank, const TensorView& input, const TensorView& output, StreamRef stream,
              const CommunicationOptions& options = {});
  void scatter(int root, int rank, const TensorView& input, const TensorView& output, StreamRef stream,
               const CommunicationOptions& options = {});
  void all_to_all(int rank, const TensorView& input, const TensorView& output, StreamRef stream,
                  const CommunicationOptions& options = {});
  void send_recv(std::span<const int> destinations, int rank, const TensorView& input,
                 const TensorView& output, StreamRef stream, const CommunicationOptions& options = {});
  /// @}

  /// @name Batches
  /// For the ranks that the calling thread drives.
  /// @{
  void all_reduce(ReduceOp op, std::span<const RankBatch> batches, const CommunicationOptions& options = {});
  void reduce(ReduceOp op, int root, std::span<const RankBatch> batches,
              const CommunicationOptions& options = {});
  void broadcast(int root, std::span<const RankBatch> batches, const CommunicationOptions& options = {});
  void all_gather(std::span<const RankBatch> batches, const CommunicationOptions& options = {});
  void reduce_scatter(ReduceOp op, std::span<const RankBatch> batches,
                      const CommunicationOptions& options = {});
  void gather(int root, std::span<const RankBatch> batches, const CommunicationOptions& options = {});
  void scatter(int root, std::span<const RankBatch> batches, const CommunicationOptions& options = {});
  void all_to_all(std::span<const RankBatch> batches, const CommunicationOptions& options = {});
  /// `destinations` is equal on all ranks. Ranks that do not send have no inputs, and ranks that receive
  /// nothing have no outputs.
  void send_recv(std::span<const int> destinations, std::span<const RankBatch> batches,
                 const CommunicationOptions& options = {});
  /// @}

  /// Meets the other ranks and checks as all_reduce does, but reduces nothing. It serves callers that first
  /// pack a batch into other buffers, which must not start before all ranks agree. It counts as one call in
  /// the order of calls.
  void check_all_reduce(ReduceOp op, std::span<const RankBatch> batches,
                        const CommunicationOptions& options = {});

  /// How an all_reduce of one tensor goes: by which path and why, what it moves, and what it launches. The
  /// same rule decides for the call itself. With LOCKSTEP_LOG=plan in the environment when the communicator
  /// is made, each distinct plan of its calls, of one tensor or of a batch, is logged once.
  /// @param size_bytes  of each rank's input. @param one_thread  whether one thread drives all ranks of the
  /// process; else each thread drives one.
  /// @throws InvalidArgument  the size is negative or no multiple of the dtype's, the dtype is boolean, or
  /// an option is out of range. @throws Unsupported  the option asks for peer memory that there is not.
  [[nodiscard]] CommunicationPlan plan(ReduceOp op, DType dtype, std::int64_t size_bytes,
                                       const CommunicationOptions& options = {},
                                       bool one_thread = false) const;
  /// How an all_reduce of a batch goes. @param batch  of a rank: only dtypes and shapes matter, so that views
  /// without memory do. @throws as plan of one tensor. @throws InvalidArgument  the batch is empty.
  [[nodiscard]] CommunicationPlan plan(ReduceOp op, std::span<const TensorView> batch,
                                       const CommunicationOptions& options = {},
                                       bool one_thread = false) const;

  /// What the ranks of this process did last (lockstep/report.hpp). Any thread may call, at any time.
  [[nodiscard]] Report report() const;

  /// Makes waiting and later calls throw CollectiveAborted. Any thread may call. It does not destroy the
  /// communicator.
  void abort() noexcept;

 private:
  friend class detail::ReplicaGroup;
  struct Impl;
  /// @param member  static text: the word for a member of the group in messages, "rank" or "replica".
  static Communicator create(const std::vector<Device>& devices, std::string_view member,
                             const CommunicationOptions& options);
  /// This process's part of one over several workers, which all make theirs together. Ranks are counted over
  /// all of them, in the order of the workers; the arguments outlive it.
  static Communicator create(const std::vector<Device>& devices, std::string_view member,
                             const CommunicationOptions& options, backend::ProcessGroup& group,
                             detail::WorkerMeeting& meeting);
  void abort(const std::string& cause) noexcept;
  /// The thread's ranks meet in the rendezvous, and with the other workers' ranks: `check` looks at the
  /// arrivals of all ranks, of which those of other workers have no payload.
  void meet(std::span<const int> ranks, std::span<const detail::Arrival> arrivals,
            detail::FunctionRef<void(std::span<const detail::Arrival* const>)> check,
            std::chrono::milliseconds timeout);
  /// A rank's tensors at the last meeting of `own`, a rank of the calling thread's; without memory if they
  /// are another worker's. Valid until the next one.
  std::span<const TensorView> tensors_at_meeting(int rank, int own) const;
  void launch_graphs(detail::FunctionRef<void()> launch);
  /// The time limits of its ranks' work on their devices; null: the devices do not work by themselves.
  detail::DeviceWatch* watch() noexcept;
  explicit Communicator(std::unique_ptr<Impl> impl);
  /// The barrier of the ranks' threads, for the strategy layer.
  detail::Rendezvous& rendezvous() noexcept;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
