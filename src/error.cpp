#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>

#include <lockstep/dtype.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

std::atomic<ErrorPlace> error_place{nullptr};

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The word before the first ": ", ", call ", quotation, "(" or preposition; empty if another one comes
/// between.
std::string_view operation_in(std::string_view message) {
  const std::size_t end = message.find_first_of(" (");
  const std::string_view word = message.substr(0, end);
  if (word.ends_with(':')) return word.substr(0, word.size() - 1);
  if (end == message.npos) return {};
  const std::string_view rest = message.substr(end);
  if (word.ends_with(',') && rest.starts_with(" call ")) return word.substr(0, word.size() - 1);
  constexpr std::array<std::string_view, 9> kFollowing{"(",     " (",   " '",     " of ",          " on ",
                                                       " for ", " in ", " from ", " the variable "};
  const auto follows = [rest](std::string_view text) { return rest.starts_with(text); };
  return std::any_of(kFollowing.begin(), kFollowing.end(), follows) ? word : std::string_view();
}

/// The first device that the message names.
std::string_view device_in(std::string_view message) {
  constexpr std::string_view kKind = "PU:";  // of CPU and GPU
  for (std::size_t at = 0; (at = message.find(kKind, at)) != message.npos; ++at) {
    const std::size_t digits = at + kKind.size();
    if (at == 0 || (message[at - 1] != 'C' && message[at - 1] != 'G')) continue;
    if (digits == message.size() || !is_digit(message[digits])) continue;
    const std::size_t end = std::min(message.find_first_not_of("0123456789", digits), message.size());
    return message.substr(at - 1, end - at + 1);
  }
  return {};
}

/// The number of the first replica or rank that the message names, which is the one at fault; -1: it names
/// none.
int replica_in(std::string_view message) {
  constexpr std::array<std::string_view, 2> kNouns{"replica ", " on rank "};
  std::string_view first;
  for (const std::string_view noun : kNouns) {
    for (std::size_t i = 0; (i = message.find(noun, i)) != message.npos;) {
      i += noun.size();
      const std::string_view rest = message.substr(i);
      if (rest.empty() || !is_digit(rest.front())) continue;
      if (rest.size() > first.size()) first = rest;
      break;
    }
  }
  int number = -1;
  std::from_chars(first.data(), first.data() + first.size(), number);
  return number;
}

/// The length of a space and the dtype with which the text begins; 0 if it begins with none.
std::size_t length_of_dtype(std::string_view text) {
  const std::string_view word = text.substr(0, text.find_first_of(" .,;:)'"));
  for (int dtype = 0; dtype < kNumDTypes; ++dtype)
    if (word == name(static_cast<DType>(dtype))) return 1 + word.size();
  return 0;
}

/// All shapes, such as "[2, 3]", each with the dtype that follows it. Brackets directly after a name are an
/// index.
std::string operands_in(std::string_view message) {
  std::string operands;
  for (std::size_t begin = 0; (begin = message.find('[', begin)) != message.npos; ++begin) {
    std::size_t end = message.find_first_not_of("0123456789, ?", begin + 1);
    if (end == message.npos || message[end] != ']') continue;
    if (begin > 0 && is_of_name(message[begin - 1])) continue;
    ++end;
    const std::string_view rest = message.substr(end);
    if (rest.starts_with(' ')) end += length_of_dtype(rest.substr(1));
    if (!operands.empty()) operands += ", ";
    operands += message.substr(begin, end - begin);
  }
  return operands;
}

/// The last sentence, unless it is the only one.
std::string_view hint_in(std::string_view message) {
  const std::size_t end = message.rfind(". ");
  return end == message.npos ? std::string_view() : message.substr(end + 2);
}

}  // namespace

ErrorContext complete(ErrorContext context, std::string_view message) {
  const auto fill = [](std::string& field, std::string_view text) {
    if (field.empty()) field = text;
  };
  const std::string_view hint = hint_in(message);
  const std::string_view facts = message.substr(0, message.size() - hint.size());  // hints contain examples
  context.operation.resize(std::min(context.operation.size(), context.operation.find('(')));
  fill(context.operation, operation_in(facts));
  if (context.replica < 0) context.replica = replica_in(facts);
  fill(context.device, device_in(facts));
  fill(context.operands, operands_in(facts));
  fill(context.hint, hint);
  if (const ErrorPlace place = error_place) place(context);
  return context;
}

}  // namespace lockstep::detail
