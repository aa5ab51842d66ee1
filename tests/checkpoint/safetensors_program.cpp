#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/lockstep.hpp>

/// For python_safetensors.py, which knows the same values: `write FILE` saves them, `read FILE` restores the
/// file and compares.
namespace {

using namespace lockstep;

constexpr std::string_view kNames[kNumDTypes] = {"F16", "BF16", "F32",  "F64",     "I8",
                                                 "I16", "I32",  "I64",  "U8",      "U16",
                                                 "U32", "U64",  "BOOL", "F8_E4M3", "F8_E5M2"};

std::string key(DType dtype, const Shape& shape) {
  return std::string(kNames[static_cast<std::size_t>(dtype)]) + to_string(shape);
}

/// Bytes that tell dtypes and positions apart.
std::vector<std::uint8_t> pattern(DType dtype, const Shape& shape) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.size()) * size_of(dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(
        dtype == DType::boolean ? i % 2 : 7 * i + 13 + static_cast<std::size_t>(dtype));
  return bytes;
}

/// [0, 1, 1.5, 100] as the dtype has them.
Tensor numbers(DType dtype) {
  return dispatch(dtype, [&]<class T>() {
    return Tensor::from<T>({Scalar(0).as<T>(), Scalar(1).as<T>(), Scalar(1.5).as<T>(), Scalar(100).as<T>()},
                           {4});
  });
}

std::vector<std::pair<std::string, Tensor>> values() {
  std::vector<std::pair<std::string, Tensor>> result;
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    result.emplace_back(std::string(kNames[i]), numbers(dtype));
    for (const Shape& shape : {Shape(), Shape(0), Shape(3, 0), Shape(1), Shape(7), Shape(2, 3, 5)}) {
      const std::vector<std::uint8_t> bytes = pattern(dtype, shape);
      result.emplace_back(
          key(dtype, shape),
          Tensor::view(static_cast<const void*>(bytes.data()), shape, dtype, Device()).clone());
    }
  }
  return result;
}

int run(std::string_view command, const char* path) {
  const auto expected = values();
  Checkpoint checkpoint;
  NamedVariables variables;
  for (const auto& [name, value] : expected) {
    variables.emplace_back(name,
                           Variable(command == "read" ? Tensor::zeros(value.shape(), value.dtype()) : value));
    checkpoint.add(name, variables.back().second);
  }
  if (command == "write") {
    checkpoint.save(path);
    return 0;
  }
  checkpoint.restore(path);
  int num_wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Tensor value = variables[i].second.value();
    const Tensor& wanted = expected[i].second;
    if (value.size() == 0 ||
        std::memcmp(value.view().data, wanted.view().data, static_cast<std::size_t>(wanted.nbytes())) == 0)
      continue;
    std::cerr << expected[i].first << ": other values\n";
    ++num_wrong;
  }
  return num_wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc == 3 ? argv[1] : "";
  if (command != "write" && command != "read") {
    std::cerr << "usage: " << argv[0] << " write|read FILE\n";
    return 2;
  }
  try {
    return run(command, argv[2]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
