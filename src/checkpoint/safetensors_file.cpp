#include "checkpoint/safetensors_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <system_error>

#include <lockstep/error.hpp>

#include "detail/atomic_file.hpp"
#include "detail/cpu_0.hpp"
#include "detail/expects.hpp"

namespace lockstep::detail {

static_assert(std::endian::native == std::endian::little, "safetensors data would have to be swapped");

namespace {

constexpr std::uint64_t kLengthBytes = 8;

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path, std::string_view what, Links links)
    : path_(std::move(path)), what_(what), file_(open(links)) {
  try {
    read_header();
  } catch (const SafetensorsFault& fault) {
    refuse(fault);
  }
}

InputFile SafetensorsFile::open(Links links) const try {
  return InputFile(path_, what_, links);
} catch (const FileFault& fault) {
  refuse(fault, "");
}

void SafetensorsFile::read_header() {
  const std::uint64_t file_bytes = file_.size_bytes();
  if (file_bytes < kLengthBytes)
    throw SafetensorsFault{"", concat("it has ", std::to_string(file_bytes),
                                      " bytes, too few for the 8 of the header's length")};
  std::array<std::uint8_t, kLengthBytes> bytes;
  read_at(bytes.data(), bytes.size(), 0, "");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) length |= std::uint64_t{bytes[i]} << (8 * i);
  if (length > file_bytes - kLengthBytes)
    throw SafetensorsFault{
        "", concat("its header has ", std::to_string(length), " bytes, but the file ends after ",
                   std::to_string(file_bytes - kLengthBytes))};
  if (length > kMaxSafetensorsHeaderBytes)
    throw SafetensorsFault{"", concat("its header has ", std::to_string(length), " bytes, more than the ",
                                      std::to_string(kMaxSafetensorsHeaderBytes), " that the format allows")};
  std::string text(length, '\0');
  read_at(text.data(), length, kLengthBytes, "");
  data_position_ = kLengthBytes + length;
  entries_ = parse_safetensors_header(text, file_bytes - data_position_);
}

Tensor SafetensorsFile::read(const SafetensorsEntry& entry) const {
  Tensor tensor = Tensor::empty(entry.shape, entry.dtype, cpu_0());
  read(entry, tensor);
  return tensor;
}

void SafetensorsFile::read(const SafetensorsEntry& entry, Tensor& tensor) const {
  if (tensor.size() == 0) return;
  auto* const bytes = static_cast<std::byte*>(tensor.data());
  read_at(bytes, entry.end - entry.begin, data_position_ + entry.begin, entry.key);
  if (entry.dtype == DType::boolean)  // only 0 and 1 are valid values of a bool
    std::transform(bytes, bytes + tensor.nbytes(), bytes,
                   [](std::byte b) { return std::byte(b != std::byte(0)); });
}

void SafetensorsFile::read_at(void* data, std::uint64_t size_bytes, std::uint64_t position,
                              const std::string& key) const try {
  file_.read_at(position, data, static_cast<std::size_t>(size_bytes));
} catch (const FileFault& fault) {
  refuse(fault, key);
}

void SafetensorsFile::refuse(const FileFault& fault, const std::string& key) const {
  if (fault.code == 0) refuse(SafetensorsFault{key, fault.reason});
  raise<Error>({__FILE__, __LINE__, __func__},
               concat(what_, ": ", path_, " cannot be read: ", std::generic_category().message(fault.code),
                      ". Check the device that it is on."),
               {.operation = what_, .code = fault.code});
}

void SafetensorsFile::refuse(const SafetensorsFault& fault) const {
  const std::string entry = fault.key.empty() ? std::string() : concat(", entry ", in_quotes(fault.key));
  raise<InvalidArgument>(
      {__FILE__, __LINE__, __func__},
      concat(what_, ": ", path_, entry, ": ", fault.reason,
             ". The file is damaged, or not one in the safetensors format: pass another one."),
      {.operation = what_});
}

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                       std::string_view what) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [key, tensor] : tensors) entries.push_back({key, tensor.dtype(), tensor.shape()});
  std::stable_sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return size_of(a.dtype) > size_of(b.dtype);
  });
  const std::string header = make_safetensors_header(entries);
  LOCKSTEP_EXPECTS(header.size() <= kMaxSafetensorsHeaderBytes, InvalidArgument, what, ": ", path,
                   " would have a header of ", header.size(), " bytes for ", entries.size(),
                   " entries, more than the ", kMaxSafetensorsHeaderBytes,
                   " that the format allows. Use shorter keys, or several files.");
  std::array<std::uint8_t, kLengthBytes> length;
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<std::uint8_t>(std::uint64_t{header.size()} >> (8 * i));

  AtomicFile file(path, what);
  file.write(length.data(), length.size());
  file.write(header.data(), header.size());
  for (const SafetensorsEntry& entry : entries)
    file.write(tensors.at(entry.key).view().data, entry.end - entry.begin);
  file.commit();
}

}  // namespace lockstep::detail
