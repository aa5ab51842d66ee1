#include "goldens/golden.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string_view>

namespace lockstep::test {

namespace {

Json read(const std::string& name) {
  const std::string path = std::string(LOCKSTEP_GOLDENS) + "/" + name;
  std::ifstream file(path);
  if (!file) FAIL("cannot read " << path);
  return Json::parse(file);
}
const Json& goldens() {
  static const Json file = read("goldens.json");
  return file;
}
const Json& differences() {
  static const Json file = read("differences.json");
  return file;
}

const Json& find_case(const std::string& id) {
  for (const Json& one : goldens().at("cases"))
    if (one.at("id") == id) return one;
  FAIL("goldens.json has no case " << id);
  throw std::logic_error("unreachable");
}

/// TensorFlow's name.
std::string dtype_name(DType dtype) { return dtype == DType::boolean ? "bool" : std::string(name(dtype)); }

template <Element T>
Json nested(const std::vector<T>& values, const Shape& shape, int axis, std::size_t& next) {
  if (axis == shape.rank()) {
    const T value = values[next++];
    if constexpr (std::same_as<T, bool> || std::integral<T>)
      return static_cast<T>(value);
    else
      return number_or_text(static_cast<double>(value));
  }
  Json list = Json::array();
  for (std::int64_t i = 0; i < shape[axis]; ++i) list.push_back(nested(values, shape, axis + 1, next));
  return list;
}

bool agree_as_they_are(const Json& a, const Json& b) {
  if (a.is_boolean() || b.is_boolean()) return a == b;
  if (a.is_number() && b.is_number()) {
    const double x = a.get<double>();
    const double y = b.get<double>();
    return std::abs(x - y) <= 1e-6 * std::max(1.0, std::max(std::abs(x), std::abs(y)));
  }
  if (!a.is_array() || !b.is_array()) return a == b;
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!agree_as_they_are(a[i], b[i])) return false;
  return true;
}

const Json* member(const Json& value, const char* key) {
  return value.is_object() && value.contains(key) ? &value.at(key) : nullptr;
}
/// The components of a distributed value.
const Json* components(const Json& value) {
  for (const char* const key : {"mirrored", "components", "per_replica"})
    if (const Json* const found = member(value, key)) return found;
  return nullptr;
}
/// The components of a distributed value, or the members of a list.
const Json* parts(const Json& value) {
  for (const char* const key : {"tuple", "list"})
    if (const Json* const found = member(value, key)) return found;
  return components(value);
}
const Json* leaf_value(const Json& value) {
  if (const Json* const found = member(value, "host")) return found;
  return member(value, "value");
}
const Json* leaf_dtype(const Json& value) {
  if (const Json* const found = member(value, "numpy")) return found;
  return member(value, "dtype");
}

bool all_agree(const Json& list, const Json& value) {
  for (const Json& one : list)
    if (!agree(one, value)) return false;
  return !list.empty();
}

}  // namespace

