#include <charconv>
#include <system_error>

#include <lockstep/input/detail/saved_structure.hpp>

namespace lockstep::detail {

std::string StructureLoader::load_text() {
  is_good_ = is_good_ && next_ < saved_.size();
  return is_good_ ? saved_[next_++] : std::string();
}

std::uint64_t StructureLoader::load_length() {
  const std::string text = load_text();
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  is_good_ = is_good_ && error == std::errc() && end == text.data() + text.size() && length <= num_left_;
  if (!is_good_) return 0;
  num_left_ -= length;
  return length;
}

}  // namespace lockstep::detail
