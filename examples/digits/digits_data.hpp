#pragma once

#include <filesystem>

#include <lockstep/lockstep.hpp>

namespace digits {

namespace ls = lockstep;

inline constexpr int kNumPixels = 64;
inline constexpr int kNumClasses = 10;

/// Images and the digits that they show.
struct Examples {
  ls::Tensor images;  ///< f32 [rows, kNumPixels], from 0 (white) to 1.
  ls::Tensor labels;  ///< i64 [rows], from 0 to 9.

  std::int64_t num_rows() const { return labels.size(); }
};

struct DigitsData {
  Examples training;
  Examples test;
};

/// Reads digits_images.npy and digits_labels.npy from a folder. The last of every five rows is for testing.
/// @throws lockstep::NotFound, lockstep::InvalidArgument  with the file's path and the reason.
DigitsData load_digits(const std::filesystem::path& folder);

}  // namespace digits
