// What one thread makes, and others use without a lock: a Lazy object, the first cause of a channel's end.
#include <string_view>

#include "detail/lazy.hpp"
#include "engines/first_cause.hpp"
#include "model/holds.hpp"
#include "model/weakening.hpp"

namespace lockstep {

namespace {

struct Made {
  Made() { value($) = 7; }
  rl::var<int> value;
};

/// It is made once, and whole for all that use it.
template <int N>
struct Making : rl::test_suite<Making<N>, N> {
  model::Memory memory;
  detail::Lazy<Made> lazy{"a test"};
  int num_made = 0;
  Made* made = nullptr;

  void thread(unsigned) {
    for (int i = 0; i < 2; ++i) {
      Made& one = lazy.get([this] {
        ++num_made;
        return made = new Made;
      });
      RL_ASSERT(&one == made && static_cast<int>(one.value($)) == 7);
    }
  }
  void after() {
    RL_ASSERT(num_made == 1);
    delete made;
  }
};

/// Whoever sees that there is a cause sees the first that was given.
struct Cause : rl::test_suite<Cause, 3> {
  engines::FirstCause cause;
  rl::var<int> given[2];
  std::string seen[2];

  void before() {
    for (auto& var : given) var($) = 0;
  }
  void thread(unsigned index) {
    if (index < 2) {
      given[index]($) = 1;
      cause.set(index == 0 ? "the first" : "the second");
      return;
    }
    for (auto& text : seen) {
      model::pause();
      try {
        cause.raise_if_set("a test", "none");
      } catch (const CollectiveAborted& error) {
        text = error.what();
        RL_ASSERT(static_cast<int>(given[text.find("first") != text.npos ? 0 : 1]($)) == 1);
      }
    }
    RL_ASSERT(seen[0].empty() || seen[0] == seen[1]);
  }
};

}  // namespace

}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  using model::holds;
  return model::prove({{"2 threads make one object", holds<Making<2>>},
                       {"3 threads make one object", holds<Making<3>>},
                       {"2 give a cause, one reads it", holds<Cause>}},
                      LOCKSTEP_UNNOTICED, argc, argv);
}
