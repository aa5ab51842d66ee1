#include "measure/split.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "detail/concat.hpp"
#include "exit_status.hpp"

namespace lockstep::bench {

int Split::color(int rank) const {
  const auto r = static_cast<std::uint64_t>(rank);
  switch (operation) {
    case Operation::none: break;
    case Operation::bit_and: return static_cast<int>(r & value);
    case Operation::bit_or: return static_cast<int>(r | value);
    case Operation::modulo: return static_cast<int>(r % value);
    case Operation::divide: return static_cast<int>(r / value);
  }
  return 0;
}

namespace {

/// Decimal, 0x…, 0… or 0b…, after blanks. @param end  what follows; `text` where there is no number.
std::uint64_t parse_whole(const char* text, const char*& end) {
  const char* digits = text;
  while (std::isspace(static_cast<unsigned char>(*digits)) != 0) ++digits;
  const bool is_binary = digits[0] == '0' && (digits[1] == 'b' || digits[1] == 'B');
  if (is_binary) digits += 2;
  char* rest = nullptr;
  const std::uint64_t value = std::strtoull(digits, &rest, is_binary ? 2 : 0);
  end = rest == digits ? text : rest;
  return value;
}

}  // namespace

Split parse_split(const std::string& text, const char* variable) {
  const auto bad = [&] {
    throw OptionError(
        ExitStatus::usage,
        lockstep::detail::concat(variable, " '", text,
                                 "' is none of AND, OR, MOD, DIV, &, |, %, / followed by a number"));
  };
  constexpr std::array<std::pair<std::string_view, Split::Operation>, 8> kOperations{
      {{"AND", Split::Operation::bit_and},
       {"OR", Split::Operation::bit_or},
       {"MOD", Split::Operation::modulo},
       {"DIV", Split::Operation::divide},
       {"&", Split::Operation::bit_and},
       {"|", Split::Operation::bit_or},
       {"%", Split::Operation::modulo},
       {"/", Split::Operation::divide}}};
  for (const auto& [name, operation] : kOperations) {
    const auto same = [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == b; };
    if (!std::ranges::equal(std::string_view(text).substr(0, name.size()), name, same)) continue;
    const char* const number = text.c_str() + name.size();
    const char* end = nullptr;
    const std::uint64_t value = parse_whole(number, end);
    const bool divides = operation == Split::Operation::modulo || operation == Split::Operation::divide;
    if (end == number || *end != '\0' || (divides && value == 0)) bad();
    return {operation, value};
  }
  bad();
  return {};
}

Split parse_mask(const std::string& text, const char* variable) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text.c_str(), &end, 16);
  if (end == text.c_str() || *end != '\0')
    throw OptionError(ExitStatus::usage,
                      lockstep::detail::concat(variable, " '", text, "' is not a hexadecimal number"));
  return {Split::Operation::bit_and, value};
}

}  // namespace lockstep::bench
