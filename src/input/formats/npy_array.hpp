#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/tensor.hpp>

#include "input/formats/byte_source.hpp"
#include "input/formats/npy_header.hpp"

namespace lockstep::detail {

/// Reads what comes before an array in NumPy's .npy format. @throws FileFault
NpyHeader read_npy_header(ByteSource& source);
/// Reads an array in NumPy's .npy format as load_npy does, and none of the bytes after it.
/// @throws FileFault
Tensor read_npy(ByteSource& source);

/// Like lockstep::load_npy and load_npz; messages name `what` as the caller.
Tensor load_npy(const std::filesystem::path& path, std::string_view what);
std::map<std::string, Tensor> load_npz(const std::filesystem::path& path,
                                       const std::vector<std::string>& names, std::string_view what);

}  // namespace lockstep::detail
