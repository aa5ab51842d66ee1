#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include <lockstep/error.hpp>

#include "checkpoint/safetensors_header.hpp"
#include "detail/concat.hpp"

namespace lockstep::detail {
namespace {

using Json = nlohmann::json;

/// Parses the header event by event: only valid entries are kept, and a duplicate key is found, which a
/// parsed object would hide.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  SafetensorsEntries entries() && { return std::move(entries_); }

  bool key(string_t& key) override {
    if (place_ == Place::root) {
      const bool is_new = key == kSafetensorsMetadata ? !std::exchange(has_metadata_, true)
                                                      : entries_.try_emplace(key).second;
      if (!is_new) throw SafetensorsFault{key, "it is there twice"};
      key_ = std::move(key);
    } else {
      if (!fields_.insert(key).second) fail(concat("its field ", in_quotes(key), " is there twice"));
      field_ = std::move(key);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::root;
    } else if (place_ == Place::root) {
      place_ = key_ == kSafetensorsMetadata ? Place::metadata : Place::entry;
      fields_.clear();
      unsupported_.clear();
      extents_.clear();
      offsets_.clear();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) finish_entry();
    place_ = place_ == Place::root ? Place::outside : Place::root;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::entry || (field_ != "shape" && field_ != "data_offsets")) unexpected("a list");
    place_ = field_ == "shape" ? Place::shape : Place::offsets;
    return true;
  }

  bool end_array() override {
    place_ = Place::entry;
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::metadata) return true;
    if (place_ != Place::entry || field_ != "dtype") unexpected(concat("the string ", in_quotes(text)));
    const std::optional<DType> dtype = parse_safetensors_name(text);
    if (!dtype) {
      unsupported_ = concat("its dtype ", in_quotes(text), " is not supported, only");
      for (int i = 0; i < kNumDTypes; ++i)
        unsupported_.append(" ").append(safetensors_name(static_cast<DType>(i)));
    }
    dtype_ = dtype.value_or(DType::f32);
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail(concat("its extent ", std::to_string(value), " does not fit 63 bits"));
      if (extents_.size() < Shape::kMaxRank)
        extents_.push_back(static_cast<std::int64_t>(value));
      else
        unsupported_ = concat("its rank is not supported, at most ", int{Shape::kMaxRank});
    } else if (place_ == Place::offsets) {
      if (offsets_.size() == 2) fail("its data_offsets are not two");
      offsets_.push_back(value);
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool number_integer(number_integer_t value) override {  // called for negative numbers only
    if (place_ == Place::shape) fail(concat("its extent ", std::to_string(value), " is negative"));
    if (place_ == Place::offsets) fail(concat("its offset ", std::to_string(value), " is negative"));
    unexpected("a number");
  }

  bool number_float(number_float_t, const string_t& text) override {
    if (place_ == Place::shape || place_ == Place::offsets)
      fail(concat("its number ", in_quotes(text), " is not an integer of 64 bits"));
    unexpected("a number");
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw SafetensorsFault{"", concat("its header is not JSON at byte ", std::to_string(position), " of it")};
  }

 private:
  enum class Place : std::uint8_t { outside, root, metadata, entry, shape, offsets };

  [[noreturn]] void fail(std::string reason) const { throw SafetensorsFault{key_, std::move(reason)}; }

  [[noreturn]] void unexpected(const std::string& what) const {
    switch (place_) {
      case Place::outside: throw SafetensorsFault{"", concat("its header is ", what, ", not an object")};
      case Place::root: fail(concat("it is ", what, ", not an object"));
      case Place::metadata: fail(concat("its value for ", in_quotes(field_), " is ", what, ", not a string"));
      case Place::entry: break;
      case Place::shape:
      case Place::offsets: fail(concat("its ", field_, " has ", what, " where an integer is due"));
    }
    const bool is_known = field_ == "dtype" || field_ == "shape" || field_ == "data_offsets";
    fail(is_known ? concat("its ", field_, " is ", what)
                  : concat("its field ", in_quotes(field_), " is not one of dtype, shape, data_offsets"));
  }

  void finish_entry() {
    for (const char* const field : {"dtype", "shape", "data_offsets"})
      if (!fields_.contains(field)) fail(concat("its field '", field, "' is missing"));
    if (offsets_.size() != 2) fail("its data_offsets are not two");
    try {
      const Shape shape = unsupported_.empty() ? Shape(extents_) : Shape();
      entries_.at(key_) = {key_, dtype_, shape, offsets_[0], offsets_[1], std::move(unsupported_)};
    } catch (const InvalidArgument& error) {
      fail(error.what());
    }
  }

  Place place_ = Place::outside;
  std::set<std::string, std::less<>> fields_;  // seen in the entry, or in the metadata
  std::string key_;
  std::string field_;
  std::string unsupported_;
  DType dtype_ = DType::f32;
  std::vector<std::int64_t> extents_;
  std::vector<std::uint64_t> offsets_;
  SafetensorsEntries entries_;
  bool has_metadata_ = false;
};

/// @throws SafetensorsFault  the entries' bytes do not follow each other, or do not fill the data.
void check_offsets(const SafetensorsEntries& entries, std::uint64_t data_bytes) {
  std::vector<const SafetensorsEntry*> by_bytes;
  by_bytes.reserve(entries.size());
  for (const auto& [key, entry] : entries) by_bytes.push_back(&entry);
  std::ranges::stable_sort(by_bytes, {},
                           [](const SafetensorsEntry* e) { return std::pair(e->begin, e->end); });
  std::uint64_t next = 0;
  for (const SafetensorsEntry* const at : by_bytes) {
    const SafetensorsEntry& entry = *at;
    const auto fail = [&](std::string reason) { throw SafetensorsFault{entry.key, std::move(reason)}; };
    const std::string offsets =
        concat("its data_offsets [", std::to_string(entry.begin), ", ", std::to_string(entry.end), ")");
    if (entry.end < entry.begin) fail(concat(offsets, " end before they begin"));
    if (entry.end > data_bytes)
      fail(concat(offsets, " exceed the ", std::to_string(data_bytes), " bytes of data that the file has"));
    if (entry.begin != next)
      fail(concat(offsets, entry.begin < next ? " overlap" : " leave a hole after",
                  " the entry before, which ends at ", std::to_string(next)));
    if (entry.unsupported.empty() && entry.end - entry.begin != num_bytes(entry))
      fail(concat(offsets, " are ", std::to_string(entry.end - entry.begin), " bytes, but ", entry.shape, " ",
                  entry.dtype, " has ", std::to_string(num_bytes(entry))));
    next = entry.end;
  }
  if (next != data_bytes)
    throw SafetensorsFault{
        "", concat("it has ", std::to_string(data_bytes - next), " bytes after the data of the last entry")};
}

}  // namespace

SafetensorsEntries parse_safetensors_header(std::string_view text, std::uint64_t data_bytes) {
  if (!text.starts_with('{')) throw SafetensorsFault{"", "its header does not begin with '{'"};
  if (const std::size_t zero = text.find('\0'); zero != text.npos)  // the parser would stop there
    throw SafetensorsFault{"", concat("its header is not JSON at byte ", std::to_string(zero + 1), " of it")};
  HeaderReader reader;
  Json::sax_parse(text, &reader);
  SafetensorsEntries entries = std::move(reader).entries();
  check_offsets(entries, data_bytes);
  return entries;
}

}  // namespace lockstep::detail
