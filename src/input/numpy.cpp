#include <lockstep/detail/concat.hpp>
#include <lockstep/input/npy.hpp>
#include <lockstep/input/numpy.hpp>

namespace lockstep::detail {

Dataset make_numpy_dataset(const std::filesystem::path& path) {
  return Dataset(
      slices_pipeline({load_npy(path)}, known_type(Tensor()), concat("make_numpy_dataset of ", path)));
}

}  // namespace lockstep::detail
