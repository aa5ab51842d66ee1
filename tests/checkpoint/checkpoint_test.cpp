#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>

#include "support/dtypes.hpp"
#include "support/matchers.hpp"
#include "support/safetensors_bytes.hpp"
#include "support/temporary_directory.hpp"
#include "support/test_backend.hpp"

using namespace lockstep;
using test::read_bytes;
using test::safetensors_bytes;
using test::safetensors_entry;
using test::says;
using test::TemporaryDirectory;
using test::write_bytes;

namespace {

Variable scalar(float value, std::string name = "v") {
  return Variable(Tensor::scalar(value), {.name = std::move(name)});
}

float item(const Variable& variable) { return variable.value().item<float>(); }

/// What an optimizer is to a checkpoint.
struct Slots {
  NamedVariables all;
  NamedVariables variables() const { return all; }
};

template <class T>
concept AddableTemporary = requires(Checkpoint& checkpoint, T object) {
  checkpoint.add("prefix", std::move(object));
};
static_assert(!AddableTemporary<Slots>);
static_assert(AddableTemporary<Variable>);

}  // namespace

TEST_CASE("variables are saved and restored under their keys", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Variable w(Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}), {.name = "w"});
  Variable b = scalar(7, "b");
  Checkpoint c({{"w", w}, {"b", b}});
  c.save(directory / "f");
  CHECK(directory.names() == std::set<std::string>{"f"});
  w.assign(0);
  b.assign(0);
  c.restore(directory / "f");
  CHECK(w.value().to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(item(b) == 7);
}

TEST_CASE("a checkpoint is made of a list, of a vector, or step by step", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Variable a = scalar(1), b = scalar(2);
  const NamedVariables variables{{"a", a}, {"b", b}};
  Checkpoint({{"a", a}, {"b", b}}).save(directory / "list");
  Checkpoint(variables).save(directory / "vector");
  Checkpoint().add("b", b).add("a", a).save(directory / "steps");
  CHECK(read_bytes(directory / "list") == read_bytes(directory / "vector"));
  CHECK(read_bytes(directory / "list") == read_bytes(directory / "steps"));
  Checkpoint({{"a", a}}).save(directory / "one");
  a.assign(0);
  Checkpoint({{"a", a}}).restore(directory / "one");
  CHECK(item(a) == 1);
  Checkpoint().save(directory / "none");
  Checkpoint().restore(directory / "none");
}

TEMPLATE_LIST_TEST_CASE("every dtype is restored bit for bit", "[checkpoint][host]", test::AllTypes) {
  const TemporaryDirectory directory;
  for (const Shape& shape : {Shape(), Shape(0), Shape(2, 0), Shape(7), Shape(3, 5)}) {
    Variable variable(Tensor::full(shape, TestType(1)));
    const Tensor saved = variable.value();
    Checkpoint c({{"v", variable}});
    c.save(directory / "f");
    variable.assign(0);
    c.restore(directory / "f");
    CHECK(variable.value().template to_vector<TestType>() == saved.to_vector<TestType>());
  }
}

TEST_CASE("strided values are saved row by row", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const Tensor rows = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
  Variable column(rows.narrow(1, 1, 2));
  Checkpoint c({{"c", column}});
  c.save(directory / "f");
  column.assign(0);
  c.restore(directory / "f");
  CHECK(column.value().to_vector<float>() == std::vector<float>{2, 4});
}

TEST_CASE("an object's variables are those it has at the time", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Variable w = scalar(1), step = scalar(2), slot = scalar(3);
  Slots optimizer{{{"step", step}}};
  Checkpoint c({{"w", w}});
  c.add("optimizer", optimizer);
  c.save(directory / "without");
  optimizer.all.emplace_back("slots/w", slot);
  c.save(directory / "with");
  for (Variable* const variable : {&w, &step, &slot}) variable->assign(0);
  c.restore(directory / "with");
  CHECK(item(w) == 1);
  CHECK(item(step) == 2);
  CHECK(item(slot) == 3);
  Checkpoint named({{"w", w}, {"optimizer/step", step}, {"optimizer/slots/w", slot}});
  CHECK_NOTHROW(named.restore(directory / "with"));

  CHECK_THROWS_MATCHES(c.restore(directory / "without"), InvalidArgument,
                       says("has no entry 'optimizer/slots/w' for the variable 'v', [] float32"));
  optimizer.all.pop_back();
  CHECK_THROWS_MATCHES(c.restore(directory / "with"), InvalidArgument,
                       says("entry 'optimizer/slots/w', [] float32: no variable has this key",
                            "slots exist once their optimizer has made them"));
}

