#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/collectives/options.hpp>
#include <lockstep/detail/borrowed_span.hpp>
#include <lockstep/device.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor_view.hpp>

#pragma GCC visibility push(default)

struct ncclComm;

namespace lockstep {

namespace detail {
class Rendezvous;
struct ReplicaGroup;
}  // namespace detail

/// What one rank brings to a collective: a batch of tensors, as many on every rank, and the stream that
/// orders the work. The lists of views must outlive the call; temporary containers do not compile.
struct RankBatch {
  int rank;
  StreamRef stream;
  detail::BorrowedSpan<TensorView> inputs{};   ///< Empty where the rank only receives.
  detail::BorrowedSpan<TensorView> outputs{};  ///< Empty where the rank only sends.
  std::string_view structure{};  ///< Of the nest whose leaves these are, as text; equal on every rank.
};

/// Collectives over the local devices of a group; ranks are positions in `devices()`. Move only.
///
/// The calling thread drives the ranks that a call names: all of them, or some while other threads drive the
/// others, each making the same calls in the same order. A call returns when its work is enqueued on the
/// ranks' streams (on the host: when it is done) and blocks only for threads that drive other ranks. Nothing
/// is allocated in steady state, but for temporaries from the device's pool: for reduce(mean) and
/// reduce_scatter(mean) of integers, and on NCCL for what it cannot combine as it is (f16's mean, minima and
/// maxima of floats, f8, 16-bit integers). Memory must stay alive until the streams are done with it. Calls
/// that name all ranks may come from several threads and are serialised.
///
/// Results: every rank receives the same bits, but for a NaN's sign and payload, by the arithmetic that
/// backend::CommunicatorBackend states. On
/// the host, and on virtual devices, contributions are combined in rank order, so that results repeat bit for
/// bit whatever the batch; NCCL chooses order and algorithm by size and packing, and adds f16 and bf16 in
/// their own type, unless CommunicationOptions::deterministic is set. The mean of integers is a true
/// division, and outputs then have reduced_dtype(mean).
///
/// Buffers: contiguous, on the rank's device. An output may be exactly its input, but for all_to_all's and
/// send_recv's; all_gather's and gather's input may be exactly the rank's own part of its output, and
/// reduce_scatter's and scatter's output exactly the rank's own part of its input. Any other overlap between
/// buffers of a call is refused, unless both are only read. Zero elements on all ranks are nothing to do.
///
/// Errors, before anything is enqueued and on every rank:
/// InvalidArgument (rank, root or destination out of range, dtype, strided or overlapping buffers, wrong
/// device),
/// CollectiveMismatch (ranks disagree: names both), Unsupported (the streams of some ranks are being
/// captured, those of others are not), ContextError (moved-from; another thread drives the same rank),
/// CollectiveTimeout (who is missing; the communicator has failed then), CollectiveAborted (failed before).
/// Options, and ranks in batches, that are out of range are refused on that thread alone: the other ranks
/// wait for it to come again.
class Communicator {
 public:
  /// @throws InvalidArgument  no devices, a device twice, or devices of two kinds. @throws NotFound  there is
  /// no such device. @throws Unsupported  virtual devices of one GPU together with another GPU, or several
  /// GPUs and no NCCL. @throws CollectiveTimeout  NCCL does not come up.
  [[nodiscard]] static Communicator create(const std::vector<Device>& devices);
  /// Takes part with communicators that an engine made, one for each rank, in rank order, all of this
  /// process. They stay the engine's, which destroys them after this; abort() does not abort them. Ones that
  /// do not block will do: each call waits until NCCL has enqueued it. The engine's NCCL must be the
  /// library's: a shared one, or one that the program exports (-rdynamic).
  /// @throws Unsupported  the library was built without NCCL, or the process has loaded NCCLs of two
  /// versions.
  /// @throws InvalidArgument  a null, not all ranks of one group, or another order.
  [[nodiscard]] static Communicator adopt(std::span<ncclComm* const> communicators);

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  [[nodiscard]] const std::vector<Device>& devices() const&;
  [[nodiscard]] std::vector<Device> devices() const&& { return devices(); }
  [[nodiscard]] int num_ranks() const;

  // One tensor per rank, all ranks driven by the calling thread; spans are indexed by rank.
  void all_reduce(ReduceOp op, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                  std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  void reduce(ReduceOp op, std::span<const TensorView> inputs, const TensorView& output, int root,
              std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  void broadcast(const TensorView& input, std::span<const TensorView> outputs, int root,
                 std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// outputs: axis 0 is the concatenation of the inputs' axis 0, whose lengths may differ.
  void all_gather(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                  std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// outputs: 1/num_ranks of the inputs' elements; rank r gets the r-th part of the reduction.
  void reduce_scatter(ReduceOp op, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                      std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// output: axis 0 is the concatenation of the inputs' axis 0, whose lengths may differ.
  void gather(std::span<const TensorView> inputs, const TensorView& output, int root,
              std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// outputs: 1/num_ranks of the input's elements; rank r gets the r-th part, the root included.
  void scatter(const TensorView& input, std::span<const TensorView> outputs, int root,
               std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// Inputs of equal shapes are num_ranks equal parts each: rank r's p-th part becomes rank p's r-th one.
  /// outputs: as many elements.
  void all_to_all(std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                  std::span<const StreamRef> streams, const CommunicationOptions& options = {});
  /// Rank r's input goes to rank `destinations[r]`, itself allowed; -1: nowhere. No rank is named twice.
  /// Shapes and dtypes are equal on the two ranks of a transfer. The inputs of ranks that do not send, and
  /// the outputs of those that nobody sends to, are not looked at.
  void send_recv(std::span<const int> destinations, std::span<const TensorView> inputs,
                 std::span<const TensorView> outputs, std::span<const StreamRef> streams,
                 const CommunicationOptions& options = {});

  // One tensor of one rank: each rank's thread makes the call. Of inputs and outputs that a rank does not
  // have, as a broadcast's input elsewhere than on the root, any view may be given: it is not looked at.
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

  // Batches, for the ranks that the calling thread drives.
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
  /// `destinations` is equal on all ranks. Ranks that do not send have no inputs, ranks that nobody sends to
  /// no outputs.
  void send_recv(std::span<const int> destinations, std::span<const RankBatch> batches,
                 const CommunicationOptions& options = {});

  /// Meets and checks as all_reduce does, and reduces nothing: for callers that arrange a batch in other
  /// buffers first, which must not start before all ranks agree. One call in the order of calls.
  void check_all_reduce(ReduceOp op, std::span<const RankBatch> batches,
                        const CommunicationOptions& options = {});

  /// Fails waiting and later calls with CollectiveAborted. Any thread. Destruction is separate.
  void abort() noexcept;

  /// Where the ranks' threads meet; for the strategy layer.
  [[nodiscard]] detail::Rendezvous& rendezvous() noexcept;

 private:
  friend struct detail::ReplicaGroup;
  struct Impl;
  /// @param member  static: what messages call one of the group, "rank" or "replica".
  static Communicator create(const std::vector<Device>& devices, std::string_view member);
  explicit Communicator(std::unique_ptr<Impl> impl);
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
