#pragma once

#include <utility>

#include <nlohmann/json.hpp>

namespace lockstep::detail {

/// Owner of a JSON value that needs no memory to be destroyed. nlohmann-json takes some for values in values,
/// and the process would end where there is none. Lists in braces make such values, and a member of null
/// makes an object that fails halfway: make objects by json::object(), and set their members one by one.
class JsonDocument {
 public:
  using Json = nlohmann::json;

  explicit JsonDocument(Json&& value) noexcept : value_(std::move(value)) {}
  ~JsonDocument() { clear(value_, kMostDepth); }
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  Json& operator*() noexcept { return value_; }
  const Json& operator*() const noexcept { return value_; }
  Json* operator->() noexcept { return &value_; }

 private:
  static constexpr int kMostDepth = 100;  // what is deeper takes memory, and no stack

  static void clear(Json& value, int depth) {
    if (!value.is_structured() || depth == 0) return;
    for (Json& child : value) clear(child, depth - 1);
    value.clear();
  }

  Json value_;
};

}  // namespace lockstep::detail
