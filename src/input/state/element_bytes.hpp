#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/input/detail/pipeline.hpp>
#include <lockstep/input/tensor_spec.hpp>

#include "input/formats/byte_source.hpp"

/// Elements as bytes, in cache files and in the states of iterators, little-endian: the number of tensors,
/// 4 bytes; for each the dtype and the rank, a byte each, and the extents, 8 bytes each; and the tensors' own
/// bytes.
namespace lockstep::detail {

/// Numbers as they lie in memory, which is little-endian.
template <class T>
void append_number(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class T>
T read_number(ByteSource& source, std::string_view what) {
  std::array<std::uint8_t, sizeof(T)> bytes;
  source.read(bytes.data(), bytes.size(), what);
  return std::bit_cast<T>(bytes);
}

/// Bytes in memory, which outlive this.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t max_left() const noexcept override { return bytes_.size() - position(); }
  std::string_view whole() const override { return "the state"; }

 private:
  std::size_t do_read(std::byte* data, std::size_t size_bytes) override {
    const std::string_view part = bytes_.substr(static_cast<std::size_t>(position()), size_bytes);
    if (!part.empty()) std::memcpy(data, part.data(), part.size());
    return part.size();
  }

  std::string_view bytes_;
};

/// Appends everything but the tensors' own bytes.
void append_element_head(std::string& bytes, const FlatElement& element);

/// Reads an element without trusting it: no tensor is allocated that the source cannot have.
/// @param num_leaves  the number of tensors that it must have; empty: any. @param spec  what each must match;
/// empty: anything. @throws FileFault
FlatElement read_element(ByteSource& source, std::optional<std::size_t> num_leaves = {},
                         std::span<const TensorSpec> spec = {});

}  // namespace lockstep::detail
