#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/input/dataset.hpp>

#include "checkpoint/safetensors_file.hpp"
#include "fuzz/expect.hpp"
#include "fuzz/fuzz_file.hpp"

namespace {

using namespace lockstep;
using test::expect;

std::string bytes_of(const Tensor& tensor) {
  const Tensor own = tensor.clone();
  return {static_cast<const char*>(own.view().data), static_cast<std::size_t>(own.nbytes())};
}

/// A program's variables and iterator.
struct Program {
  Variable w{Tensor::zeros(Shape{2, 2}, DType::f32), {.name = "w"}};
  Variable flags{Tensor::zeros(Shape{3}, DType::boolean), {.name = "flags"}};
  decltype(Dataset::range(9).batch(2).iterator()) numbers = Dataset::range(9).batch(2).iterator();
  Checkpoint checkpoint{{{"w", w}, {"flags", flags}}};

  Program() { checkpoint.add("numbers", numbers); }
  void reset() {
    w.assign(Tensor::zeros(Shape{2, 2}, DType::f32));
    flags.assign(Tensor::zeros(Shape{3}, DType::boolean));
  }
  std::string values() const { return bytes_of(w.value()) + bytes_of(flags.value()); }
};

}  // namespace

/// A checkpoint: it is refused as a whole, or the variables have the file's values. The first byte chooses
/// whether unknown entries are ignored.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  static Program program;
  static const std::string zeros = program.values();
  program.reset();
  bool is_restored = false;
  const int status = test::fuzz_file(data + 1, size - 1, [&](const std::filesystem::path& path) {
    program.checkpoint.restore(path, {.ignore_unknown_entries = (data[0] & 1) != 0});
    is_restored = true;
    const detail::SafetensorsFile file(path, "fuzz");
    expect(program.values() ==
               bytes_of(file.read(file.entries().at("w"))) + bytes_of(file.read(file.entries().at("flags"))),
           "a variable has another value than the file");
    constexpr int kMostElements = 20;
    for (int i = 0; i < kMostElements; ++i) try {
        if (!program.numbers.next_optional()) break;
      } catch (const Error&) {  // a state may say what no pass does
      }
  });
  if (!is_restored) expect(program.values() == zeros, "a refused file has changed a variable");
  return status;
}
