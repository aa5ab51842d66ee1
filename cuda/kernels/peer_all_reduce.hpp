#pragma once

#include <cstdint>

#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#include "kernels/launch.hpp"

namespace lockstep::cuda {

/// The most ranks that the kernel takes.
inline constexpr int kMostPeers = 16;
/// What one store carries of a rank's data, beside as many bytes of flags.
inline constexpr std::int64_t kPackBytes = 8;
/// A pack with its flags.
inline constexpr std::int64_t kSlotBytes = 2 * kPackBytes;
/// The most threads of a launch, in blocks of 256. A power of two.
inline constexpr std::int64_t kMostPeerThreads = 32 * 256;

/// Begins a rank's inbox, in the rank's memory.
struct PeerControl {
  unsigned num_calls;        ///< That the rank has completed, modulo 2^32.
  unsigned num_blocks_done;  ///< Of the call under way.
};

/// One rank's part of an all_reduce between GPUs that reach each other's memory.
struct PeerAllReduce {
  int rank;
  int num_ranks;
  /// Every rank combines a part and sends the result to the others; else every rank combines all.
  bool in_two_shots;
  ReduceOp op;
  std::int64_t count;  ///< Elements, above 0; in two shots at least a pack for each rank.
  const void* input;   ///< May be anywhere in the rank's memory,
  void* output;        ///< and so may this; exactly the input, or apart from it. Null: the rank only sends.
  /// Packs that a sender has room for: those of an input; in two shots, those of a part in each half. A
  /// multiple of 2 * kMostPeerThreads.
  std::int64_t capacity;
  PeerControl* control;             ///< The rank's.
  void* slots[kMostPeers];          ///< Of each rank's inbox: [2][num_ranks][capacity], zero at first.
  const volatile unsigned* aborts;  ///< In memory of the host. Not 0: nobody waits any more.
};

/// The number of threads that suits a call.
std::int64_t peer_threads(std::int64_t num_packs, int num_ranks, bool in_two_shots);

/// Loads the kernel, which may wait for all work of the GPU: no call may do so between the parts of its
/// ranks.
void load_peer_all_reduce(const Place& place, DType dtype);

/// Enqueues the part of `part.rank`. The parts of all ranks must be enqueued, and none waits for another in
/// its own stream: they run at the same time and wait for each other. Each rank's parts follow each other in
/// one order.
///
/// A rank stores its data directly into the others' inboxes, beside flags with the call's number, and waits
/// for the flags of what it reads, so that nothing else has to be ordered (the "LL" protocol of NCCL, and the
/// one- and two-shot all-reduces of vLLM, TensorRT-LLM and MSCCL++). An inbox has two halves, for even and
/// odd calls: who has data of a call knows that its sender has done with the call before. Contributions are
/// combined in rank order, as by combine(), so results have the same bits.
void peer_all_reduce(const Place& place, DType dtype, const PeerAllReduce& part);

}  // namespace lockstep::cuda
