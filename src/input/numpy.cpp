#include <fstream>

#include <lockstep/input/npy.hpp>
#include <lockstep/input/numpy.hpp>

#include "detail/concat.hpp"

namespace lockstep::detail {
namespace {

/// Whether the file begins as zip archives do. False if it cannot be read.
bool is_archive(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  return file.get() == 'P' && file.get() == 'K';
}

}  // namespace

Dataset make_numpy_dataset(const std::filesystem::path& path) {
  const std::string what = concat("make_numpy_dataset of ", path);
  if (!is_archive(path)) return Dataset(slices_pipeline({load_npy(path)}, known_type(Tensor()), what));
  const std::map<std::string, Tensor> arrays = load_npz(path);
  return Dataset(slices_pipeline(flatten(arrays), known_type(arrays), what));
}

}  // namespace lockstep::detail
