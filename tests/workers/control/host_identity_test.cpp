#include "workers/control/host_identity.hpp"

#include <cstdlib>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <unistd.h>

#include "support/child_process.hpp"

using lockstep::detail::host_identity;

TEST_CASE("a host is known by its name and the id of its start, or by a variable", "[workers][host]") {
  CHECK(lockstep::test::in_child([] {
          ::unsetenv("LOCKSTEP_HOST_ID");
          const std::string own = host_identity();
          char name[256] = "";
          ::gethostname(name, sizeof name - 1);
          if (own.find(std::string(name) + "/") != 0 || own != host_identity()) return 4;
          ::setenv("LOCKSTEP_HOST_ID", "rack 1", 1);
          if (host_identity() != "rack 1") return 5;
          ::setenv("LOCKSTEP_HOST_ID", "", 1);
          return host_identity() == own ? 3 : 6;
        }) == 3);
}
