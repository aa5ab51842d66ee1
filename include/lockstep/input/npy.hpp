#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Reads NumPy's .npy format, versions 1.0 to 3.0, into a tensor on the host: either byte order, C or Fortran
/// order (the tensor is row-major), elements f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1. Bytes after the array are
/// ignored, as NumPy does.
///
/// A file's header is not trusted: nothing larger than the file is allocated.
/// @throws NotFound  the file cannot be opened.
/// @throws InvalidArgument  not such a file: path, position (bytes from the start) and reason.
[[nodiscard]] Tensor load_npy(const std::filesystem::path& path);

/// Reads the arrays of a .npz file, as numpy.savez and numpy.savez_compressed write it: a zip archive,
/// members stored or deflated, zip64 included, their checksums compared. Arrays have the names that
/// numpy.load gives them, without ".npy".
///
/// No part of the file is trusted: what is allocated is at most what its compressed bytes can inflate to,
/// 1032 times as many, and members that overlap are refused.
/// @param names  the arrays to read; none: all.
/// @throws NotFound  the file cannot be opened, or has no array of such a name.
/// @throws InvalidArgument  not such a file: path, array, position and reason.
[[nodiscard]] std::map<std::string, Tensor> load_npz(const std::filesystem::path& path,
                                                     const std::vector<std::string>& names = {});

}  // namespace lockstep

#pragma GCC visibility pop
