#ifdef LOCKSTEP_HAS_ARCHIVE

#include "input/formats/readers/tar_members.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include <archive.h>
#include <archive_entry.h>

#include "detail/concat.hpp"
#include "detail/in_quotes.hpp"
#include "input/formats/buffer_bytes.hpp"
#include "input/formats/compressed/inflate_source.hpp"

namespace lockstep::detail {
namespace {

constexpr std::size_t kBlockBytes = buffer_bytes(1 << 16);

/// Divides a name at the first dot of its last component. @return false if the member is no part of a sample.
bool divide(std::string_view name, TarMember& member) {
  const std::size_t base = name.rfind('/') + 1;  // 0 if there is none
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return false;
  const std::string_view first = name.substr(0, name.find('/'));
  if (first.size() >= 4 && first.starts_with("__") && first.ends_with("__"))
    return false;  // as "__meta__/a.json"
  member.key = name.substr(0, dot);
  member.extension = name.substr(dot + 1);
  for (char& c : member.extension)
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return true;
}

}  // namespace

void TarMembers::Free::operator()(archive* handle) const { archive_read_free(handle); }

TarMembers::TarMembers(const std::filesystem::path& path, std::string_view what)
    : file_(std::make_shared<const InputFile>(path, what)), block_(kBlockBytes) {
  constexpr std::string_view kGzip = "\x1f\x8b\x08";
  if (file_->size_bytes() >= kGzip.size()) file_->read_at(0, block_.data(), kGzip.size());
  if (std::string_view(block_.data(), kGzip.size()) == kGzip)
    inflated_ = std::make_unique<InflateSource>(std::make_unique<FileSource>(file_), DeflateForm::gzip);
  open(0);
}

void TarMembers::open(std::uint64_t begin) {
  begin_ = next_ = begin;
  archive_.reset(archive_read_new());
  if (!archive_) throw std::bad_alloc();
  if (begin == 0) {  // else it is known to be plain
    // Not archive_read_support_filter_all, whose rarer filters start programs.
    archive_read_support_filter_bzip2(archive_.get());
    archive_read_support_filter_xz(archive_.get());
    archive_read_support_filter_zstd(archive_.get());
  }
  archive_read_support_format_tar(archive_.get());
  archive_read_support_format_empty(archive_.get());
  if (archive_read_open2(archive_.get(), this, nullptr, read_block, skip_bytes, nullptr) != ARCHIVE_OK)
    fail_with_code();
}

TarMembers::~TarMembers() = default;

std::intptr_t TarMembers::read_block(archive* handle, void* self, const void** block) {
  auto& members = *static_cast<TarMembers*>(self);
  std::size_t size = 0;
  try {
    if (members.inflated_) {
      size = members.inflated_->read_some(members.block_.data(), kBlockBytes);
    } else {
      size = static_cast<std::size_t>(
          std::min<std::uint64_t>(kBlockBytes, members.file_->size_bytes() - members.next_));
      if (size > 0) members.file_->read_at(members.next_, members.block_.data(), size);
    }
  } catch (...) {
    members.fault_ = std::current_exception();
    archive_set_error(handle, EIO, "the file cannot be read");
    return ARCHIVE_FATAL;
  }
  members.next_ += size;
  *block = members.block_.data();
  return static_cast<std::intptr_t>(size);
}

std::int64_t TarMembers::skip_bytes(archive*, void* self, std::int64_t size_bytes) {
  auto& members = *static_cast<TarMembers*>(self);
  if (members.inflated_) return 0;  // libarchive reads the bytes instead
  const std::uint64_t size =
      std::min(static_cast<std::uint64_t>(size_bytes), members.file_->size_bytes() - members.next_);
  members.next_ += size;
  return static_cast<std::int64_t>(size);
}

bool TarMembers::is_compressed() const { return inflated_ || archive_filter_count(archive_.get()) > 1; }

void TarMembers::fail(std::uint64_t position, std::string reason, bool is_of_record) const {
  throw FileFault{position, std::move(reason), is_compressed() ? " of the decompressed data" : "", 0,
                  is_of_record};
}

void TarMembers::fail_with_code() {
  if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
  const char* const reason = archive_error_string(archive_.get());
  const auto position =
      begin_ + static_cast<std::uint64_t>(std::max<std::int64_t>(0, archive_filter_bytes(archive_.get(), 0)));
  fail(position, concat("the archive is damaged: ", reason ? reason : "libarchive does not say why"));
}

void TarMembers::seek(std::uint64_t position) {
  if (!is_compressed() && position < file_->size_bytes()) open(position);
  std::optional<TarMember> member;
  do {
    member = next();
  } while (member && member->position < position);
  if (!member || member->position != position) fail(position, "no member begins here");
  sought_ = std::move(member);
}

std::optional<TarMember> TarMembers::next() {
  if (sought_) return std::exchange(sought_, std::nullopt);
  std::optional<std::uint64_t> damage;
  while (!has_ended_) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(archive_.get(), &entry);
    const auto position = begin_ + static_cast<std::uint64_t>(std::max<std::int64_t>(
                                       0, archive_read_header_position(archive_.get())));
    if (code == ARCHIVE_EOF) {
      has_ended_ = true;
      if (damage) fail(*damage, "a header is damaged, and no member follows it", true);
      while (inflated_ && inflated_->read_some(block_.data(), block_.size()) > 0) {  // up to its checksum
      }
      break;
    }
    if (code == ARCHIVE_RETRY) {  // what follows may be a header again
      if (!damage) damage = position;
      continue;
    }
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) fail_with_code();
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr) name = archive_entry_pathname_utf8(entry);  // the locale may not have its letters
    TarMember member;
    if (name == nullptr || !divide(name, member)) continue;
    member.position = position;
    member.size_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, archive_entry_size(entry)));
    member.is_after_damage = damage.has_value();
    if (!is_compressed() && member.size_bytes > file_->size_bytes())
      fail(position, concat(in_quotes(name), " has ", member.size_bytes, " bytes, more than the file"));
    return member;
  }
  return std::nullopt;
}

void TarMembers::read(const TarMember& member, void* data) {
  auto* next = static_cast<char*>(data);
  for (std::uint64_t left = member.size_bytes; left > 0;) {
    const auto num_read = archive_read_data(archive_.get(), next, static_cast<std::size_t>(left));
    if (num_read < 0) fail_with_code();
    if (num_read == 0)
      fail(member.position, concat(in_quotes(member.key), " has ", member.size_bytes,
                                   " bytes, but ends after ", member.size_bytes - left));
    next += num_read;
    left -= static_cast<std::uint64_t>(num_read);
  }
}

}  // namespace lockstep::detail

#endif
