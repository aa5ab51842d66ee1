#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "detail/expects.hpp"
#include "input/formats/absent_format.hpp"

#ifdef LOCKSTEP_HAS_ARCHIVE

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "detail/in_quotes.hpp"
#include "input/formats/byte_source.hpp"
#include "input/formats/readers/file_elements.hpp"
#include "input/formats/readers/tar_members.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::readers {
namespace {

using Parts = std::map<std::string, Tensor>;

constexpr std::string_view kWhat = "readers::tar";
constexpr std::string_view kRemedy = "Pass a tar archive, plain or compressed by gzip, bzip2, xz or zstd.";
constexpr std::string_view kKey = "__key__";

Tensor bytes_tensor(const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  return Tensor::from(std::span(bytes, text.size()), Shape(text.size()), detail::input_device());
}

/// The samples of an archive: members of one key that follow each other.
class TarSamples {
 public:
  TarSamples(const std::filesystem::path& path, const TarOptions& options)
      : members_(path, kWhat), options_(options) {}

  std::optional<Parts> next() {
    ++num_calls_;
    if (!find_member()) {
      if (next_fault_) throw *std::exchange(next_fault_, std::nullopt);
      return std::nullopt;
    }
    const std::uint64_t begin = member_->position, index = index_++;
    begin_ = begin;
    num_calls_ = 1;
    const std::string key = member_->key;
    Parts parts{{std::string(kKey), bytes_tensor(key)}};
    fault_.clear();
    left_bytes_ = static_cast<std::uint64_t>(options_.max_record_bytes);
    left_name_bytes_ = kMaxNameBytes;
    do {
      add(*std::exchange(member_, std::nullopt), parts);
    } while (find_member() && member_->key == key);
    for (const std::string& extension : options_.extensions)
      if (!parts.contains(extension)) note(detail::concat("it has no part ", detail::in_quotes(extension)));
    if (!fault_.empty())
      members_.fail(begin, detail::concat("sample ", index, ", ", detail::in_quotes(key), ": ", fault_),
                    true);
    return parts;
  }

  /// Where the last sample begins, how many there were before it, and how often it and what comes after it
  /// were asked for: a fault behind the last sample is thrown once.
  Position position() const { return {begin_, index_ == 0 ? 0 : index_ - 1, num_calls_}; }
  /// Goes to the last sample, and reads it again.
  void seek(const Position& position) {
    constexpr std::uint64_t kMostCalls = 3;  // for the sample, the fault, and the end
    if (position.size() != 3) detail::fail_position(0);
    if (position[2] == 0) return;
    if (position[0] > 0) members_.seek(position[0]);
    index_ = position[1];
    for (std::uint64_t call = 0; call < std::min(position[2], kMostCalls); ++call) {
      try {
        next();
      } catch (const detail::FileFault&) {  // was thrown before the state was saved
      }
    }
  }

 private:
  /// The first fault of a sample is the one to be reported.
  void note(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
  }

  /// Makes member_ the next member, unless it is one that has not been taken. @return false at the end, or at
  /// a fault behind the last sample.
  bool find_member() {
    if (member_ || next_fault_) return member_.has_value();
    try {
      member_ = members_.next();
    } catch (const detail::FileFault& fault) {
      next_fault_ = fault;
    }
    return member_.has_value();
  }

  void add(const detail::TarMember& member, Parts& parts) {
    const auto& wanted = options_.extensions;
    if (member.is_after_damage) note("a header in it or before it is damaged");
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), member.extension) == wanted.end()) return;
    if (parts.contains(member.extension))
      return note(detail::concat("it has two parts ", detail::in_quotes(member.extension)));
    if (member.size_bytes > left_bytes_)
      return note(detail::concat("it has more than max_record_bytes, ", options_.max_record_bytes));
    const std::uint64_t name_bytes = member.extension.size() + kHeaderBytes;
    if (name_bytes > left_name_bytes_)
      return note("it has more parts, or longer names, than a sample may have");
    if (!fault_.empty()) return;
    left_bytes_ -= member.size_bytes;
    left_name_bytes_ -= name_bytes;
    Tensor part = Tensor::empty(Shape(member.size_bytes), DType::u8, detail::input_device());
    if (member.size_bytes > 0) members_.read(member, part.data());
    parts.emplace(member.extension, std::move(part));
  }

  detail::TarMembers members_;
  TarOptions options_;
  std::optional<detail::TarMember> member_;                // the next one, if it is known
  std::optional<detail::FileFault> next_fault_;            // behind the last member
  std::string fault_;                                      // of the sample
  static constexpr std::uint64_t kHeaderBytes = 512;       // of a member
  static constexpr std::uint64_t kMaxNameBytes = 1 << 22;  // with the headers, some 8000 members
  std::uint64_t left_name_bytes_ = 0;                      // that the sample may still have
  std::uint64_t left_bytes_ = 0;                           // that the sample may still have
  std::uint64_t index_ = 0;                                // of the next sample
  std::uint64_t begin_ = 0;                                // of the last sample
  std::uint64_t num_calls_ = 0;                            // of next, from that for the last sample on
};

}  // namespace

Reader<Parts> tar(TarOptions options) {
  LOCKSTEP_EXPECTS(options.max_record_bytes >= 0, InvalidArgument, kWhat, ": max_record_bytes is ",
                   options.max_record_bytes, ". Pass 0 or more.");
  return [options = std::move(options)](const std::filesystem::path& path) -> Elements<Parts> {
    return detail::FileElements(kWhat, path, kRemedy,
                                [&] { return std::make_shared<TarSamples>(path, options); });
  };
}

}  // namespace lockstep::readers

#else

namespace lockstep::readers {

Reader<std::map<std::string, Tensor>> tar(TarOptions) {
  detail::raise_absent_format("readers::tar", "libarchive", "libarchive-dev");
}

}  // namespace lockstep::readers

#endif
