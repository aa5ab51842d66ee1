#include "checkpoint/safetensors_header.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, kNumDTypes> kNames = {"F16", "BF16", "F32",  "F64",     "I8",
                                                             "I16", "I32",  "I64",  "U8",      "U16",
                                                             "U32", "U64",  "BOOL", "F8_E4M3", "F8_E5M2"};
static_assert(!kNames.back().empty());

/// The key as JSON. @throws Json::type_error  it is not UTF-8.
std::string json_string(std::string_view key) { return Json(key).dump(); }

}  // namespace

std::optional<DType> parse_safetensors_name(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<DType>(found - kNames.begin());
}

std::uint64_t num_bytes(const SafetensorsEntry& entry) {
  return static_cast<std::uint64_t>(entry.shape.size()) * size_of(entry.dtype);
}

std::string_view safetensors_name(DType dtype) { return kNames[static_cast<std::size_t>(dtype)]; }

void check_safetensors_key(std::string_view key, std::string_view what) {
  LOCKSTEP_EXPECTS(!key.empty(), InvalidArgument, what,
                   ": a key is empty. Give every variable a name of its own.");
  LOCKSTEP_EXPECTS(key != kSafetensorsMetadata, InvalidArgument, what,
                   ": the key '__metadata__' is the format's own. Use another one.");
  try {
    json_string(key);
  } catch (const Json::type_error&) {
    std::string ascii(key);
    std::replace_if(
        ascii.begin(), ascii.end(), [](char c) { return c < ' '; }, '?');
    raise<InvalidArgument>({__FILE__, __LINE__, __func__},
                           concat(what, ": the key ", in_quotes(ascii),
                                  " is not UTF-8, as the format wants it. Use another one."));
  }
}

std::string make_safetensors_header(std::vector<SafetensorsEntry>& entries) {
  std::uint64_t next = 0;
  std::string header = "{";
  // std::to_string, as streams follow the global locale.
  for (SafetensorsEntry& entry : entries) {
    entry.begin = next;
    entry.end = next += num_bytes(entry);
    if (header.size() > 1) header += ',';
    header += json_string(entry.key);
    header.append(R"(:{"dtype":")").append(safetensors_name(entry.dtype)).append(R"(","shape":[)");
    const char* separator = "";
    for (const std::int64_t extent : entry.shape) {
      header.append(separator).append(std::to_string(extent));
      separator = ",";
    }
    header.append(R"(],"data_offsets":[)").append(std::to_string(entry.begin)).append(",");
    header.append(std::to_string(entry.end)).append("]}");
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

}  // namespace lockstep::detail
