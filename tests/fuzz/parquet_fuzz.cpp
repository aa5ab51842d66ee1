#include <lockstep/input/parquet.hpp>

#include "fuzz/fuzz_file.hpp"

/// The first byte chooses between rows and batches.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  static const auto rows = lockstep::readers::parquet({.max_record_bytes = 1 << 16});
  static const auto batches = lockstep::readers::parquet({.columns = {"x"}, .batch_size = 2});
  return lockstep::test::fuzz_reader(data + 1, size - 1, data[0] % 2 == 0 ? rows : batches);
}
