#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/detail/nest_types.hpp>
#include <lockstep/tensor.hpp>

using namespace lockstep;
using detail::describe_structure;

using Named = std::map<std::string, Tensor>;

TEST_CASE("a structure's text has its lengths, keys and absences", "[detail][host]") {
  using All = std::tuple<Named, std::vector<Tensor>, std::optional<Tensor>, std::optional<Tensor>>;
  CHECK(describe_structure(All{{{"a", {}}, {"b", {}}}, {Tensor(), Tensor()}, Tensor(), std::nullopt}) ==
        "({a: *, b: *}, [*, *], *, none)");
  CHECK(describe_structure(std::tuple<Tensor, Tensor>()).empty());
  CHECK(describe_structure(Named{{"a:}\\", {}}, {std::string("b\0c", 3), {}}}) == R"({a\:\}\\: *, b\0c: *})");
}

TEST_CASE("different structures of a type have different texts", "[detail][host]") {
  const std::vector<std::vector<Named>> maps{
      {},
      {{}},
      {{}, {}},
      {{}, {{"a", {}}}},
      {{{"}, {a", {}}}},
      {{{"a", {}}, {"b", {}}}},
      {{{"a: *, b", {}}}},
      {{{"a", {}}}, {{"b", {}}}},
      {{{"a: *}, {b", {}}}},
      {{{"a\\: *, b", {}}}},
      {{{"a\\", {}}}},
      {{{"a\\\\", {}}}},
      {{{std::string(1, '\0'), {}}}},
      {{{"\\0", {}}}},
      {{{"0", {}}}},
      {{{"", {}}}},
  };
  std::set<std::string> texts;
  for (const auto& structure : maps) texts.insert(describe_structure(structure));
  CHECK(texts.size() == maps.size());

  using Twice = std::optional<std::optional<Tensor>>;
  CHECK(describe_structure(Twice()) != describe_structure(Twice(std::optional<Tensor>())));
  CHECK(describe_structure(Twice(Tensor())) != describe_structure(Twice(std::optional<Tensor>())));
}
