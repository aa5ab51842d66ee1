#include "communicators/wire.hpp"

#include <algorithm>
#include <tuple>

#include "kernels/multi/limits.hpp"

namespace lockstep::cuda {
namespace {

constexpr Conversion kNone = Conversion::none;

/// NCCL's type of integers, and of floats that it adds. @pre NCCL has it.
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

constexpr std::int64_t kAlignment = 128;  // of what shares the temporary, so that no cache line is shared
std::int64_t aligned(std::int64_t size_bytes) {
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::int64_t size_of_native(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 4;
  }
}

Coding coding_of(const Reduction& reduction, DType dtype) {
  const bool selects = reduction.op == ReduceOp::min || reduction.op == ReduceOp::max;
  const bool scales = reduction.op == ReduceOp::mean && reduction.scale != 1;
  const bool is_small = dtype == DType::f8e4m3 || dtype == DType::f8e5m2 || dtype == DType::f16;
  if (dtype == DType::i16 || dtype == DType::u16)
    return {ncclInt32, {Conversion::cast, dtype, DType::i32}, {Conversion::cast, DType::i32, dtype}};
  if (selects && is_floating(dtype)) {
    const bool is_double = dtype == DType::f64;
    const DType wide = is_double ? DType::f64 : DType::f32;
    const Conversion ordered =
        reduction.op == ReduceOp::min ? Conversion::to_ordered_for_min : Conversion::to_ordered_for_max;
    return {
        is_double ? ncclInt64 : ncclInt32, {ordered, dtype, wide}, {Conversion::from_ordered, wide, dtype}};
  }
  const bool widens = is_small && (scales || dtype != DType::f16);
  const DType wire = widens ? DType::f32 : dtype;
  const bool divides = scales && reduction.divisor != 1;
  return {native_type(wire),
          {scales || widens ? Conversion::multiply : kNone, dtype, wire},
          {divides || widens ? Conversion::divide : kNone, wire, dtype}};
}

// Which segments are packed depends on what is equal on all ranks. Where an array begins is not.
std::int64_t Wire::place(const Reduction& reduction, const backend::RankCall& call) {
  reduction_ = reduction;
  const bool may_pack = call.segments.size() > 1 && reduction.sent_blocks == 1;
  packs_.assign(ncclNumTypes, {});
  std::int64_t in_packs = 0;
  for (const backend::Segment& segment : call.segments) {
    const auto [type, encode, decode] = coding_of(reduction, segment.dtype);
    Slot& slot = slots_.emplace_back(Slot{type, encode, decode, false, -1});
    const std::int64_t size_bytes = segment.count * size_of_native(type);
    slot.is_packed = may_pack && size_bytes <= kMostPackedBytes && in_packs + size_bytes <= kMostBytesInPacks;
    if (!slot.is_packed) continue;
    in_packs += size_bytes;
    ++packs_[static_cast<std::size_t>(type)].num_members;
  }
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    const backend::Segment& segment = call.segments[s];
    Slot& slot = slots_[s];
    Pack& pack = packs_[static_cast<std::size_t>(slot.type)];
    const std::int64_t size_bytes = segment.count * size_of_native(slot.type);
    slot.is_packed = slot.is_packed && pack.num_members > 1;
    if (slot.is_packed) {
      slot.offset_bytes = pack.size_bytes;
      pack.size_bytes += aligned(size_bytes);
      continue;
    }
    const bool fits = is_aligned(segment.send, segment.dtype) &&
                      (!receives(call) || is_aligned(segment.receive, segment.dtype));
    const bool changes = slot.encode.conversion != kNone;
    const bool fits_in_receive =
        receives(call) && reduction.sent_blocks == 1 &&
        static_cast<std::int64_t>(size_of(segment.dtype)) == size_of_native(slot.type);
    if (fits && (!changes || fits_in_receive)) continue;
    slot.offset_bytes = size_bytes_;
    size_bytes_ += aligned(size_bytes * reduction.sent_blocks);
  }
  for (Pack& pack : packs_) {
    if (pack.num_members < 2) continue;
    pack.offset_bytes = pack_bytes_;
    pack_bytes_ += pack.size_bytes;
  }
  return pack_bytes_;
}

void Wire::encode(const backend::RankCall& call, CudaDevice& device, std::byte* packs) {
  device_ = &device;
  stream_ = call.stream;
  const std::int64_t own_packs = packs == nullptr ? pack_bytes_ : 0;
  if (own_packs + size_bytes_ > 0)
    temporary_ = Temporary(device.kernels().place_on(stream_), own_packs + size_bytes_);
  data_ = static_cast<std::byte*>(temporary_.data()) + own_packs;
  pack_data_ = packs == nullptr ? data_ - own_packs : packs;
  send_packs(receives(call));
  for (std::size_t s = 0; s < slots_.size(); ++s) send(call, call.segments[s], slots_[s]);
  make(encoding_, reduction_.op == ReduceOp::mean ? reduction_.scale : 1);
}

void Wire::send_packs(bool receives) {
  for (std::size_t type = 0; type < packs_.size(); ++type) {
    const Pack& pack = packs_[type];
    if (pack.num_members < 2) continue;
    const auto native = static_cast<ncclDataType_t>(type);
    void* const data = at(pack_data_, pack.offset_bytes);
    parts_.push_back({native, data, receives ? data : nullptr,
                      static_cast<std::size_t>(pack.size_bytes / size_of_native(native))});
  }
}

void Wire::send(const backend::RankCall& call, const backend::Segment& segment, const Slot& slot) {
  const bool is_receiver = receives(call);
  const std::int64_t num_sent = segment.count * reduction_.sent_blocks;
  const auto count = static_cast<std::size_t>(segment.count);
  if (slot.offset_bytes < 0) {
    void* const receive = is_receiver ? segment.receive : nullptr;
    const bool changes = slot.encode.conversion != kNone;
    parts_.push_back({slot.type, changes ? receive : segment.send, receive, count});
    if (!changes) return;
    add(encoding_, slot.encode, {segment.send, receive, num_sent});
    if (slot.decode.conversion != kNone) add(decoding_, slot.decode, {receive, receive, segment.count});
    return;
  }
  std::byte* const data =
      slot.is_packed
          ? at(pack_data_, packs_[static_cast<std::size_t>(slot.type)].offset_bytes + slot.offset_bytes)
          : at(data_, slot.offset_bytes);
  // NCCL reduces in place into the rank's own block of what it sends.
  const std::int64_t own_block = reduction_.sent_blocks == 1 ? 0 : call.rank * segment.count;
  std::byte* const result = data + own_block * size_of_native(slot.type);
  if (!slot.is_packed) parts_.push_back({slot.type, data, is_receiver ? result : nullptr, count});
  add(encoding_, slot.encode, {segment.send, data, num_sent});
  if (is_receiver) add(decoding_, slot.decode, {result, segment.receive, segment.count});
}

// Copies of all types are one conversion, of bytes.
void Wire::add(std::vector<Step>& steps, const Conversions& conversions, const Move& move) {
  const auto& [conversion, from, to] = conversions;
  if (conversion != kNone) return steps.push_back({conversions, move});
  const auto size = static_cast<std::int64_t>(size_of(from));
  steps.push_back({{kNone, DType::u8, DType::u8}, {move.from, move.to, move.count * size}});
}

template <class Act>
void Wire::for_each_conversion(std::vector<Step>& steps, const Act& act) {
  const auto key = [](const Step& step) {
    return std::tuple(step.conversions.conversion, step.conversions.from, step.conversions.to);
  };
  std::ranges::sort(steps, {}, key);
  for (auto begin = steps.begin(); begin != steps.end();) {
    const auto end = std::find_if(begin, steps.end(),
                                  [&](const Step& step) { return step.conversions != begin->conversions; });
    moves_.clear();
    std::transform(begin, end, std::back_inserter(moves_), [](const Step& step) { return step.move; });
    act(begin->conversions, moves_);
    begin = end;
  }
}

void Wire::make(std::vector<Step>& steps, double factor) {
  const Place place = device_->kernels().place_on(stream_);
  for_each_conversion(steps, [&](const Conversions& conversions, std::span<const Move> moves) {
    convert_all(place, conversions, factor, moves);
  });
}

CommunicationPlan Wire::plan(const Reduction& reduction, std::span<const backend::Segment> batch) {
  Wire wire;
  const backend::RankCall call{.rank = 0, .stream = {}, .segments = batch};
  wire.place(reduction, call);
  wire.send_packs(/*receives=*/true);
  for (std::size_t s = 0; s < batch.size(); ++s) wire.send(call, batch[s], wire.slots_[s]);
  CommunicationPlan plan;
  plan.in_window = wire.pack_bytes_ > 0;
  plan.num_packs = plan.num_launches = static_cast<int>(wire.parts_.size());
  for (const Part& part : wire.parts_) {
    const std::int64_t size_bytes = static_cast<std::int64_t>(part.count) * size_of_native(part.type);
    plan.bytes_read += size_bytes;
    plan.bytes_written += size_bytes;
  }
  for (std::vector<Step>* const steps : {&wire.encoding_, &wire.decoding_})
    wire.for_each_conversion(*steps, [&](const Conversions& conversions, std::span<const Move> moves) {
      for (const Move& move : moves) {
        plan.bytes_read += move.count * static_cast<std::int64_t>(size_of(conversions.from));
        plan.bytes_written += move.count * static_cast<std::int64_t>(size_of(conversions.to));
      }
      plan.num_launches += num_tables(moves.size(), 2);
    });
  return plan;
}

void Wire::decode() { make(decoding_, reduction_.op == ReduceOp::mean ? reduction_.divisor : 1); }

void Wire::clear() noexcept {
  pack_bytes_ = size_bytes_ = 0;
  slots_.clear();
  parts_.clear();
  encoding_.clear();
  decoding_.clear();
  temporary_ = Temporary();
}

}  // namespace lockstep::cuda
