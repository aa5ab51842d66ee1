#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <lockstep/lockstep.hpp>

#include "support/test_backend.hpp"

/// Cases whose results TensorFlow gives, tests/goldens/README.md.
namespace lockstep::test {

using Json = nlohmann::json;

/// Values in the form that goldens.json has them in. What a program calls the same object is one value, and
/// so are equal host scalars.
Json number_or_text(double value);  ///< NaN and infinities as text.
Json encode(const Tensor& tensor);
Json encode(const Variable& variable);
Json encode(const IndexedSlices& slices);
Json encode(const Device& device);
Json encode(const std::string& text);
Json encode_error(const std::exception& error);
template <Element T>
Json encode(T scalar);
template <class T>
Json encode(const PerReplica<T>& value);
template <class T>
Json encode(const Mirrored<T>& value);
template <class... T>
Json encode(const std::tuple<T...>& tuple);
template <class T>
Json encode(const std::vector<T>& list);
template <class T>
Json encode(const std::map<std::string, T>& map);
template <class T>
Json encode(const std::optional<T>& value);
inline Json encode(const char* text) { return encode(std::string(text)); }
inline Json encode(std::monostate) { return nullptr; }
inline Json encode(Json json) { return json; }

/// Steps of a dataset: what they hold is compared as it is.
inline Json rows(Json steps) { return {{"rows", std::move(steps)}}; }

/// Whether two values are equal: numbers to 1e-6 of their size, dtypes and shapes where both have them,
/// errors by their kind. A mirrored value is as good as one of its components.
bool agree(const Json& a, const Json& b);

/// One case, and the results that it must have.
class Golden {
 public:
  explicit Golden(std::string id);

  /// Compares what `make` gives, or throws, with TensorFlow's result of this name, or with what
  /// differences.json says instead. @param after  what is left where it throws.
  template <class F>
  void operator()(const std::string& name, F&& make, const std::function<Json()>& after = {}) {
    Json result;
    Json left;
    try {
      if constexpr (std::is_void_v<decltype(make())>)
        make();
      else
        result = encode(make());
    } catch (const std::exception& error) {
      result = encode_error(error);
      if (after) left = after();
    }
    compare(name, result, left);
  }
  /// TensorFlow's result of this name: one of a case's inputs, which counts as made, or one to compare by
  /// oneself.
  const Json& given(const std::string& name);
  /// Whether the results of this name are compared at all.
  bool has(const std::string& name) const { return !not_compared_.contains(name); }
  /// Every result was made, but for those that differences.json says are not compared.
  void check_complete() const;

 private:
  void compare(const std::string& name, const Json& result, const Json& left);

  std::string id_;
  const Json& results_;
  std::map<std::string, const Json*> differences_;
  std::set<std::string> not_compared_;
  std::set<std::string> made_;
  DeviceScope device_;  // where values are made outside replicas
};

/// Tells which cases there are.
struct GoldenId {
  explicit GoldenId(const char* id);
  static std::set<std::string>& all();
};

#define LOCKSTEP_GOLDEN_AS(id, unique)                     \
  static void unique(::lockstep::test::Golden& r);         \
  static const ::lockstep::test::GoldenId unique##_id(id); \
  TEST_CASE("TensorFlow: " id, "[goldens]") {              \
    ::lockstep::test::Golden golden(id);                   \
    unique(golden);                                        \
    golden.check_complete();                               \
  }                                                        \
  static void unique([[maybe_unused]] ::lockstep::test::Golden& r)
#define LOCKSTEP_GOLDEN_LINE(id, line) LOCKSTEP_GOLDEN_AS(id, golden_case_##line)
#define LOCKSTEP_GOLDEN_AT(id, line) LOCKSTEP_GOLDEN_LINE(id, line)
/// A case: `GOLDEN("reduce-nest") { r("sum", [&] { return ...; }); }`
#define GOLDEN(id) LOCKSTEP_GOLDEN_AT(id, __LINE__)

// ---- encoding

template <Element T>
Json encode(T scalar) {
  if constexpr (std::same_as<T, bool> || std::integral<T>)
    return {{"host", scalar}};
  else
    return {{"host", number_or_text(static_cast<double>(scalar))}};
}

template <class T>
Json encode(const PerReplica<T>& value) {
  bool is_one = value.is_same_object();
  if constexpr (std::equality_comparable<T> && !std::is_same_v<T, Tensor>) {
    is_one = true;
    for (const T& component : value) is_one = is_one && component == value[0];
  }
  if (is_one) return encode(static_cast<T>(value[0]));
  Json components = Json::array();
  for (const T& component : value) components.push_back(encode(component));
  return {{"per_replica", std::move(components)}};
}

template <class T>
Json encode(const Mirrored<T>& value) {
  Json components = Json::array();
  for (const T& component : value) components.push_back(encode(component));
  return {{"mirrored", std::move(components)}};
}

template <class... T>
Json encode(const std::tuple<T...>& tuple) {
  Json members = Json::array();
  std::apply([&](const auto&... member) { (members.push_back(encode(member)), ...); }, tuple);
  return {{"tuple", std::move(members)}};
}

template <class T>
Json encode(const std::vector<T>& list) {
  Json members = Json::array();
  for (const auto& member : list) members.push_back(encode(static_cast<T>(member)));
  return {{"list", std::move(members)}};
}

template <class T>
Json encode(const std::map<std::string, T>& map) {
  Json members = Json::object();
  for (const auto& [key, member] : map) members[key] = encode(member);
  return {{"dict", std::move(members)}};
}

template <class T>
Json encode(const std::optional<T>& value) {
  return value ? encode(*value) : Json();
}

}  // namespace lockstep::test
