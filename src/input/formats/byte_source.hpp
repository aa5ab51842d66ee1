#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/error.hpp>
#include <lockstep/input/bad_record.hpp>

#include "detail/expects.hpp"
#include "detail/file_descriptor.hpp"
#include "detail/input_file.hpp"

/// Files of unknown origin, read front to back. Their contents are not trusted.
namespace lockstep::detail {

/// Whether checksums are compared. Fuzzers' builds do not compare them, because their inputs would never
/// match.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
inline constexpr bool kComparesChecksums = false;
#else
inline constexpr bool kComparesChecksums = true;
#endif

/// A sequence of bytes, read front to back.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Reads up to `size_bytes` bytes. @return the number of bytes read. @throws FileFault
  std::size_t read_some(void* data, std::size_t size_bytes) {
    const std::size_t num_read = do_read(static_cast<std::byte*>(data), size_bytes);
    position_ += num_read;
    return num_read;
  }
  /// @throws FileFault  fewer bytes are left than `what` has.
  void read(void* data, std::uint64_t size_bytes, std::string_view what);
  /// Passes over bytes. @throws FileFault  fewer bytes are left than `what` has.
  void skip(std::uint64_t size_bytes, std::string_view what = "what is to be passed over");
  /// @throws FileFault  fewer than size_bytes can be left. Called before memory is allocated for them.
  void check_left(std::uint64_t size_bytes, std::string_view what) const;
  /// @throws FileFault  bytes are left.
  void expect_end(std::string_view what);

  std::uint64_t position() const noexcept { return position_; }
  /// An upper bound of the bytes left: exact for a file; for compressed data the most that the format can
  /// hold.
  virtual std::uint64_t max_left() const noexcept = 0;
  /// As FileFault::part.
  virtual std::string part() const { return {}; }
  /// What ends where the bytes do, for messages.
  virtual std::string_view whole() const { return "the file"; }
  [[noreturn]] void fail(std::uint64_t position, std::string reason) const {
    throw FileFault{position, std::move(reason), part()};
  }
  /// As `fail`, of a record; this source is behind it, where the next one begins.
  [[noreturn]] void fail_record(std::uint64_t position, std::string reason) const {
    throw FileFault{position, std::move(reason), part(), 0, true};
  }

 protected:
  explicit ByteSource(std::uint64_t position = 0) : position_(position) {}
  /// Returns fewer bytes than requested only at the end.
  virtual std::size_t do_read(std::byte* data, std::size_t size_bytes) = 0;
  /// Passes over bytes, as many as are left. @return whether it can without reading them.
  virtual bool do_skip(std::uint64_t) { return false; }

 private:
  std::uint64_t position_;
};

/// The bytes [begin, end) of a file; positions are those of the file.
class FileSource final : public ByteSource {
 public:
  FileSource(InputFileHandle file, std::uint64_t begin, std::uint64_t end)
      : ByteSource(begin), file_(std::move(file)), end_(end) {}
  explicit FileSource(const InputFileHandle& file) : FileSource(file, 0, file->size_bytes()) {}

  std::uint64_t max_left() const noexcept override { return end_ - position(); }

 private:
  std::size_t do_read(std::byte* data, std::size_t size_bytes) override;
  bool do_skip(std::uint64_t size_bytes) override {
    next_ = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), next_ + size_bytes));
    return true;
  }

  InputFileHandle file_;
  std::uint64_t end_;
  static constexpr std::size_t kLeastAheadBytes = 1 << 12;

  std::vector<std::byte> buffer_;  // for small reads
  std::size_t next_ = 0;           // index in buffer_
  /// Of the next buffer: few behind a large read, which goes past the buffer, and else ever more.
  std::size_t ahead_bytes_ = kLeastAheadBytes;
};

/// text += more; the capacity grows in steps, but never beyond `max_bytes`.
/// @pre both fit max_bytes.
void append_within(std::string& text, std::string_view more, std::uint64_t max_bytes);

/// Calls fn() and turns faults into errors: "what: path, byte N: reason. remedy".
/// @throws InvalidArgument; readers::BadRecord  the fault is of a record.
template <class F>
decltype(auto) with_file_faults(std::string_view what, const std::filesystem::path& path,
                                std::string_view remedy, F&& fn) {
  try {
    return fn();
  } catch (const FileFault& fault) {
    const std::string message =
        concat(what, ": ", path, ", byte ", fault.position, fault.part, ": ", fault.reason, ". ", remedy);
    if (fault.is_of_record) raise<readers::BadRecord>({__FILE__, __LINE__, __func__}, message);
    raise<InvalidArgument>({__FILE__, __LINE__, __func__}, message);
  }
}

}  // namespace lockstep::detail
