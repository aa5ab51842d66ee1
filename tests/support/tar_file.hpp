#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::test {

/// A header of 512 bytes and the data, in whole blocks (POSIX ustar). @param type  '0': a regular file.
inline std::string tar_member(const std::string& name, std::string_view data, char type = '0') {
  std::string header(512, '\0');
  const auto put_text = [&](std::size_t at, std::string_view text) { header.replace(at, text.size(), text); };
  const auto octal = [](std::size_t value, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*zo", digits, value);
    return std::string(text);
  };
  put_text(0, name);
  put_text(100, "0000644");
  put_text(108, "0000000");
  put_text(116, "0000000");
  put_text(124, octal(data.size(), 11));
  put_text(136, "00000000000");
  put_text(148, "        ");
  header[156] = type;
  put_text(257, std::string_view("ustar\0"
                                 "00",
                                 8));
  std::size_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put_text(148, octal(sum, 6) + std::string("\0 ", 2));
  std::string bytes = header + std::string(data);
  bytes.resize((bytes.size() + 511) / 512 * 512, '\0');
  return bytes;
}

inline std::string tar_end() { return std::string(1024, '\0'); }

inline std::string tar_archive(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string bytes;
  for (const auto& [name, data] : files) bytes += tar_member(name, data);
  return bytes + tar_end();
}

}  // namespace lockstep::test
