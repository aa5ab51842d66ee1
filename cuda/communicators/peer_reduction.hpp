#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>
#include <lockstep/communication.hpp>

#include "device/cuda_device.hpp"
#include "device/last_work.hpp"
#include "graphs/capture.hpp"
#include "kernels/peer_all_reduce.hpp"

namespace lockstep::cuda {

/// How inboxes are divided, and how calls are cut into pieces that fit. Lengths are in bytes of an input.
struct PeerLayout {
  /// The most bytes that a rank pushes to the others in one shot. A second one takes about 2 us more, in
  /// which a GPU's NVLink 4 carries about as much with its flags: an estimate, not a measurement.
  static constexpr std::int64_t kMostInOneShot = 512 << 10;

  /// Shorter pieces than a pack for each rank become as long.
  PeerLayout(int num_ranks, std::int64_t largest_piece, std::int64_t most_in_one_shot = kMostInOneShot);

  bool is_in_two_shots(std::int64_t size_bytes) const;
  std::int64_t inbox_bytes() const;

  int num_ranks;
  std::int64_t most_in_one_shot;
  std::int64_t largest_piece;  ///< A multiple of kPackBytes.
  std::int64_t capacity;       ///< PeerAllReduce::capacity
};

/// All-reduces between GPUs of this process by the library's own kernels (kernels/peer_all_reduce.hpp). Each
/// rank has two inboxes in its GPU's memory, which the others write to: of calls, and of captured ones.
///
/// Calls may be captured: the numbers of calls are counted on the devices. All ranks' parts of a call must be
/// enqueued while no other thread enqueues parts (LaunchOrder). Calls of a rank on different streams, or of
/// one capture, follow each other, and a graph's launch need not be ordered with them; graphs must be ordered
/// with each other by whoever launches them. It must live until graphs that have its calls are destroyed.
class PeerReduction {
 public:
  /// Waits until the inboxes are cleared. @param default_bytes  CommunicationOptions::peer_bytes, where it is
  /// not given. @param why_not  set where null is returned: static text.
  /// @return null: some GPUs do not reach each other's memory, or there are too many.
  static std::unique_ptr<PeerReduction> make(const std::vector<CudaDevice*>& ranks,
                                             std::int64_t default_bytes, std::string_view& why_not);
  /// @param num_calls  as if so many calls had been made.
  PeerReduction(const std::vector<CudaDevice*>& ranks, const PeerLayout& layout, unsigned num_calls = 0);
  ~PeerReduction();
  PeerReduction(const PeerReduction&) = delete;
  PeerReduction& operator=(const PeerReduction&) = delete;

  /// All members that concern the path and its costs. The path is the longest tensor's.
  CommunicationPlan plan(std::span<const backend::Segment> batch, std::string_view reason) const;
  /// In a capture: keeps an object with the rank's graph, which a call is about to become a part of.
  void keep(int rank, const Capture& capture, const std::shared_ptr<const void>& object);
  /// Loads the kernels of a rank's call, before any rank's part of it is enqueued.
  void load(const backend::RankCall& call);
  /// Long tensors go in pieces. All ranks' parts of a piece are enqueued before the next piece: a device that
  /// waits for another one takes no more than some launches.
  std::int64_t num_pieces(const backend::Segment& segment) const;
  /// Enqueues a rank's part of a piece of an all_reduce of one tensor, or, where it receives nothing, of a
  /// reduce. @param capture  of the stream, after keep(). @param piece  from 0.
  void enqueue(ReduceOp op, const backend::RankCall& call, const backend::Segment& segment,
               const Capture& capture, std::int64_t piece);
  /// Lets kernels that wait for other ranks end. Any thread; does not wait.
  void abort() noexcept;

  /// LOCKSTEP_PEER_BYTES, or what CommunicationOptions::peer_bytes says. @throws InvalidArgument
  static std::int64_t default_bytes(int num_ranks);

 private:
  /// A rank's calls in one capture.
  struct Captured {
    unsigned long long id;
    std::weak_ptr<const void> life;  // expires when the graph is gone
    backend::EventHandle last;       // behind the last call
    bool has_called;
  };
  struct Rank {
    CudaDevice* device = nullptr;
    backend::StreamHandle own_stream{};
    std::byte* inboxes = nullptr;
    std::unique_ptr<LastWork> last;  // of calls outside captures
    std::vector<Captured> captured;  // with those whose graphs are gone
    std::uint32_t loaded = 0;        // dtypes whose kernel is, as bits
  };

  std::size_t num_bytes() const { return 2 * static_cast<std::size_t>(layout_.inbox_bytes()); }
  void release() noexcept;

  const PeerLayout layout_;
  std::vector<Rank> ranks_;
  unsigned* aborts_ = nullptr;  // page-locked, for all GPUs
};

}  // namespace lockstep::cuda
