#include <array>
#include <string_view>

#include <lockstep/input/npy.hpp>
#include <lockstep/input/numpy.hpp>

#include "detail/concat.hpp"
#include "detail/input_file.hpp"
#include "input/formats/byte_source.hpp"

namespace lockstep::detail {
namespace {

/// Whether the file begins as zip archives do.
bool is_archive(const std::filesystem::path& path, std::string_view what) {
  return with_file_faults(what, path, "Pass the path of a .npy or .npz file.", [&] {
    const InputFile file(path, what);
    std::array<char, 2> begin{};
    if (file.size_bytes() >= begin.size()) file.read_at(0, begin.data(), begin.size());
    return begin == std::array{'P', 'K'};
  });
}

}  // namespace

Dataset make_numpy_dataset(const std::filesystem::path& path) {
  const std::string what = concat("make_numpy_dataset of ", path);
  if (!is_archive(path, what)) return Dataset(slices_pipeline({load_npy(path)}, known_type(Tensor()), what));
  const std::map<std::string, Tensor> arrays = load_npz(path);
  return Dataset(slices_pipeline(flatten(arrays), known_type(arrays), what));
}

}  // namespace lockstep::detail
