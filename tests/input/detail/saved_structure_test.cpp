#include <catch2/catch_test_macros.hpp>

#include <lockstep/input/detail/saved_structure.hpp>

using namespace lockstep;
using detail::load_structure;
using detail::save_structure;

namespace saved_structure_test {
using Texts = std::vector<std::string>;
using List = std::vector<Tensor>;

struct Batch {
  Tensor image;
  List labels;
};
LOCKSTEP_NEST(Batch, image, labels)

using Map = std::map<std::string, List>;
using All = std::tuple<Tensor, std::pair<std::optional<Tensor>, Map>, std::array<List, 2>, Batch>;

constexpr std::uint64_t kMany = 1000;

/// The text that describes what is loaded; "bad" where nothing is.
template <class T>
std::string loaded(const Texts& saved, std::uint64_t max_parts = kMany) {
  const std::optional<T> structure = load_structure<T>(saved, max_parts);
  return structure ? detail::describe_structure(*structure) : "bad";
}
}  // namespace saved_structure_test

using namespace saved_structure_test;

TEST_CASE("lengths, keys and absences of nests are saved and loaded", "[input][host]") {
  CHECK(save_structure(Tensor()).empty());
  CHECK(save_structure(std::tuple(Tensor(), Tensor())).empty());
  const All all(Tensor(), {Tensor(), {{"a", List(2)}, {"b", {}}}}, {List(1), List(3)}, {Tensor(), List(2)});
  const Texts saved = save_structure(all);
  CHECK(saved == Texts{"1", "2", "a", "2", "b", "0", "1", "3", "2"});
  CHECK(loaded<All>(saved) == detail::describe_structure(all));
  CHECK(loaded<std::optional<Tensor>>(save_structure(std::optional<Tensor>())) == "none");
  CHECK(loaded<Tensor>({}).empty());
}

TEST_CASE("a structure of another type, or of none, is not loaded", "[input][host]") {
  CHECK(loaded<Tensor>({"1"}) == "bad");
  CHECK(loaded<List>({}) == "bad");
  CHECK(loaded<List>({"two"}) == "bad");
  CHECK(loaded<List>({"2x"}) == "bad");
  CHECK(loaded<List>({"-1"}) == "bad");
  CHECK(loaded<List>({"99999999999999999999"}) == "bad");
  CHECK(loaded<List>({"2", "2"}) == "bad");
  CHECK(loaded<std::optional<Tensor>>({"2"}) == "bad");
  CHECK(loaded<Map>({"2", "a", "1", "a", "1"}) == "bad");
  CHECK(loaded<Map>({"1", "a"}) == "bad");
}

TEST_CASE("lengths beyond what there can be are not loaded", "[input][host]") {
  CHECK(loaded<List>({"3"}, 3) == "[*, *, *]");
  CHECK(loaded<List>({"4"}, 3) == "bad");
  CHECK(loaded<List>({"18446744073709551615"}) == "bad");
  CHECK(loaded<std::vector<List>>({"2", "1", "1"}, 4) == "[[*], [*]]");
  CHECK(loaded<std::vector<List>>({"2", "1", "2"}, 4) == "bad");
}