bool agree(const Json& a, const Json& b) {
  const Json* const kind_a = member(a, "kind");
  const Json* const kind_b = member(b, "kind");
  if (kind_a != nullptr || kind_b != nullptr)
    return kind_a != nullptr && kind_b != nullptr &&
           (*kind_a == *kind_b || *kind_a == "Other" || *kind_b == "Other");
  const auto is_nothing = [](const Json& value) {
    const Json* const list = components(value);
    return value.is_null() || (list != nullptr && std::all_of(list->begin(), list->end(),
                                                              [](const Json& x) { return x.is_null(); }));
  };
  if (a.is_null() || b.is_null()) return is_nothing(a) && is_nothing(b);
  for (const char* const key : {"rows", "indexed_slices", "dict"}) {
    const Json* const x = member(a, key);
    const Json* const y = member(b, key);
    if (x == nullptr && y == nullptr) continue;
    if (x == nullptr || y == nullptr) return false;
    if (std::string_view(key) == "rows") return agree_as_they_are(*x, *y);
    if (x->size() != y->size()) return false;
    for (const auto& [name, value] : x->items())
      if (!y->contains(name) || !agree(value, y->at(name))) return false;
    return true;
  }
  const Json* const parts_a = parts(a);
  const Json* const parts_b = parts(b);
  if (parts_a != nullptr && parts_b != nullptr && parts_a->size() == parts_b->size()) {
    for (std::size_t i = 0; i < parts_a->size(); ++i)
      if (!agree(parts_a->at(i), parts_b->at(i))) return false;
    return true;
  }
  // One component stands for all equal ones.
  if (parts_a != nullptr && components(a) != nullptr &&
      (parts_b == nullptr || components(b) == nullptr || parts_b->size() == 1))
    if (member(a, "per_replica") == nullptr || parts_a->size() == 1)
      return all_agree(*parts_a, parts_b != nullptr && parts_b->size() == 1 ? parts_b->at(0) : b);
  if (parts_b != nullptr && components(b) != nullptr &&
      (parts_a == nullptr || components(a) == nullptr || parts_a->size() == 1))
    if (member(b, "per_replica") == nullptr || parts_b->size() == 1)
      return all_agree(*parts_b, parts_a != nullptr && parts_a->size() == 1 ? parts_a->at(0) : a);
  // Host scalars are compared by their values.
  if (const Json* const list = member(a, "per_replica"); list != nullptr && member(b, "host") != nullptr)
    return all_agree(*list, b);
  if (const Json* const list = member(b, "per_replica"); list != nullptr && member(a, "host") != nullptr)
    return all_agree(*list, a);
  const Json* const value_a = leaf_value(a);
  const Json* const value_b = leaf_value(b);
  if (value_a == nullptr || value_b == nullptr) return a == b;
  const Json* const dtype_a = leaf_dtype(a);
  const Json* const dtype_b = leaf_dtype(b);
  if (dtype_a != nullptr && dtype_b != nullptr && *dtype_a != *dtype_b) return false;
  const Json* const shape_a = member(a, "shape");
  const Json* const shape_b = member(b, "shape");
  if (shape_a != nullptr && shape_b != nullptr && *shape_a != *shape_b) return false;
  return agree_as_they_are(*value_a, *value_b);
}

Json number_or_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json encode(const Tensor& tensor) {
  return dispatch(tensor.dtype(), [&]<class T>() -> Json {
    std::size_t next = 0;
    Json shape = Json::array();
    for (const std::int64_t extent : tensor.shape()) shape.push_back(extent);
    return {{"dtype", dtype_name(tensor.dtype())},
            {"shape", std::move(shape)},
            {"value", nested(tensor.to_vector<T>(), tensor.shape(), 0, next)}};
  });
}

Json encode(const Variable& variable) {
  Json components = Json::array();
  for (const Tensor& component : variable.strategy().local_results(variable))
    components.push_back(encode(component));
  return {{"variable", variable.name()}, {"components", std::move(components)}};
}

Json encode(const IndexedSlices& slices) {
  Json shape = Json::array();
  for (const std::int64_t extent : slices.dense_shape) shape.push_back(extent);
  return {{"indexed_slices",
           {{"indices", {{"value", encode(slices.indices).at("value")}}},
            {"values", encode(slices.values)},
            {"dense_shape", {{"value", std::move(shape)}}}}}};
}

Json encode(const Device& device) { return {{"host", device.index()}}; }

Json encode(const std::string& text) { return {{"host", text}}; }

Json encode_error(const std::exception& error) {
  std::string kind = "Other";
  if (dynamic_cast<const InvalidArgument*>(&error) != nullptr) kind = "InvalidArgument";
  if (dynamic_cast<const ContextError*>(&error) != nullptr) kind = "ContextError";
  if (dynamic_cast<const NotFound*>(&error) != nullptr) kind = "NotFound";
  if (dynamic_cast<const OutOfRange*>(&error) != nullptr) kind = "OutOfRange";
  if (dynamic_cast<const Unsupported*>(&error) != nullptr) kind = "Unimplemented";
  if (dynamic_cast<const CollectiveTimeout*>(&error) != nullptr) kind = "DeadlineExceeded";
  return {{"kind", kind}, {"message", error.what()}};
}

