#include "report/names.hpp"

#include <array>

namespace lockstep::bench {

std::string_view bench_name(DType dtype) {
  switch (dtype) {
    case DType::f16: return "half";
    case DType::f32: return "float";
    case DType::f64: return "double";
    case DType::f8e4m3: return "f8e4m3";
    case DType::f8e5m2: return "f8e5m2";
    default: return name(dtype);
  }
}

std::string_view bench_name(ReduceOp op) {
  switch (op) {
    case ReduceOp::product: return "prod";
    case ReduceOp::mean: return "avg";
    default: return name(op);
  }
}

std::string_view bench_name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::automatic: return "auto";
    case Algorithm::rank_order: return "rank_order";
    case Algorithm::one_device: return "one_device";
    case Algorithm::hierarchical: return "hierarchical";
    case Algorithm::packed: return "packed";
  }
  return "";
}

std::span<const DType> all_dtypes() {
  static constexpr std::array kAll{DType::i8,  DType::u8,   DType::i32,    DType::u32,
                                   DType::i64, DType::u64,  DType::f16,    DType::f32,
                                   DType::f64, DType::bf16, DType::f8e4m3, DType::f8e5m2};
  return kAll;
}

std::span<const ReduceOp> all_ops() {
  static constexpr std::array kAll{ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min,
                                   ReduceOp::mean};
  return kAll;
}

std::span<const Algorithm> all_algorithms() {
  static constexpr std::array kAll{Algorithm::automatic, Algorithm::rank_order, Algorithm::one_device,
                                   Algorithm::hierarchical, Algorithm::packed};
  return kAll;
}

}  // namespace lockstep::bench
