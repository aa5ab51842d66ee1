#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

#include <lockstep/tensor.hpp>

/// Functions for Dataset::map.
namespace lockstep::test {

using Keyed = std::map<std::string, Tensor>;

/// The element in a map of one key.
inline auto with_key(std::string key) {
  return [key](const Tensor& x) { return Keyed{{key, x}}; };
}

/// The element itself; throws at one value.
inline auto fails_at(std::int64_t value) {
  return [value](const Tensor& x) {
    if (x.item<std::int64_t>() == value) throw std::runtime_error("bad");
    return x;
  };
}

}  // namespace lockstep::test
