#include <lockstep/input/npy.hpp>

#include "input/npy_array.hpp"

namespace lockstep {

Tensor load_npy(const std::filesystem::path& path) {
  constexpr std::string_view kWhat = "load_npy";
  return detail::with_file_faults(kWhat, path, "Pass a .npy file as numpy.save writes it.", [&] {
    detail::FileSource source(std::make_shared<const detail::InputFile>(path, kWhat));
    return detail::read_npy(source);
  });
}

}  // namespace lockstep
