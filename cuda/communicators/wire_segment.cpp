#include "communicators/wire_segment.hpp"

#include <cstddef>
#include <cstdint>

#include "kernels/combine.hpp"

namespace lockstep::cuda {
namespace {

/// The type as which values of `dtype` travel in a reduction.
DType wire_dtype(ReduceOp op, DType dtype) {
  const bool selects = op == ReduceOp::min || op == ReduceOp::max;
  switch (dtype) {
    case DType::f8e4m3:
    case DType::f8e5m2: return DType::f32;
    case DType::f16: return selects || op == ReduceOp::mean ? DType::f32 : DType::f16;
    case DType::bf16: return selects ? DType::f32 : DType::bf16;
    case DType::i16:
    case DType::u16: return DType::i32;
    default: return dtype;
  }
}

/// @pre NCCL has the type.
ncclDataType_t native_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return ncclFloat16;
    case DType::bf16: return ncclBfloat16;
    case DType::f64: return ncclFloat64;
    case DType::i8: return ncclInt8;
    case DType::i32: return ncclInt32;
    case DType::i64: return ncclInt64;
    case DType::u8: return ncclUint8;
    case DType::u32: return ncclUint32;
    case DType::u64: return ncclUint64;
    default: return ncclFloat32;
  }
}

bool is_aligned(const void* data, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0;
}

}  // namespace

WireFormat wire_format(ReduceOp op, DType dtype) {
  const bool selects = op == ReduceOp::min || op == ReduceOp::max;
  const DType wire = wire_dtype(op, dtype);
  return {wire, wire != dtype, selects && is_floating(wire)};
}

WireSegment encode(const Reduction& reduction, const backend::RankCall& call, const backend::Segment& segment,
                   CudaDevice& device) {
  const Place place = device.kernels().place_on(call.stream);
  const bool receives = reduction.root < 0 || reduction.root == call.rank;

  WireSegment wire;
  const WireFormat format = wire_format(reduction.op, segment.dtype);
  wire.dtype = format.dtype;
  wire.is_ordered = format.is_ordered;
  wire.type = native_type(!wire.is_ordered ? wire.dtype : wire.dtype == DType::f64 ? DType::i64 : DType::i32);
  wire.send = segment.send;
  wire.receive = receives ? segment.receive : nullptr;

  const std::int64_t num_sent = segment.count * reduction.sent_blocks;
  const bool fits = !format.converts && is_aligned(segment.send, segment.dtype) &&
                    (!receives || is_aligned(segment.receive, segment.dtype));
  const bool encodes_into_receive = receives && reduction.sent_blocks == 1;
  if (!fits || (wire.is_ordered && !encodes_into_receive)) {
    const auto size = static_cast<std::int64_t>(size_of(wire.dtype));
    wire.temporary = Temporary(place, num_sent * size);
    void* const data = wire.temporary.data();
    if (wire.dtype == segment.dtype) {
      device.copy(data, segment.send, static_cast<std::size_t>(num_sent * size), call.stream);
    } else {
      device.kernels().copy(TensorView(data, {num_sent}, wire.dtype, device.device()),
                            TensorView(segment.send, {num_sent}, segment.dtype, device.device()),
                            call.stream);
    }
    wire.send = data;
    // NCCL reduces in place into the rank's own block of what it sends.
    const std::int64_t own_block = reduction.sent_blocks == 1 ? 0 : call.rank * segment.count * size;
    if (receives) wire.receive = static_cast<std::byte*>(data) + own_block;
  }
  if (wire.is_ordered) {
    void* const integers = wire.temporary.data() != nullptr ? wire.temporary.data() : wire.receive;
    encode_ordered(place, reduction.op, wire.dtype, num_sent, wire.send, integers);
    wire.send = integers;
  }
  return wire;
}

void decode(const Reduction& reduction, const backend::RankCall& call, const backend::Segment& segment,
            const WireSegment& wire, double divisor, CudaDevice& device) {
  if (wire.receive == nullptr) return;
  const TensorView result(wire.receive, {segment.count}, wire.dtype, device.device());
  if (wire.is_ordered) {
    decode_ordered(device.kernels().place_on(call.stream), wire.dtype, segment.count, wire.receive);
  }
  if (reduction.op == ReduceOp::mean && divisor != 1)
    device.kernels().divide(result, result, divisor, call.stream);
  if (wire.temporary.data() == nullptr) return;
  if (wire.dtype == segment.dtype) {
    device.copy(segment.receive, wire.receive, static_cast<std::size_t>(bytes_of(segment)), call.stream);
  } else {
    device.kernels().copy(TensorView(segment.receive, {segment.count}, segment.dtype, device.device()),
                          result, call.stream);
  }
}

}  // namespace lockstep::cuda
