#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/dtype.hpp>
#include <lockstep/shape.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// The dtype and extents of a tensor as far as they are known before it is made; each extent may be unknown.
/// Nothing is known of the results of a function: `TensorSpec::unknown()`.
struct TensorSpec {
  std::vector<std::optional<std::int64_t>> extents;  ///< Outermost first; an empty optional: unknown.
  DType dtype = DType::f32;
  bool is_known = true;  ///< Whether the rank and the dtype are known.

  TensorSpec() = default;
  TensorSpec(std::vector<std::optional<std::int64_t>> known, DType type)
      : extents(std::move(known)), dtype(type) {}
  /// A spec with unknown rank and dtype.
  [[nodiscard]] static TensorSpec unknown() {
    TensorSpec spec;
    spec.is_known = false;
    return spec;
  }
  /// A spec whose extents are all known.
  [[nodiscard]] static TensorSpec of(const Shape& shape, DType dtype) {
    return {{shape.begin(), shape.end()}, dtype};
  }

  [[nodiscard]] int rank() const noexcept { return static_cast<int>(extents.size()); }
  /// Whether the rank and every extent are known.
  [[nodiscard]] bool is_static() const noexcept;
  /// Whether a tensor of this shape and dtype matches the spec.
  [[nodiscard]] bool is_compatible_with(const Shape& shape, DType type) const noexcept;

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// "[?, 28, 28] float32"; "unknown"
[[nodiscard]] std::string to_string(const TensorSpec& spec);
std::ostream& operator<<(std::ostream& out, const TensorSpec& spec);

}  // namespace lockstep

#pragma GCC visibility pop
