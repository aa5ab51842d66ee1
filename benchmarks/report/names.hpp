#pragma once

#include <span>
#include <string_view>

#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#include "options/options.hpp"

namespace lockstep::bench {

/// The names of nccl-tests: "half", "f8e4m3", "int32"; "avg", "prod".
std::string_view bench_name(DType dtype);
std::string_view bench_name(ReduceOp op);
/// "auto", "rank_order", ...
std::string_view bench_name(Algorithm algorithm);

/// The values that "all" stands for, in its order.
std::span<const DType> all_dtypes();
std::span<const ReduceOp> all_ops();
std::span<const Algorithm> all_algorithms();

}  // namespace lockstep::bench
