#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Reads NumPy's .npy format, versions 1.0 to 3.0, into a row-major tensor on the host. The file may have
/// either byte order, C or Fortran order, and elements f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1. Bytes after the
/// array are ignored, as in NumPy.
///
/// The file's header is not trusted: no allocation is larger than the file.
/// @throws NotFound  the file cannot be opened.
/// @throws InvalidArgument  the file is not in this format: path, position (bytes from the start) and reason.
[[nodiscard]] Tensor load_npy(const std::filesystem::path& path);

/// The array of a .npy file as a read-only tensor over the file itself, as numpy.load(path, mmap_mode="r")
/// gives it: bytes are read when they are used, so that the file may be larger than the memory.
/// `Dataset::from_tensor_slices(map_npy(path))` has the file's rows; to shuffle and shard them moves numbers
/// only. The file is open as long as a tensor sees it. Do not shorten it in that time: the system ends
/// programs that read what is no longer there (SIGBUS).
/// @throws NotFound  the file cannot be opened.
/// @throws InvalidArgument  as load_npy; elements have the other byte order, are booleans or not aligned, or
/// the array is in Fortran order: load_npy reads these.
[[nodiscard]] Tensor map_npy(const std::filesystem::path& path);

/// Reads the arrays of a .npz file, as numpy.savez and numpy.savez_compressed write it: a zip archive with
/// stored or deflated members, which may use zip64; checksums are verified. Arrays have the names that
/// numpy.load gives them, without ".npy".
///
/// No part of the file is trusted: an allocation is at most as large as its compressed bytes can inflate to,
/// which is 1032 times their size, and overlapping members are refused.
/// @param names  the arrays to read; an empty list: all.
/// @throws NotFound  the file cannot be opened, or has no array of such a name.
/// @throws InvalidArgument  the file is not in this format: path, array, position and reason.
[[nodiscard]] std::map<std::string, Tensor> load_npz(const std::filesystem::path& path,
                                                     const std::vector<std::string>& names = {});

}  // namespace lockstep

#pragma GCC visibility pop
