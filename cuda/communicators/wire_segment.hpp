#pragma once

#include <string_view>

#include <nccl.h>

#include <lockstep/backend/communicator_backend.hpp>

#include "device/cuda_device.hpp"
#include "device/temporary.hpp"

namespace lockstep::cuda {

/// One reduction of a communicator's ranks.
struct Reduction {
  std::string_view operation;
  const char* native_call;  ///< For messages.
  ReduceOp op;
  int root = -1;        ///< The only rank that receives; -1: all do.
  int sent_blocks = 1;  ///< Of `count` elements.
};

/// In which type a reduction travels, and what is done to its elements besides.
struct WireFormat {
  DType dtype = DType::f32;
  bool converts = false;    ///< From the caller's dtype, and back.
  bool is_ordered = false;  ///< Floats are encoded as integers, and back.

  /// Kernels beside NCCL's call, for buffers that are aligned to their dtype. @param divides  a mean's
  /// result.
  int num_kernels(bool divides) const {
    return 2 * (converts ? 1 : 0) + 2 * (is_ordered ? 1 : 0) + (divides ? 1 : 0);
  }
};
WireFormat wire_format(ReduceOp op, DType dtype);

/// One segment of a reduction as NCCL is given it, in a type in which NCCL keeps the interface's promises.
struct WireSegment {
  DType dtype = DType::f32;
  ncclDataType_t type = ncclFloat32;  ///< What NCCL is told.
  bool is_ordered = false;            ///< Floats are encoded as integers.
  const void* send = nullptr;
  void* receive = nullptr;  ///< Null where the rank only sends.
  Temporary temporary;      ///< Holds both, where the caller's buffers cannot.
};

/// Converts what a rank sends, on its stream. @param device  the rank's.
WireSegment encode(const Reduction& reduction, const backend::RankCall& call, const backend::Segment& segment,
                   CudaDevice& device);

/// Converts the result into the caller's buffer, on the rank's stream.
/// @param divisor  what a mean's scaled sum is to be divided by.
void decode(const Reduction& reduction, const backend::RankCall& call, const backend::Segment& segment,
            const WireSegment& wire, double divisor, CudaDevice& device);

}  // namespace lockstep::cuda
