#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// What carries collectives between GPUs. `automatic` is `peer` for an all_reduce or a reduce that is short
/// (CommunicationOptions::peer_bytes) or is to combine in rank order, between GPUs of this process that
/// reach each other's memory, and `nccl` otherwise. `peer` is an all_reduce or a reduce by the library's own
/// kernels, whatever its length; other collectives then go by NCCL. `ring` is `automatic`. Host replicas use
/// shared memory, and virtual devices of one GPU a kernel on it, whatever is asked for: a host communicator's
/// first call with `nccl` or `peer` logs a warning.
enum class CommunicationImplementation : std::uint8_t { automatic, ring, nccl, peer };

/// What NCCL prefers: speed, or to leave multiprocessors (CTAs) to other kernels. `zero` lets it use none
/// where copy engines can do the work, which takes NCCL 2.28.
enum class CtaPolicy : std::uint8_t { automatic, efficiency, zero };

/// What NCCL's communicators are made with; ignored where there are none. What the NCCL that is loaded, or
/// that the library was built with, is too old for is left out, which the log tells once.
struct CommunicatorConfig {
  /// In NCCL's log and in profilers. Up to 63 characters; must live until the communicator is made, which a
  /// strategy does in its constructor.
  std::string_view name{};
  int min_ctas = 0;  ///< The fewest CTAs of a collective; 0: NCCL's choice.
  int max_ctas = 0;  ///< The most; 0: NCCL's choice. Not below min_ctas.
  CtaPolicy cta_policy = CtaPolicy::automatic;
  /// NCCL's calls return before they are done, and the library waits for them, so that a lost peer can be
  /// given up on earlier; each group of calls costs NCCL a thread. NCCL_COMM_BLOCKING=0 does the same.
  bool nonblocking = false;
  /// The packs in which NCCL reduces batches, and PackedReduction's, travel in symmetric windows: memory that
  /// NCCL has registered with all ranks, so that GPUs that are linked by NVLink can sum it by kernels that
  /// need no copies of their own. A rank keeps up to four times its largest pack until the communicator ends.
  /// Packs in a CUDA graph travel in plain memory, and so do all packs where a worker has no windows. Off by
  /// default: no GPU has measured it here, and results have other bits.
  bool symmetric_windows = false;

  bool operator==(const CommunicatorConfig&) const = default;
};

/// How an all_reduce travels.
enum class CommunicationPath : std::uint8_t {
  shared_memory,  ///< Host: the ranks' threads combine in the memory that they share.
  with_meeting,   ///< Host: a short input comes with the ranks' meeting, and each thread combines all.
  processes,      ///< Host: an engine, or memory that processes share, carries shares of it.
  one_gpu,        ///< One kernel combines what virtual devices of a GPU have.
  peer_one_shot,  ///< Each GPU pushes its input to all others, and combines.
  peer_two_shot,  ///< Each GPU combines a part of the input, and pushes the result to all others.
  nccl,           ///< NCCL, by an algorithm of its choosing.
  nccl_in_order,  ///< NCCL gathers all inputs, which each GPU then combines in rank order.
};

/// "peer memory, one shot".
[[nodiscard]] std::string_view to_string(CommunicationPath path) noexcept;
std::ostream& operator<<(std::ostream& out, CommunicationPath path);

/// How a communicator carries out an all_reduce of one tensor, or of a batch. It comes from the rule by which
/// the call itself goes.
struct CommunicationPlan {
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;     ///< Of the first tensor.
  std::int64_t size_bytes = 0;  ///< Of each rank's input, all tensors together.
  int num_tensors = 1;
  /// What is combined one by one: by NCCL a pack of several tensors, or one that goes as it is; by peer
  /// memory each tensor; by virtual devices of one GPU, and on the host, all tensors of a dtype.
  int num_packs = 1;
  int num_ranks = 0;
  CommunicationPath path = CommunicationPath::shared_memory;
  std::string_view reason{};  ///< Static text.
  /// With CommunicatorConfig::symmetric_windows, of NCCL's path: where the values travel, "in a symmetric
  /// window" (but captured calls never), or why not. Static text; else empty.
  std::string_view memory{};
  bool in_window = false;     ///< Whether in a symmetric window.
  bool in_rank_order = true;  ///< Whether contributions are combined in rank order, at least in float.
  /// What a rank's part reads and writes in memory of devices, at most, in bytes. What NCCL is given counts
  /// once, however it moves it; a repeated look at memory that has yet to change does not count.
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  /// Kernels, copies and calls of NCCL that are enqueued for all ranks of this process; 0 on the host.
  int num_launches = 0;

  bool operator==(const CommunicationPlan&) const = default;
  /// "all_reduce(sum) of 4096 bytes of float32 over 4 ranks: peer memory, one shot (...)", on one line; of a
  /// batch "all_reduce(sum) of 9 tensors, 4096 bytes, over 4 ranks: NCCL (...), in 2 packs".
  [[nodiscard]] std::string to_string() const;
};
std::ostream& operator<<(std::ostream& out, const CommunicationPlan& plan);

}  // namespace lockstep

#pragma GCC visibility pop
