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

namespace {

/// More members than the macro took once, 40.
struct Wide {
#define LOCKSTEP_TEST_MEMBERS(m) \
  m##0, m##1, m##2, m##3, m##4, m##5, m##6, m##7, m##8, m##9, m##a, m##b, m##c, m##d, m##e, m##f
  Tensor LOCKSTEP_TEST_MEMBERS(x), LOCKSTEP_TEST_MEMBERS(y), LOCKSTEP_TEST_MEMBERS(z);
};
LOCKSTEP_NEST(Wide, LOCKSTEP_TEST_MEMBERS(x), LOCKSTEP_TEST_MEMBERS(y), LOCKSTEP_TEST_MEMBERS(z))

}  // namespace

TEST_CASE("a struct of many members is a nest", "[detail][host]") {
  Wide wide;
  STATIC_REQUIRE(std::tuple_size_v<decltype(lockstep_nest_members(wide))> == 48);
  CHECK(&std::get<47>(lockstep_nest_members(wide)) == &wide.zf);
  int leaves = 0;
  detail::for_each_leaf(wide, [&](const Tensor&) { ++leaves; });
  CHECK(leaves == 48);
}

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
