#pragma once

#include <string_view>

namespace lockstep::test {

/// The most that an operation may do.
struct Limits {
  std::string_view operation;
  double sectors;   ///< Those that it loads and stores, over those that its operands lie in.
  double accesses;  ///< Warps' loads and stores, over those that move the operands' bytes 512 at a time.
  int launches;
};

/// Today's figures, rounded up; above each group stands the goal for sectors. A kernel that does better
/// lowers them. Sectors that a kernel loads again count again, although a cache may have them.
inline constexpr Limits kLimits[] = {
    // combine_kernel, of 4 virtual devices: 1.05, at every size and address.
    {"all_reduce of 65536 float32 + 0 bytes", 1, 1, 1},
    {"all_reduce of 65539 float32 + 0 bytes", 1, 1.01, 1},
    {"all_reduce of 1 float32 + 0 bytes", 1, 128, 1},
    {"all_reduce of 100 float32 + 4 bytes", 1.08, 2.56, 1},
    {"all_reduce of 65536 float32 + 4 bytes", 1, 1.01, 1},
    {"all_reduce of 65536 float32 + 1 bytes", 4.25, 16, 1},
    {"all_reduce of 32768 float64 + 0 bytes", 1, 1, 1},
    {"all_reduce of 32768 float64 + 8 bytes", 1, 1.01, 1},
    {"all_reduce of 131072 bfloat16 + 0 bytes", 1, 1, 1},
    {"all_reduce of 131073 bfloat16 + 2 bytes", 1, 1.01, 1},
    {"all_reduce of 262144 float8_e4m3 + 0 bytes", 1, 1, 1},
    {"all_reduce of 262144 float8_e4m3 + 1 bytes", 1, 1.01, 1},
    // copy_to_all, of 4 virtual devices: 1.05, at every size and address.
    {"broadcast of 65536 float32 + 0 bytes", 1, 1, 1},
    {"broadcast of 65537 float32 + 0 bytes", 1, 1.01, 1},
    {"broadcast of 262145 uint8 + 0 bytes", 1, 1.01, 1},
    {"broadcast of 3 uint8 + 0 bytes", 1, 170.67, 1},
    {"broadcast of 65536 float32 + 4 bytes", 1, 1.01, 1},
    {"broadcast of 262144 uint8 + 1 bytes", 1, 1.01, 1},
    {"all_gather of 16384 float32 + 0 bytes", 1, 1, 1},
    {"all_gather of 16385 float32 + 0 bytes", 1.02, 1.17, 1},
    {"all_gather of 65537 uint8 + 0 bytes", 1.02, 1.17, 1},
    {"all_gather of 16384 float32 + 4 bytes", 1.01, 1.01, 1},
    // Axis reductions: 1.08.
    {"sum of float32 [1, 1048576, 1]", 1.01, 1.04, 2},
    {"sum of float32 [1024, 1024, 1]", 1.01, 1.13, 1},
    {"sum of float32 [256, 1001, 1]", 1.82, 1.92, 1},
    {"sum of float32 [65536, 4, 1]", 1, 1.6, 1},
    {"sum of float32 [65536, 3, 1]", 1.75, 3, 1},
    {"sum of float32 [64, 64, 64]", 1.07, 1.07, 2},
    {"sum of float32 [1, 1024, 1024]", 1.07, 1.07, 2},
    {"sum of float32 [1, 4096, 63]", 1.9, 2.2, 2},
    {"sum of float32 [4096, 64, 3]", 1.02, 1.26, 1},
    {"sum of bfloat16 [256, 1024, 1]", 1.02, 1.25, 1},
    {"sum of bfloat16 [64, 64, 64]", 1.6, 1.42, 2},
    {"sum of uint8 [64, 64, 256]", 2.25, 1.97, 2},
    // Elementwise work: 1.02.
    {"add of 262144 float32 + 0 bytes", 1, 1, 1},
    {"add of 262147 float32 + 0 bytes", 1, 1.01, 1},
    {"add of 262144 float32 + 4 bytes", 1, 1.01, 1},
    {"add of 524288 bfloat16 + 0 bytes", 1, 1, 1},
    {"add of 524288 bfloat16 + 2 bytes", 1, 1.01, 1},
    {"negate of 262144 float32 + 0 bytes", 1, 1, 1},
    {"negate of 262147 float32 + 0 bytes", 1, 1.01, 1},
    {"negate of 262144 float32 + 4 bytes", 1, 1.01, 1},
    {"negate of 524288 bfloat16 + 0 bytes", 1, 1, 1},
    {"negate of 524288 bfloat16 + 2 bytes", 1, 1.01, 1},
    {"divide of 262144 float32 + 0 bytes", 1, 1, 1},
    {"divide of 262147 float32 + 0 bytes", 1, 1.01, 1},
    {"divide of 262144 float32 + 4 bytes", 1, 1.01, 1},
    {"divide of 524288 bfloat16 + 0 bytes", 1, 1, 1},
    {"divide of 524288 bfloat16 + 2 bytes", 1, 1.01, 1},
    {"fill of 262144 float32 + 0 bytes", 1, 1, 1},
    {"fill of 262147 float32 + 0 bytes", 1, 1.01, 1},
    {"fill of 262144 float32 + 4 bytes", 1, 1.01, 1},
    {"fill of 524288 bfloat16 + 0 bytes", 1, 1, 1},
    {"fill of 524288 bfloat16 + 2 bytes", 1, 1.01, 1},
    {"equal of 262144 float32 + 0 bytes", 1, 1.34, 1},
    {"equal of 262147 float32 + 0 bytes", 1, 1.34, 1},
    {"equal of 262144 float32 + 4 bytes", 1.34, 5.34, 1},
    {"equal of 524288 bfloat16 + 0 bytes", 1, 1.2, 1},
    {"equal of 524288 bfloat16 + 2 bytes", 1.6, 9.6, 1},
    {"add_row of 1024", 1.5, 1.5, 1},
    {"add_row of 1001", 1.73, 6.13, 1},
    // Optimizers: 1.02.
    {"SGD of 65536 float32 + 0 bytes", 1, 1, 1},
    {"SGD of 65539 float32 + 0 bytes", 1.01, 1.01, 1},
    {"SGD of 65536 float32 + 4 bytes", 1.01, 1.01, 1},
    {"SGD of 131072 bfloat16 + 0 bytes", 1, 1, 1},
    {"momentum of 65536 float32 + 0 bytes", 1, 1, 1},
    {"momentum of 65539 float32 + 0 bytes", 1.01, 1.01, 1},
    {"momentum of 65536 float32 + 4 bytes", 1.01, 1.01, 1},
    {"momentum of 131072 bfloat16 + 0 bytes", 1, 1, 1},
    {"Adam of 65536 float32 + 0 bytes", 1, 1, 1},
    {"Adam of 65539 float32 + 0 bytes", 1.01, 1.01, 1},
    {"Adam of 65536 float32 + 4 bytes", 1.01, 1.01, 1},
    {"Adam of 131072 bfloat16 + 0 bytes", 1, 1, 1},
    // argmax and softmax: 1.1.
    {"argmax of the rows of [128, 1024]", 1.01, 4.12, 1},
    {"argmax of the rows of [128, 1001]", 1.26, 4.6, 1},
    {"argmax of the rows of [4096, 10]", 6.84, 3.67, 1},
    {"argmax of the rows of [1, 65536]", 1, 4.01, 1},
    {"argmax of the columns of [1024, 128]", 1, 4, 1},
    {"argmax of the columns of [16384, 10]", 1.6, 12.8, 1},
    {"softmax_cross_entropy of [128, 1024]", 1.03, 4.37, 1},
    {"softmax_cross_entropy of [128, 1001]", 1.25, 4.47, 1},
    {"softmax_cross_entropy of [4096, 10]", 3.48, 44.53, 1},
    // Strided copies and conversions: 1.3.
    {"transpose of float32 to float32", 1, 4, 1},
    {"transpose of bfloat16 to bfloat16", 1, 8, 1},
    {"half of each row of float32 to float32", 1, 4, 1},
    {"half of each row of uint8 to uint8", 1, 16, 1},
    {"every other element of float32 to float32", 1, 4, 1},
    {"convert of float32 to bfloat16", 1, 1.34, 1},
    {"convert of float32 to float8_e4m3", 1, 6.4, 1},
    {"convert of int32 to float32", 1, 4, 1},
    {"convert of uint8 to float32", 1, 6.4, 1},
};

}  // namespace lockstep::test
