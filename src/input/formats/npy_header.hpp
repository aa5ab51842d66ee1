#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <lockstep/dtype.hpp>

#include "input/formats/byte_source.hpp"

namespace lockstep::detail {

/// The array that a .npy file describes.
struct NpyHeader {
  DType dtype = DType::f32;
  bool is_swapped = false;  ///< Whether elements have the opposite byte order of this machine.
  bool fortran_order = false;
  std::vector<std::int64_t> extents;
};

/// Parses the header's text, a Python dictionary such as {'descr': '<f4', 'fortran_order': False, 'shape':
/// (3, 4), }.
/// @param position  the text's position in the file, for faults.
/// @throws FileFault
NpyHeader parse_npy_header(std::string_view text, std::uint64_t position);

}  // namespace lockstep::detail
