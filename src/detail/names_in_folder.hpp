#pragma once

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <dirent.h>

namespace lockstep::detail {

/// The names of what is in a folder, in no order. std::filesystem::directory_iterator ends the process where
/// memory runs out, and does not repeat what a signal interrupts.
/// @param error  set if the folder cannot be read.
inline std::vector<std::string> names_in_folder(const std::filesystem::path& folder, std::error_code& error) {
  struct Close {
    void operator()(DIR* open) const noexcept { ::closedir(open); }
  };
  error.clear();
  std::vector<std::string> names;
  std::unique_ptr<DIR, Close> open;
  do open.reset(::opendir(folder.c_str()));
  while (open == nullptr && errno == EINTR);
  if (open != nullptr) {
    errno = 0;
    while (const dirent* const entry = ::readdir(open.get())) {
      if (const std::string_view name = entry->d_name; name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
  }
  if (errno != 0) error.assign(errno, std::generic_category());
  return names;
}

}  // namespace lockstep::detail
