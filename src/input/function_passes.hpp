#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <lockstep/detail/pipeline.hpp>

#include "input/element_error.hpp"

/// Passes that call the user's functions.
namespace lockstep::detail {

/// The tensors on the host, contiguous, and the element's alone: what made them may use theirs again.
FlatElement host_element(FlatElement&& element);

/// What a function gives for each element, on the thread that takes it.
class MapPass final : public Pass<FlatElement> {
 public:
  MapPass(std::unique_ptr<Pass<FlatElement>> input, ElementFunction fn)
      : input_(std::move(input)), fn_(std::move(fn)) {}
  std::optional<FlatElement> next() override;

 private:
  std::unique_ptr<Pass<FlatElement>> input_;
  ElementFunction fn_;
  std::int64_t index_ = 0;
};

class FilterPass final : public Pass<FlatElement> {
 public:
  FilterPass(std::unique_ptr<Pass<FlatElement>> input, ElementPredicate predicate)
      : input_(std::move(input)), predicate_(std::move(predicate)) {}
  std::optional<FlatElement> next() override;

 private:
  std::unique_ptr<Pass<FlatElement>> input_;
  ElementPredicate predicate_;
  std::int64_t index_ = 0;
};

/// What a pass of the user's gives, which is not asked again after its end, nor where it cannot be started.
class UserPass final : public Pass<FlatElement> {
 public:
  explicit UserPass(GeneratorOpener open) : open_(std::move(open)) {}
  std::optional<FlatElement> next() override;

 private:
  GeneratorOpener open_;
  std::unique_ptr<Pass<FlatElement>> input_;
  std::int64_t index_ = 0;
  bool has_ended_ = false;
};

}  // namespace lockstep::detail
