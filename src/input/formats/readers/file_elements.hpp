#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include <lockstep/error.hpp>
#include <lockstep/input/readers.hpp>

#include "input/formats/byte_source.hpp"

namespace lockstep::detail {

/// A position in a file that is not one of its reader's. @throws FileFault
[[noreturn]] inline void fail_position(std::uint64_t position) {
  throw FileFault{position, "the position to go on from is not one where an element begins"};
}

/// What the functions of the library's readers return: the elements of a parser, whose faults name the file.
/// `Parser` has `next()`, `position()`, and `seek(position)`, which throws FileFault, and may have
/// `next_rows(most)`, as Iterator's.
template <class Parser>
class FileElements {
 public:
  /// @param what, remedy  literals. @param open  makes the parser.
  template <class Open>
  FileElements(std::string_view what, const std::filesystem::path& path, std::string_view remedy,
               const Open& open)
      : what_(what), path_(path), remedy_(remedy), parser_(with_file_faults(what, path, remedy, open)) {}

  auto operator()() {
    return with_file_faults(what_, path_, remedy_, [&] { return parser_->next(); });
  }
  auto next_rows(std::int64_t most) requires requires(Parser& parser) { parser.next_rows(most); }
  {
    return with_file_faults(what_, path_, remedy_,
                            [&]() -> std::optional<RowBlock> { return parser_->next_rows(most); });
  }
  readers::Position position() const { return parser_->position(); }
  void seek(const readers::Position& position) {
    with_file_faults(what_, path_, "Restore a state that was saved with these files.",
                     [&] { parser_->seek(position); });
  }

 private:
  std::string_view what_;
  std::filesystem::path path_;
  std::string_view remedy_;
  std::shared_ptr<Parser> parser_;  // owners: the copies
};

template <class Open>
FileElements(std::string_view, const std::filesystem::path&, std::string_view, const Open& open)
    -> FileElements<typename decltype(open())::element_type>;

}  // namespace lockstep::detail
