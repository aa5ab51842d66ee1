#include <map>
#include <tuple>

#include <lockstep/input/dataset.hpp>

#include "fuzz/fuzz_file.hpp"

namespace {

using lockstep::Tensor;

/// The elements of a cache of elements like this one.
template <class E>
void read_cache(const std::filesystem::path& path) {
  const auto nothing = lockstep::Dataset::from_generator([] { return [] { return std::optional<E>(); }; });
  auto pass = nothing.cache(path).iterator();
  while (pass.next_optional()) {
  }
}

}  // namespace

/// The first byte chooses the elements' type.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  return lockstep::test::fuzz_file(data + 1, size - 1, [&](const std::filesystem::path& path) {
    if (data[0] % 3 == 0) return read_cache<Tensor>(path);
    if (data[0] % 3 == 1) return read_cache<std::tuple<Tensor, std::optional<Tensor>>>(path);
    read_cache<std::map<std::string, std::vector<Tensor>>>(path);
  });
}
