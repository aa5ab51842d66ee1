#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <nccl.h>

#include <lockstep/backend/communicator_backend.hpp>
#include <lockstep/communication.hpp>

#include "device/cuda_device.hpp"
#include "device/temporary.hpp"
#include "kernels/multi/multi.hpp"

namespace lockstep::cuda {

/// One reduction of a communicator's ranks.
struct Reduction {
  std::string_view operation;
  const char* native_call;  ///< For messages.
  ReduceOp op;
  double scale;         ///< Of a mean: the power of two that values are multiplied by before they are summed,
  double divisor;       ///< and what the sum is then divided by. Both are 1 for one rank.
  int root = -1;        ///< The only rank that receives; -1: all do.
  int sent_blocks = 1;  ///< Of `count` elements.
};

/// As what values travel in a reduction, and what is done to them before and after.
struct Coding {
  ncclDataType_t type;
  Conversions encode, decode;
};
/// NCCL combines floats in their own type, its minimum drops NaN, and it has no 16-bit integers.
Coding coding_of(const Reduction& reduction, DType dtype);
std::int64_t size_of_native(ncclDataType_t type);

/// One rank's part of a reduction as NCCL is given it: in types in which NCCL keeps the interface's promises,
/// and small arrays of a batch packed into one of each type. Takes no memory from the heap once it has seen a
/// batch as large.
class Wire {
 public:
  /// Larger ones go to NCCL as they are, in the packs' group: to pack them would move more than it saves.
  static constexpr std::int64_t kMostPackedBytes = std::int64_t{4} << 20;
  /// Of all packs of a call: the rest goes as it is.
  static constexpr std::int64_t kMostBytesInPacks = std::int64_t{256} << 20;
  struct Part {
    ncclDataType_t type;
    const void* send;
    void* receive;      ///< Null where the rank only sends.
    std::size_t count;  ///< As the segments'.
  };

  /// Begins a call. @return what its packs take, in bytes: the same on every rank.
  std::int64_t place(const Reduction& reduction, const backend::RankCall& call);
  /// Packs and converts what the rank sends, on its stream. @param call  as before. @param device  the
  /// rank's.
  /// @param packs  memory for the packs; null: the wire takes its own.
  void encode(const backend::RankCall& call, CudaDevice& device, std::byte* packs);
  /// For NCCL: as many on every rank, of equal types and counts.
  std::span<const Part> parts() const { return parts_; }
  /// Converts the result into the caller's arrays, on the rank's stream.
  void decode();
  /// What a rank's encode(), the calls of NCCL and decode() move and launch, in how many parts, and whether
  /// some are packs (in_window), for an all_reduce of a batch without its memory. Other members are not set.
  static CommunicationPlan plan(const Reduction& reduction, std::span<const backend::Segment> batch);
  /// Ends the call, however far it came: its memory is freed in stream order.
  void clear() noexcept;

 private:
  struct Step {
    Conversions conversions;
    Move move;
  };
  /// Where a segment's values are while they travel.
  struct Slot {
    ncclDataType_t type;
    Conversions encode, decode;
    bool is_packed;
    std::int64_t offset_bytes;  ///< In the pack, or in the temporary; below 0: there they are not.
  };
  struct Pack {
    std::int64_t num_members = 0, size_bytes = 0, offset_bytes = 0;  // behind the packs before it
  };

  bool receives(const backend::RankCall& call) const {
    return reduction_.root < 0 || reduction_.root == call.rank;
  }
  void send_packs(bool receives);
  void send(const backend::RankCall& call, const backend::Segment& segment, const Slot& slot);
  static void add(std::vector<Step>& steps, const Conversions& conversions, const Move& move);
  /// Calls `act(conversions, moves)` for the steps of each conversion.
  template <class Act>
  void for_each_conversion(std::vector<Step>& steps, const Act& act);
  void make(std::vector<Step>& steps, double factor);
  /// A place in memory, of which a plan has none.
  static std::byte* at(std::byte* memory, std::int64_t offset_bytes) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(memory) +
                                        static_cast<std::uintptr_t>(offset_bytes));
  }

  CudaDevice* device_ = nullptr;
  backend::StreamHandle stream_{};
  Reduction reduction_{};
  std::int64_t pack_bytes_ = 0, size_bytes_ = 0;  // of all packs, and of what else needs memory
  std::byte* pack_data_ = nullptr;
  std::byte* data_ = nullptr;  // of what else needs memory
  std::vector<Slot> slots_;    // by segment
  std::vector<Pack> packs_;    // by NCCL's type
  Temporary temporary_;
  std::vector<Part> parts_;
  std::vector<Step> encoding_, decoding_;
  std::vector<Move> moves_;  // of one conversion
};

}  // namespace lockstep::cuda
