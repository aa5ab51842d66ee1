#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/dtype.hpp>
#include <lockstep/shape.hpp>

#include "detail/in_quotes.hpp"

/// The header of the safetensors format (https://github.com/huggingface/safetensors, "Format"): a JSON object
/// that gives each tensor's key its dtype, its shape, and where its bytes begin and end, counted from the
/// first byte after the header. The bytes follow each other without holes, little-endian and row-major.
namespace lockstep::detail {

/// The key of the metadata, strings by name, which are skipped.
inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";

/// The longest header that the reference implementation reads, in bytes.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct SafetensorsEntry {
  std::string key;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  /// The reason why no Tensor can hold the entry, as an unknown dtype; `dtype` and `shape` mean nothing then.
  /// Empty: a Tensor can hold it.
  std::string unsupported{};
};

/// Entries by key.
using SafetensorsEntries = std::map<std::string, SafetensorsEntry>;

/// A fault of a safetensors file, without the file's name: SafetensorsFile turns it into an Error.
struct SafetensorsFault {
  std::string key;  ///< The entry at fault; empty: the file as a whole.
  std::string reason;
};

/// "F32", "BF16", "F8_E4M3", "BOOL", …
std::string_view safetensors_name(DType dtype);
std::optional<DType> parse_safetensors_name(std::string_view name);

/// The bytes that the entry's shape and dtype need.
std::uint64_t num_bytes(const SafetensorsEntry& entry);

/// @throws InvalidArgument  the key cannot be one: it is empty, "__metadata__", or not UTF-8; names `what`.
void check_safetensors_key(std::string_view key, std::string_view what);

/// A header for these entries in this order, padded with spaces so that, after the 8 bytes of its length,
/// data begin at a multiple of 8. Sets the entries' `begin` and `end`. @pre their keys have been checked.
std::string make_safetensors_header(std::vector<SafetensorsEntry>& entries);

/// The entries, whose bytes are exactly `data_bytes`. The text is not trusted; entries
/// of dtypes and ranks that the library lacks are among them, as `unsupported` says. Takes memory of a few
/// times the text's length, whatever it says of the data.
/// @throws SafetensorsFault
SafetensorsEntries parse_safetensors_header(std::string_view text, std::uint64_t data_bytes);

}  // namespace lockstep::detail