TEST_CASE("keys that cannot be are refused", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const Variable a = scalar(1, "a"), b = scalar(2, "b");
  CHECK_THROWS_MATCHES(Checkpoint({{"k", a}, {"k", b}}), InvalidArgument,
                       says("Checkpoint::add: the key 'k' of the variable 'b' is that of the variable 'a'"));
  CHECK_THROWS_MATCHES(Checkpoint(NamedVariables{{"", a}}), InvalidArgument, says("a key is empty"));
  CHECK_THROWS_MATCHES(Checkpoint().add("__metadata__", a), InvalidArgument, says("'__metadata__'"));
  CHECK_THROWS_MATCHES(Checkpoint().add("\xff", a), InvalidArgument, says("not UTF-8", "Use another one"));
  const Slots slots{{{"x", a}, {"x", b}}};
  CHECK_THROWS_MATCHES(Checkpoint().add("", slots), InvalidArgument, says("a key is empty"));
  Checkpoint twice;
  twice.add("p", slots);
  CHECK_THROWS_MATCHES(twice.save(directory / "f"), InvalidArgument,
                       says("Checkpoint::save: the key 'p/x' of the variable 'b'"));
  CHECK_THROWS_MATCHES(twice.restore(directory / "f"), InvalidArgument,
                       says("Checkpoint::restore: the key 'p/x'"));
  const Slots other{{{"y", b}}};
  Checkpoint met({{"p/y", a}});
  met.add("p", other);
  CHECK_THROWS_MATCHES(met.save(directory / "f"), InvalidArgument, says("the key 'p/y'"));
  CHECK(directory.names().empty());
}

TEST_CASE("a file that does not match is refused by entry, and nothing changes", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Variable a(Tensor::from<float>({1, 2}, {2}), {.name = "first"});
  Variable b(Tensor::from<float>({3, 4}, {2}), {.name = "second"});
  Checkpoint c({{"a", a}, {"b", b}});
  const auto check = [&](const NamedVariables& saved, auto... parts) {
    Checkpoint(saved).save(path);
    CHECK_THROWS_MATCHES(c.restore(path), InvalidArgument,
                         says("Checkpoint::restore: \"" + path.string() + "\"", parts...));
    CHECK(a.value().to_vector<float>() == std::vector<float>{1, 2});
    CHECK(b.value().to_vector<float>() == std::vector<float>{3, 4});
  };
  const Variable fits(Tensor::zeros({2}));
  check({{"a", fits}}, " has no entry 'b' for the variable 'second', [2] float32", "leave the variable out");
  check({{"a", fits}, {"b", fits}, {"x", scalar(0)}}, ", entry 'x', [] float32: no variable has this key",
        "ignore_unknown_entries");
  check({{"a", fits}, {"b", Variable(Tensor::zeros({2, 1}))}},
        ", entry 'b': it is [2, 1] float32, the variable 'second' [2] float32", "that were saved");
  check({{"a", fits}, {"b", Variable(Tensor::zeros({2}, DType::f64))}},
        ", entry 'b': it is [2] float64, the variable 'second' [2] float32");
  check({{"a", fits}, {"b", Variable(Tensor::zeros({2}, DType::i32))}}, "[2] int32");
}

TEST_CASE("entries without a variable are ignored on request", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Variable a = scalar(1), b = scalar(2);
  Checkpoint({{"a", a}, {"b", b}}).save(directory / "f");
  a.assign(0);
  Checkpoint c({{"a", a}});
  CHECK_THROWS_AS(c.restore(directory / "f"), InvalidArgument);
  CHECK(item(a) == 0);
  c.restore(directory / "f", {.ignore_unknown_entries = true});
  CHECK(item(a) == 1);
  Checkpoint more({{"a", a}, {"c", b}});
  CHECK_THROWS_MATCHES(more.restore(directory / "f", {.ignore_unknown_entries = true}), InvalidArgument,
                       says("has no entry 'c'"));
}

TEST_CASE("entries of dtypes and ranks that no Tensor has are ignored on request", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const std::string header = "{" + safetensors_entry("w", "F32", "2", "0,8") + "," +
                             safetensors_entry("scales", "F8_E8M0", "3", "8,11") + "," +
                             safetensors_entry("fours", "F4", "2", "11,12") + "," +
                             safetensors_entry("waves", "C64", "1", "12,20") + "," +
                             safetensors_entry("deep", "U8", "1,1,1,1,1,1,1,1,2", "20,22") + "," +
                             safetensors_entry("b", "U8", "", "22,23") + "}";
  write_bytes(directory / "f",
              safetensors_bytes(header, std::string("\0\0\x80\x3f\0\0\0\x40", 8) + std::string(15, '\7')));
  Variable w(Tensor::zeros({2})), b(Tensor::scalar(std::uint8_t{0})), other(Tensor::zeros({3}));
  Checkpoint c({{"w", w}, {"b", b}});
  CHECK_THROWS_MATCHES(c.restore(directory / "f"), InvalidArgument,
                       says(", entry 'deep', its rank is not supported, at most 8: no variable has this key",
                            "ignore_unknown_entries"));
  CHECK(w.value().to_vector<float>() == std::vector<float>{0, 0});
  c.restore(directory / "f", {.ignore_unknown_entries = true});
  CHECK(w.value().to_vector<float>() == std::vector<float>{1, 2});
  CHECK(b.value().item<std::uint8_t>() == 7);
  Checkpoint wants({{"w", w}, {"scales", other}});
  w.assign(0);
  CHECK_THROWS_MATCHES(wants.restore(directory / "f", {.ignore_unknown_entries = true}), InvalidArgument,
                       says(", entry 'scales' for the variable",
                            "its dtype 'F8_E8M0' is not supported, only F16", "Convert it before"));
  CHECK(w.value().to_vector<float>() == std::vector<float>{0, 0});
}

