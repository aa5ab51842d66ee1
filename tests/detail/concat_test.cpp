#include "detail/concat.hpp"

#include <locale>
#include <sstream>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

using namespace lockstep;

namespace {

/// Writes 1234567.5 as "1.234.567,5", and true as "ja".
struct Grouping : std::numpunct<char> {
  char do_thousands_sep() const override { return '.'; }
  char do_decimal_point() const override { return ','; }
  std::string do_grouping() const override { return "\3"; }
  std::string do_truename() const override { return "ja"; }
};

const std::locale grouping(std::locale::classic(), new Grouping);

/// As the program's locale, for a scope.
class GlobalGrouping {
 public:
  GlobalGrouping() : before_(std::locale::global(grouping)) {}
  ~GlobalGrouping() { std::locale::global(before_); }

 private:
  std::locale before_;
};

template <class T>
std::string printed(const T& value) {
  std::ostringstream out;
  out.imbue(grouping);
  out << value;
  return out.str();
}

}  // namespace

TEST_CASE("text does not depend on the program's locale", "[detail][host]") {
  const GlobalGrouping here;
  REQUIRE((std::ostringstream() << 1234).str() == "1.234");
  CHECK(detail::concat(1234567, ' ', 1234.5, ' ', true) == "1234567 1234.5 true");
  CHECK(Device("CPU:1234").to_string() == "CPU:1234");
  CHECK(Device("/job:worker/task:1234/device:CPU:0").canonical_name() ==
        "/job:worker/replica:0/task:1234/device:CPU:0");
  CHECK(to_string(Shape(1234, 5)) == "[1234, 5]");
  CHECK(describe(Tensor::zeros({1234})) == "[1234] float32 on CPU:0");
  try {
    static_cast<void>(Tensor::zeros({1234}).slice(0, 1235));
    FAIL("not refused");
  } catch (const InvalidArgument& error) {
    CHECK(std::string(error.what()).find("[0, 1235)") != std::string::npos);
  }
  CHECK(Device(Device("CPU:1234").to_string()) == Device(DeviceKind::cpu, 1234));
  CHECK(memory_stats("CPU:0").free_bytes > 0);
}

TEST_CASE("what is printed does not depend on the stream's locale", "[detail][host]") {
  CHECK(printed(Device("CPU:1234")) == "CPU:1234");
  CHECK(printed(Shape(1234, 5)) == "[1234, 5]");
  const TensorSpec spec({1234, std::nullopt}, DType::f32);
  CHECK(printed(spec) == to_string(spec));
  CHECK(printed(spec).find("1234") != std::string::npos);
  CHECK(printed(cluster::Task{"worker", 1234}) == "worker 1234");
  CHECK(printed(cluster::ClusterSpec{{"worker", {{1234, "a:1"}}}}) == "{worker: {1234: a:1}}");
}
