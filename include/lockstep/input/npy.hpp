#pragma once

#include <filesystem>

#include <lockstep/tensor.hpp>

namespace lockstep {

/// Reads NumPy's .npy format, versions 1.0 to 3.0, into a tensor on the host: either byte order, C or Fortran
/// order (the tensor is row-major), elements f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1. Bytes after the array are
/// ignored, as NumPy does.
///
/// A file's header is not trusted: nothing larger than the file is allocated.
/// @throws NotFound  the file cannot be opened.
/// @throws InvalidArgument  not such a file: path, position (bytes from the start) and reason.
Tensor load_npy(const std::filesystem::path& path);

}  // namespace lockstep
