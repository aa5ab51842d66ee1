#include "cluster/slurm.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using test::says;
using Names = std::vector<std::string>;

namespace {

Names nodes(const std::string& list) {
  const cluster::EnvironmentVariables variables = {{"NODES", list}};
  return detail::parse_node_list({variables, "Slurm"}, "NODES");
}

std::vector<int> counts(const std::string& list) {
  const cluster::EnvironmentVariables variables = {{"COUNTS", list}};
  return detail::parse_tasks_per_node({variables, "Slurm"}, "COUNTS");
}

}  // namespace

TEST_CASE("lists of nodes are written out", "[cluster][host]") {
  struct Row {
    std::string list;
    Names names;
  };
  const auto row = GENERATE(values<Row>({
      {"a", {"a"}},
      {"a,b-1,c.d", {"a", "b-1", "c.d"}},
      {"node[01-03,7]", {"node01", "node02", "node03", "node7"}},
      {"node[8-11],login", {"node8", "node9", "node10", "node11", "login"}},
      {"node[098-101]", {"node098", "node099", "node100", "node101"}},
      {"n[3]", {"n3"}},
      {"n[0-0]", {"n0"}},
      {"n[001-3]", {"n001", "n002", "n003"}},
      {"n[1-2]-ib,x", {"n1-ib", "n2-ib", "x"}},
      {"rack[0-1]n[1-2]", {"rack0n1", "rack0n2", "rack1n1", "rack1n2"}},
      {"[1-2]", {"1", "2"}},
      {"n[999999999999999998-999999999999999999]", {"n999999999999999998", "n999999999999999999"}},
  }));
  CAPTURE(row.list);
  CHECK(nodes(row.list) == row.names);
}

TEST_CASE("a list of nodes that cannot be read is refused", "[cluster][host]") {
  struct Row {
    std::string list, why;
  };
  const auto row = GENERATE(values<Row>({
      {",", "a host has no name"},
      {"a,", "a host has no name"},
      {"a,,b", "a host has no name"},
      {"a b", "'a b' is not part of a host's name"},
      {"a]", "'a]' is not part of a host's name"},
      {"a[1]]", "']' is not part of a host's name"},
      {"a[", "'' is not a range of numbers"},
      {"a[]", "'' is not a range of numbers"},
      {"a[1", "a bracket is not closed"},
      {"a[1,", "'' is not a range of numbers"},
      {"a[[1]]", "'[1' is not a range of numbers"},
      {"a[1-]", "'1-' is not a range of numbers"},
      {"a[-1]", "'-1' is not a range of numbers"},
      {"a[1-2-3]", "'1-2-3' is not a range of numbers"},
      {"a[x]", "'x' is not a range of numbers"},
      {"a[3-1]", "the range '3-1' ends before it begins"},
      {"a[1000000000000000000]", "is not a range of numbers"},
      {"a[0-65536]", "it has more than 65536 hosts"},
      {"a[0-999999999999999999]", "it has more than 65536 hosts"},
      {"a[0-65535],b", "it has more than 65536 hosts"},
      {"a[0-65535,1]", "it has more than 65536 hosts"},
      {"a[0-255][0-256]", "it has more than 65536 hosts"},
      {std::string(256, 'a'), "a host's name has more than 255 bytes"},
      {std::string(254, 'a') + "[10]", "a host's name has more than 255 bytes"},
  }));
  CAPTURE(row.list);
  CHECK_THROWS_MATCHES(nodes(row.list), InvalidArgument,
                       says("from_environment (Slurm): NODES is '" + row.list.substr(0, 100), row.why));
}

TEST_CASE("a list of nodes may have as many as a cluster", "[cluster][host]") {
  CHECK(nodes("a[0-65535]").size() == 65536);
  CHECK(nodes("a[0-255][0-255]").back() == "a255255");
  CHECK(nodes(std::string(255, 'a')).front().size() == 255);
}

TEST_CASE("numbers of tasks are written out", "[cluster][host]") {
  CHECK(counts("4") == std::vector<int>{4});
  CHECK(counts("2(x3),1") == std::vector<int>{2, 2, 2, 1});
  CHECK(counts("1,2(x1),3") == std::vector<int>{1, 2, 3});
  CHECK(counts("1(x65536)").size() == 65536);
}

TEST_CASE("numbers of tasks that cannot be read are refused", "[cluster][host]") {
  struct Row {
    std::string list, why;
  };
  const auto row = GENERATE(values<Row>({
      {"0", "'0' is not a number of tasks"},
      {"x", "'x' is not a number of tasks"},
      {"2,", "'' is not a number of tasks"},
      {",2", "'' is not a number of tasks"},
      {"2(x0)", "'2(x0)' is not a number of tasks"},
      {"2(x3", "'2(x3' is not a number of tasks"},
      {"2(x)", "'2(x)' is not a number of tasks"},
      {"(x3)", "'(x3)' is not a number of tasks"},
      {"2(x3)1", "'2(x3)1' is not a number of tasks"},
      {"2x3", "'2x3' is not a number of tasks"},
      {"-1", "'-1' is not a number of tasks"},
      {"99999999999", "'99999999999' is not a number of tasks"},
      {"1(x65537)", "it has more than 65536 nodes"},
      {"1(x65536),1", "it has more than 65536 nodes"},
  }));
  CAPTURE(row.list);
  CHECK_THROWS_MATCHES(counts(row.list), InvalidArgument, says("COUNTS is '" + row.list + "'", row.why));
}

TEST_CASE("tasks are distributed in blocks, or round the nodes that have room", "[cluster][host]") {
  const auto places = [](bool cyclic) {
    std::vector<std::pair<std::size_t, int>> result;
    for (const auto& [node, local_id] : detail::distribute_tasks({2, 1, 3}, cyclic))
      result.emplace_back(node, local_id);
    return result;
  };
  using Places = std::vector<std::pair<std::size_t, int>>;
  CHECK(places(false) == Places{{0, 0}, {0, 1}, {1, 0}, {2, 0}, {2, 1}, {2, 2}});
  CHECK(places(true) == Places{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {2, 1}, {2, 2}});
}
