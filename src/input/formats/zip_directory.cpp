#include "input/formats/zip_directory.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <zlib.h>

#include "detail/concat.hpp"
#include "input/formats/byte_order.hpp"
#include "input/formats/compressed/inflate_source.hpp"

namespace lockstep::detail {
namespace {

constexpr std::uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46,
                        kLocalBytes = 30;
constexpr std::uint32_t kInZip64 = 0xffffffff;

using Bytes = std::vector<std::uint8_t>;

Bytes read_bytes(const InputFile& file, std::uint64_t position, std::uint64_t size_bytes) {
  Bytes bytes(static_cast<std::size_t>(size_bytes));
  file.read_at(position, bytes.data(), bytes.size());
  return bytes;
}

std::uint16_t u16(const std::uint8_t* bytes) { return load_little_endian<std::uint16_t>(bytes); }
std::uint32_t u32(const std::uint8_t* bytes) { return load_little_endian<std::uint32_t>(bytes); }
std::uint64_t u64(const std::uint8_t* bytes) { return load_little_endian<std::uint64_t>(bytes); }

/// The position and size of the central directory.
struct Directory {
  std::uint64_t begin, size_bytes, num_entries;
};

/// Padding that may follow an archive: zeros and line ends.
bool is_padding(std::uint8_t byte) { return byte == 0 || byte == '\n' || byte == '\r'; }

/// Finds the end record, which a comment of at most 65535 bytes follows.
std::uint64_t find_end(const InputFile& file) {
  const std::uint64_t size = file.size_bytes();
  if (size < kEndBytes) throw FileFault{0, concat("it has ", size, " bytes, too few for a zip archive")};
  const std::uint64_t searched = std::min<std::uint64_t>(size, kEndBytes + 0xffff);
  const Bytes tail = read_bytes(file, size - searched, searched);
  const auto padding = std::find_if_not(tail.rbegin(), tail.rend(), is_padding);
  const auto used = static_cast<std::size_t>(tail.rend() - padding);
  for (std::size_t at = tail.size() - kEndBytes + 1; at-- > 0;) {
    if (u32(&tail[at]) != 0x06054b50) continue;
    const std::size_t end = at + kEndBytes + u16(&tail[at + 20]);
    if (used <= end && end <= tail.size()) return size - searched + at;
  }
  throw FileFault{
      size, "there is no end of a zip archive's central directory: it is not an archive, or is cut short"};
}

Directory find_directory(const InputFile& file) {
  std::uint64_t end = find_end(file);
  const Bytes record = read_bytes(file, end, kEndBytes);
  if (u16(&record[4]) != 0 || u16(&record[6]) != 0 || u16(&record[8]) != u16(&record[10]))
    throw FileFault{end, "archives of several disks cannot be read"};
  Directory directory{u32(&record[16]), u32(&record[12]), u16(&record[10])};
  if (directory.begin == kInZip64 || directory.size_bytes == kInZip64 || directory.num_entries == 0xffff) {
    if (end < kLocatorBytes + kEnd64Bytes) throw FileFault{end, "the zip64 end of the directory is missing"};
    const std::uint64_t locator_position = end - kLocatorBytes;
    const Bytes locator = read_bytes(file, locator_position, kLocatorBytes);
    const std::uint64_t end64 = u64(&locator[8]);
    if (u32(&locator[0]) != 0x07064b50 || end64 > locator_position - kEnd64Bytes)
      throw FileFault{locator_position, "the zip64 end of the directory is not where it should be"};
    const Bytes record64 = read_bytes(file, end64, kEnd64Bytes);
    if (u32(&record64[0]) != 0x06064b50)
      throw FileFault{end64, "the zip64 end of the directory is not where it should be"};
    end = end64;
    directory = {u64(&record64[48]), u64(&record64[40]), u64(&record64[32])};
  }
  if (directory.begin > end || directory.size_bytes > end - directory.begin)
    throw FileFault{end, concat("the directory is said to have ", directory.size_bytes, " bytes from byte ",
                                directory.begin, ", which are not before its end")};
  if (directory.num_entries > directory.size_bytes / kEntryBytes)
    throw FileFault{end, concat("the directory's ", directory.size_bytes, " bytes are too few for ",
                                directory.num_entries, " members")};
  return directory;
}

/// The zip64 field of a member's extra fields; empty: there is none.
std::span<const std::uint8_t> zip64_field(std::span<const std::uint8_t> extra) {
  while (extra.size() >= 4) {
    const std::size_t size = std::min<std::size_t>(u16(&extra[2]), extra.size() - 4);
    if (u16(&extra[0]) == 1) return extra.subspan(4, size);
    extra = extra.subspan(4 + size);
  }
  return {};
}

/// Takes the next number of the zip64 field if the 32-bit number is a placeholder.
std::uint64_t wide(std::uint32_t narrow, std::span<const std::uint8_t>& field, std::uint64_t position) {
  if (narrow != kInZip64) return narrow;
  if (field.size() < 8) throw FileFault{position, "a member's zip64 sizes are missing"};
  const std::uint64_t value = u64(field.data());
  field = field.subspan(8);
  return value;
}

/// Sets the position of the member's bytes from its own header. @param limit  the beginning of the directory.
void locate(const InputFile& file, ZipMember& member, std::uint64_t local, std::uint64_t compressed_bytes,
            std::uint64_t limit, std::uint64_t entry) {
  if (limit < kLocalBytes || local > limit - kLocalBytes)
    throw FileFault{
        entry, concat("a member is said to begin at byte ", local, ", which is not before the directory")};
  const Bytes header = read_bytes(file, local, kLocalBytes);
  if (u32(&header[0]) != 0x04034b50)
    throw FileFault{local, "no member begins here, though the directory says so"};
  const std::uint64_t name_bytes = u16(&header[26]);
  member.header = local;
  member.begin = local + kLocalBytes + name_bytes + u16(&header[28]);
  if (member.begin > limit || compressed_bytes > limit - member.begin)
    throw FileFault{local, concat("a member's ", compressed_bytes, " bytes are not before the directory")};
  member.end = member.begin + compressed_bytes;
  const Bytes name = read_bytes(file, local + kLocalBytes, name_bytes);
  if (!std::equal(name.begin(), name.end(), member.name.begin(), member.name.end(),
                  [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); }))
    throw FileFault{local, "a member has another name than the directory says"};
  if (u16(&header[8]) != (member.is_deflated ? 8 : 0))
    throw FileFault{local, "a member is compressed in another way than the directory says"};
}

void check_apart(std::vector<ZipMember> members) {
  std::sort(members.begin(), members.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.header < b.header; });
  for (std::size_t i = 1; i < members.size(); ++i)
    if (members[i].header < members[i - 1].end)
      throw FileFault{members[i].header, "a member overlaps the one before it"};
  std::sort(members.begin(), members.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < members.size(); ++i)
    if (members[i].name == members[i - 1].name)
      throw FileFault{members[i].header, "a member has the name of another one"};
}

}  // namespace

