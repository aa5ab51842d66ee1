#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/input/readers.hpp>

#pragma GCC visibility push(default)

namespace lockstep::readers {

/// What of a Parquet file is read.
struct ParquetOptions {
  std::vector<std::string> columns{};  ///< By name, "outer.inner" in a struct; empty: all.
  /// 0: an element is a row, with a scalar for each column. n: it is n rows, with a tensor [n] for each
  /// column, and fewer at the end of a row group; that is many times faster. No column may be text then.
  std::int64_t batch_size = 0;
  std::int64_t max_record_bytes = kMaxRecordBytes;  ///< Of a text. At least 0.
};

/// The rows of Parquet files (Apache Arrow's library), with the columns by name. Numbers and booleans have
/// the file's type; dates and times are the integers that the file has for them; texts and bytes are u8
/// tensors of rank 1, which `text` turns into strings. Lists, decimals, INT96 and 16-bit floats are not read.
///
/// A position is a row group and a row in it: restoring reads nothing of the row groups before, and passes
/// over the rows. Some thousand rows at a time are in memory, besides what Arrow keeps: pages as they are in
/// the file, decompressed. Arrow's checks of the file are all there are.
/// @throws InvalidArgument  options are out of range, or ask for columns twice. @throws Unsupported  lockstep
/// was built without Arrow. From the reader: @throws InvalidArgument  the file is damaged, has no such column
/// or none of such a type, or a value is null: names row group, row and column, and says what to do.
[[nodiscard]] Reader<std::map<std::string, Tensor>> parquet(ParquetOptions options = {});

}  // namespace lockstep::readers

#pragma GCC visibility pop
