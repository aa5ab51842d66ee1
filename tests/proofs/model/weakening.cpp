#include "weakening.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>

#include "model.hpp"

namespace lockstep::model {

namespace {

/// A line of a translated source that orders memory.
struct Place {
  std::string_view file;
  int line;
  rl::memory_order written;  // the strongest

  std::string text() const { return std::string(file) + ':' + std::to_string(line); }
};

// Without allocations: Relacy counts those of an execution.
std::array<Place, 256> places;
std::size_t num_places = 0;
std::size_t weakened = places.size();  // the place whose order is weakened

}  // namespace

rl::memory_order order(const char* file, int line, rl::memory_order written) {
  std::size_t i = 0;
  while (i < num_places && (places[i].line != line || places[i].file != file)) ++i;
  if (i == num_places) {
    if (num_places == places.size()) std::abort();
    places[num_places++] = {file, line, written};
  }
  if (written == rl::mo_seq_cst) places[i].written = written;
  return i == weakened ? rl::mo_relaxed : written;
}

// The names of translated sources end as the sources', which are under src/.
rl::memory_order implied_order(const std::source_location& here) {
  constexpr std::string_view kTranslated = "/translated/";
  const char* const translated = std::strstr(here.file_name(), kTranslated.data());
  if (translated == nullptr) return rl::mo_seq_cst;  // a suite's own
  const char* const name = std::strchr(translated + kTranslated.size(), '/') + 1;
  return order(name, static_cast<int>(here.line()), rl::mo_seq_cst);
}

namespace {

/// A place that may stay unnoticed.
struct Listed {
  std::string file, text, reason;
  bool is_found = false;
};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

/// Lines "FILE | TEXT OF THE PLACE | REASON"; others are comments.
std::vector<Listed> read_list(const std::string& file) {
  std::vector<Listed> list;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line);
    std::string name, text, reason;
    if (line.starts_with('#') || !std::getline(parts, name, '|') || !std::getline(parts, text, '|')) continue;
    std::getline(parts, reason);
    list.push_back({trimmed(name), trimmed(text), trimmed(reason)});
  }
  return list;
}

/// The place's line and the one before it.
std::string source_text(const Place& place) {
  std::ifstream lines(std::string(LOCKSTEP_ROOT "/") + std::string(place.file));
  std::string before, line;
  for (int i = 0; i < place.line; ++i) {
    before = line;
    std::getline(lines, line);
  }
  return trimmed(before) + ' ' + trimmed(line);
}

const char* first_broken(const std::vector<Proof>& proofs, std::uint64_t num_executions) {
  for (const Proof& proof : proofs)
    if (!proof.holds(num_executions)) return proof.name;
  return nullptr;
}

}  // namespace

int prove(const std::vector<Proof>& proofs, const std::string& unnoticed_file, int argc, char** argv) {
  const std::uint64_t num_executions = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20'000;
  bool is_right = true;
  for (const Proof& proof : proofs) {
    const bool holds = proof.holds(num_executions);
    std::cout << (holds ? "holds      " : "BROKEN     ") << proof.name << std::endl;
    is_right = is_right && holds;
  }
  if (!is_right) return 1;

  std::vector<Listed> list = read_list(unnoticed_file);
  const std::size_t num_found = num_places;
  for (std::size_t i = 0; i < num_found; ++i) {
    const std::string text = source_text(places[i]);
    const auto listed = std::ranges::find_if(list, [&](const Listed& each) {
      return each.file == places[i].file && text.find(each.text) != text.npos;
    });
    if (listed != list.end()) listed->is_found = true;
    weakened = i;
    const char* const broken = first_broken(proofs, num_executions);
    weakened = places.size();
    const bool is_as_expected = (broken == nullptr) == (listed != list.end());
    is_right = is_right && is_as_expected;
    std::cout << (broken != nullptr ? (is_as_expected ? "caught     " : "CAUGHT     ")
                                    : (is_as_expected ? "as listed  " : "UNNOTICED  "))
              << places[i].text() << ": " << text << "  [" << (broken != nullptr ? broken : "")
              << (listed != list.end() ? listed->reason : "") << ']' << std::endl;
  }
  for (const Listed& listed : list) {
    if (listed.is_found) continue;
    std::cout << "NO PLACE   " << listed.file << " | " << listed.text << std::endl;
    is_right = false;
  }
  return is_right ? 0 : 1;
}

}  // namespace lockstep::model