std::set<std::string>& GoldenId::all() {
  static std::set<std::string> ids;
  return ids;
}
GoldenId::GoldenId(const char* id) { all().insert(id); }

Golden::Golden(std::string id)
    : id_(std::move(id)), results_(find_case(id_).at("results")), device_(TestBackend::device(0)) {
  for (const Json& one : differences().at("differences"))
    if (one.at("case") == id_) differences_.emplace(one.at("result").get<std::string>(), &one);
  for (const Json& group : differences().at("not_compared"))
    if (group.at("case") == id_)
      for (const Json& name : group.at("results")) not_compared_.insert(name.get<std::string>());
}

void Golden::compare(const std::string& name, const Json& result, const Json& left) {
  INFO(id_ << ": " << name);
  if (!results_.contains(name)) FAIL("goldens.json has no such result");
  if (!made_.insert(name).second) FAIL("the result was made twice");
  const Json& golden = results_.at(name);
  INFO("TensorFlow: " << golden.dump());
  INFO("lockstep:   " << result.dump() << (left.is_null() ? "" : ", left: " + left.dump()));
  const bool is_equal = agree(golden.at("tensorflow"), result) &&
                        (!golden.contains("after") || left.is_null() || agree(golden.at("after"), left));
  if (const char* const path = std::getenv("LOCKSTEP_GOLDENS_REPORT"))  // to write differences.json by
    std::ofstream(path, std::ios::app)
        << Json({{"case", id_}, {"result", name}, {"lockstep", result}, {"left", left}, {"equal", is_equal}})
        << '\n';
  const auto difference = differences_.find(name);
  if (difference == differences_.end()) {
    CHECK(is_equal);
    return;
  }
  INFO("differences.json: " << difference->second->dump());
  CHECK_FALSE(is_equal);  // else the entry must go
  CHECK(agree(difference->second->at("lockstep"), result));
  if (difference->second->contains("left")) CHECK(agree(difference->second->at("left"), left));
}

const Json& Golden::given(const std::string& name) {
  if (name.starts_with("file ")) made_.insert(name);
  return results_.at(name).at("tensorflow");
}

void Golden::check_complete() const {
  for (const auto& [name, unused] : results_.items()) {
    INFO(id_ << ": " << name);
    CHECK(made_.contains(name) != not_compared_.contains(name));
  }
  for (const std::string& name : not_compared_) {
    INFO(id_ << ": " << name);
    CHECK(results_.contains(name));
  }
  for (const auto& [name, unused] : differences_) {
    INFO(id_ << ": " << name);
    CHECK(made_.contains(name));
  }
}

TEST_CASE("TensorFlow: every case is compared, or differences.json says why not", "[goldens]") {
  std::map<std::string, const Json*> known;
  for (const Json& one : goldens().at("cases")) known.emplace(one.at("id").get<std::string>(), &one);
  const Json& reasons = differences().at("reasons");
  std::map<std::string, std::size_t> left_out;
  for (const Json& one : differences().at("not_compared_cases")) {
    const auto id = one.at("case").get<std::string>();
    INFO(id);
    REQUIRE(known.contains(id));
    CHECK_FALSE(GoldenId::all().contains(id));
    CHECK(one.at("num_results") == known.at(id)->at("results").size());
    CHECK(reasons.contains(one.at("reason").get<std::string>()));
    left_out[id] = 1;
  }
  for (const auto& [id, unused] : known) {
    INFO(id);
    CHECK(GoldenId::all().contains(id) != left_out.contains(id));
  }
  std::set<std::string> used;
  for (const char* const list : {"differences", "not_compared", "not_compared_cases"}) {
    for (const Json& one : differences().at(list)) {
      INFO(one.dump());
      CHECK(known.contains(one.at("case").get<std::string>()));
      CHECK(reasons.contains(one.at("reason").get<std::string>()));
      used.insert(one.at("reason").get<std::string>());
    }
  }
  for (const auto& [reason, unused] : reasons.items()) {
    INFO(reason);
    CHECK(used.contains(reason));
  }
}

}  // namespace lockstep::test
