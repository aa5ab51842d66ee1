#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/input/dataset.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// The paths that match a pattern, or any of several, as u8 tensors of rank 1; `readers::text` turns them
/// into strings. `*` and `?` stand for any characters but '/', `[a-z]` for one of a set, and a backslash
/// takes the meaning from the next character. The folders are read once, when this is called.
///
/// Each path comes once, in ascending order of bytes; with `shuffle` in random order, another one in each
/// pass, which depends on `seed` as that of Dataset::shuffle does. Input pipelines that share out files
/// (AutoShardPolicy::file) have disjoint paths in either case, and `interleave` over the paths keeps that:
///
///     auto records = ls::list_files("train/*.tfrecord").interleave([](const ls::Tensor& path) {
///       return ls::Dataset::from_files({ls::readers::text(path)}, ls::readers::tf_record());
///     }, /*cycle_length=*/4);
///
/// @throws InvalidArgument  nothing matches.
[[nodiscard]] TypedDataset<Tensor> list_files(const std::vector<std::string>& patterns, bool shuffle = true,
                                              std::optional<std::uint64_t> seed = {});
[[nodiscard]] TypedDataset<Tensor> list_files(const std::string& pattern, bool shuffle = true,
                                              std::optional<std::uint64_t> seed = {});

/// The bytes of a file, as a u8 tensor of rank 1 on the host.
/// @throws NotFound  the file cannot be opened. @throws InvalidArgument  it is not a regular file, or cannot
/// be read.
[[nodiscard]] Tensor read_file(const std::filesystem::path& path);

}  // namespace lockstep

#pragma GCC visibility pop
