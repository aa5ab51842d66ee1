
#include <lockstep/input/npy.hpp>

#include "input/formats/npy_array.hpp"

namespace lockstep {

Tensor load_npy(const std::filesystem::path& path) { return detail::load_npy(path, "load_npy"); }

Tensor detail::load_npy(const std::filesystem::path& path, std::string_view what) {
  return with_file_faults(what, path, "Pass a .npy file as numpy.save writes it.", [&] {
    FileSource source(std::make_shared<const InputFile>(path, what));
    return read_npy(source);
  });
}

}  // namespace lockstep