std::vector<ZipMember> read_zip_directory(const InputFile& file) {
  const Directory directory = find_directory(file);
  const Bytes bytes = read_bytes(file, directory.begin, directory.size_bytes);
  std::span<const std::uint8_t> left = bytes;
  std::vector<ZipMember> members;
  for (std::uint64_t i = 0; i < directory.num_entries; ++i) {
    const std::uint64_t position = directory.begin + (bytes.size() - left.size());
    if (left.size() < kEntryBytes || u32(&left[0]) != 0x02014b50)
      throw FileFault{position, concat("the directory does not have the ", directory.num_entries,
                                       " members that it says")};
    const std::size_t name_bytes = u16(&left[28]), extra_bytes = u16(&left[30]),
                      comment_bytes = u16(&left[32]);
    if (left.size() - kEntryBytes < name_bytes + extra_bytes + comment_bytes)
      throw FileFault{position, "a member's names do not fit the directory"};
    if ((u16(&left[8]) & 1) != 0) throw FileFault{position, "a member is encrypted"};
    const std::uint16_t method = u16(&left[10]);
    if (method != 0 && method != 8)
      throw FileFault{position,
                      concat("a member is compressed by method ", method, ", not stored or deflated")};

    ZipMember member;
    member.is_deflated = method == 8;
    member.crc = u32(&left[16]);
    const auto name = left.subspan(kEntryBytes, name_bytes);
    member.name.assign(name.begin(), name.end());
    auto field = zip64_field(left.subspan(kEntryBytes + name_bytes, extra_bytes));
    member.size_bytes = wide(u32(&left[24]), field, position);
    const std::uint64_t compressed_bytes = wide(u32(&left[20]), field, position);
    const std::uint64_t local = wide(u32(&left[42]), field, position);
    locate(file, member, local, compressed_bytes, directory.begin, position);
    if (member.is_deflated ? member.size_bytes / kMaxInflation > compressed_bytes
                           : member.size_bytes != compressed_bytes)
      throw FileFault{position, concat("a member's ", compressed_bytes, " bytes cannot be the ",
                                       member.size_bytes, " that the directory says")};
    members.push_back(std::move(member));
    left = left.subspan(kEntryBytes + name_bytes + extra_bytes + comment_bytes);
  }
  check_apart(members);
  return members;
}

ZipMemberSource::ZipMemberSource(const InputFileHandle& file, const ZipMember& member)
    : bytes_(std::make_unique<FileSource>(file, member.begin, member.end)),
      num_left_(member.size_bytes),
      directory_crc_(member.crc) {
  if (member.is_deflated) bytes_ = std::make_unique<InflateSource>(std::move(bytes_), DeflateForm::bare);
}

std::uint64_t ZipMemberSource::max_left() const noexcept { return std::min(num_left_, bytes_->max_left()); }

std::size_t ZipMemberSource::do_read(std::byte* data, std::size_t size_bytes) {
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(size_bytes, num_left_));
  const std::size_t num_read = bytes_->read_some(data, wanted);
  crc_ = static_cast<std::uint32_t>(crc32_z(crc_, reinterpret_cast<const Bytef*>(data), num_read));
  num_left_ -= num_read;
  return num_read;
}

void ZipMemberSource::finish() {
  std::array<std::byte, 4096> rest;
  while (read_some(rest.data(), rest.size()) > 0) {
  }
  if (num_left_ > 0) fail(position(), concat("it ends ", num_left_, " bytes before the directory says"));
  bytes_->expect_end("the bytes that the directory counts");
  if (kComparesChecksums && crc_ != directory_crc_)
    fail(position(), "its checksum is not the one that the directory says");
}

}  // namespace lockstep::detail
