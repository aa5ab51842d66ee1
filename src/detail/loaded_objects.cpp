#include "detail/loaded_objects.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>

#include <dlfcn.h>
#include <link.h>

#include <lockstep/detail/abi.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/warn.hpp"

namespace lockstep::detail {

namespace {

alignas(4)
    [[gnu::section(".note.lockstep"), gnu::used]] constexpr AbiNote kAbiOfLibrary{.type = AbiNote::kLibrary};

struct Object {
  std::string file;
  std::vector<AbiNote> notes;  // of lockstep
  bool is_own = false;         // this copy of the library is in it

  bool is_copy() const {
    return std::ranges::any_of(notes, [](const AbiNote& note) { return note.type == AbiNote::kLibrary; });
  }
};

std::string name_of_program() { return "the program"; }

/// A word of a note, or of a gap, which sanitizers make and forbid to read.
[[gnu::no_sanitize_address]] std::uint32_t word_at(const char* begin) {
  std::uint32_t value = 0;
  std::memcpy(&value, begin, sizeof value);
  return value;
}

/// Adds lockstep's notes of a segment of notes.
void read_notes(const char* begin, std::size_t size_bytes, std::size_t alignment,
                std::vector<AbiNote>& notes) {
  const auto padded = [&](std::size_t size) { return (size + alignment - 1) / alignment * alignment; };
  const auto word = [begin](std::size_t at) { return word_at(begin + at); };
  constexpr std::size_t kHeader = 3 * sizeof(std::uint32_t);
  constexpr AbiNote kExpected;
  for (std::size_t at = 0; at + kHeader <= size_bytes;) {
    const std::uint32_t name_size = word(at), abi_size = word(at + 4), type = word(at + 8);
    if (name_size == 0) {  // a gap
      at += sizeof(std::uint32_t);
      continue;
    }
    const std::size_t abi_at = at + padded(kHeader + name_size), end = abi_at + padded(abi_size);
    if (end > size_bytes) return;
    if (name_size == sizeof kExpected.name && abi_size == sizeof kExpected.abi &&
        std::memcmp(begin + at + kHeader, kExpected.name, name_size) == 0)
      notes.push_back({.type = type, .abi = word(abi_at)});
    at = end;
  }
}

/// The loaded objects; ones without notes of lockstep included.
std::vector<Object> objects() {
  std::vector<Object> result;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        Object object{info->dlpi_name, {}};
        const auto own = reinterpret_cast<std::uintptr_t>(&kAbiOfLibrary);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type == PT_LOAD && begin <= own && own < begin + segment.p_memsz)
            object.is_own = true;
          if (segment.p_type == PT_NOTE)
            read_notes(reinterpret_cast<const char*>(begin), segment.p_memsz, segment.p_align == 8 ? 8 : 4,
                       object.notes);
        }
        static_cast<std::vector<Object>*>(to)->push_back(std::move(object));
        return 0;
      },
      &result);
  return result;
}

std::string shown(const std::string& file) { return file.empty() ? name_of_program() : file; }

}  // namespace

std::vector<std::string> loaded_files() {
  std::vector<std::string> files;
  for (Object& object : objects()) files.push_back(std::move(object.file));
  return files;
}

std::vector<std::string> loaded_files(std::string_view prefix) {
  std::vector<std::string> files = loaded_files();
  std::erase_if(files, [&](const std::string& file) {
    return !std::string_view(file).substr(file.find_last_of('/') + 1).starts_with(prefix);
  });
  return files;
}

void warn_if_several(std::string_view prefix, std::string_view two) {
  const std::vector<std::string> files = loaded_files(prefix);
  const std::set<std::string> distinct(files.begin(), files.end());
  if (distinct.size() < 2) return;
  warn(concat("the process has loaded ", two, ", ", *distinct.begin(), " and ", *distinct.rbegin(),
              ", which do not know each other's objects. Let all parts of the program use one."));
}

void check_loaded_copies() {
  const std::vector<Object> all = objects();
  std::string own = name_of_program();
  std::size_t num_copies = 0;
  for (const Object& object : all) {
    if (object.is_own) own = shown(object.file);
    if (object.is_copy()) ++num_copies;
  }
  for (const Object& object : all) {
    if (object.is_own || (num_copies == 1 && !object.is_copy())) {
      for (const AbiNote& note : object.notes)
        LOCKSTEP_EXPECTS(note.abi == kAbi, Unsupported, shown(object.file),
                         " was compiled with lockstep's headers of binary interface ", note.abi,
                         ", and the library, in ", own, ", has ", kAbi,
                         ". Compile it with the library's headers.");
    } else if (object.is_copy()) {
      warn(concat(
          "the process has two copies of lockstep, in ", own, " and ", shown(object.file),
          ", which do not know each other's devices, tensors and strategies. Link both parts to one shared "
          "library."));
    }
  }
}

}  // namespace lockstep::detail