TEST_CASE("a missing file is not found", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Checkpoint c({{"a", scalar(1)}});
  CHECK_THROWS_MATCHES(
      c.restore(directory / "none"), NotFound,
      says("Checkpoint::restore: \"" + (directory / "none").string() + "\" cannot be opened"));
  CHECK_THROWS_MATCHES(c.save(directory / "none/f"), NotFound,
                       says("Checkpoint::save: \"" + (directory / "none/f").string() + "\"", "no folder"));
}

TEST_CASE("a file cut short anywhere is refused, and nothing changes", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Variable a = scalar(1), b = scalar(2);
  Checkpoint c({{"a", a}, {"b", b}});
  c.save(path);
  const std::string bytes = read_bytes(path);
  a.assign(3);
  b.assign(4);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    write_bytes(path, bytes.substr(0, size));
    REQUIRE_THROWS_AS(c.restore(path), InvalidArgument);
    REQUIRE(item(a) == 3);
    REQUIRE(item(b) == 4);
  }
  write_bytes(path, bytes.substr(0, bytes.size() - 1));
  CHECK_THROWS_MATCHES(c.restore(path), InvalidArgument,
                       says("Checkpoint::restore: ", ", entry 'b'", "exceed the 7 bytes of data"));
  write_bytes(path, bytes + '\0');
  CHECK_THROWS_MATCHES(c.restore(path), InvalidArgument, says("1 bytes after the data of the last entry"));
}

TEST_CASE("files of other writers are read", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const std::string header = R"({"__metadata__":{"format":"pt"},)" +
                             safetensors_entry("b", "F32", "", "4,8") + "," +
                             safetensors_entry("a", "F32", "", "0,4") + "}";
  write_bytes(directory / "f", safetensors_bytes(header, std::string_view("\0\0\x80\x3f\0\0\0\x40", 8)));
  Variable a = scalar(0), b = scalar(0);
  Checkpoint({{"a", a}, {"b", b}}).restore(directory / "f");
  CHECK(item(a) == 1);
  CHECK(item(b) == 2);
}

TEST_CASE("a snapshot taken before is not changed", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  Variable a = scalar(1);
  Checkpoint c({{"a", a}});
  c.save(directory / "f");
  a.assign(2);
  const Tensor before = a.value();
  c.restore(directory / "f");
  CHECK(before.item<float>() == 2);
  CHECK(item(a) == 1);
}

TEST_CASE("equal values make equal files", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const Variable a = scalar(1), b(Tensor::zeros({3}, DType::u8));
  const Slots slots{{{"a", a}}};
  Checkpoint first({{"x/a", a}, {"b", b}});
  Checkpoint second({{"b", b}});
  second.add("x", slots);
  first.save(directory / "1");
  first.save(directory / "2");
  second.save(directory / "3");
  CHECK(read_bytes(directory / "1") == read_bytes(directory / "2"));
  CHECK(read_bytes(directory / "1") == read_bytes(directory / "3"));
}

TEST_CASE("a process killed while it saves leaves the old file or the new one", "[checkpoint][host]") {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  Variable a(Tensor::zeros({1 << 18})), b(Tensor::zeros({1 << 16}, DType::i64));
  Checkpoint c({{"a", a}, {"b", b}});
  c.save(path);
  std::mt19937 random(1);
  std::int64_t last = 0;
  int num_written = 0;
  for (int round = 0; round < (kSlowBuild ? 10 : 60); ++round) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (std::int64_t k = last + 1;; ++k) {
        a.assign(static_cast<float>(k));
        b.assign(k);
        c.save(path);
      }
    }
    // Longer where the machine is too slow to write anything.
    usleep(static_cast<useconds_t>(random() % (num_written > 0 ? 40'000 : 40'000 << std::min(round, 6))));
    kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    REQUIRE(WTERMSIG(status) == SIGKILL);

    c.restore(path);
    const std::int64_t k = max(b.value(), 0).item<std::int64_t>();
    REQUIRE(b.value().to_vector<std::int64_t>() == std::vector<std::int64_t>(1 << 16, k));
    REQUIRE(a.value().to_vector<float>() == std::vector<float>(1 << 18, static_cast<float>(k)));
    REQUIRE(k >= last);
    num_written += k > last;
    last = k;
  }
  CHECK(num_written > 0);
}
