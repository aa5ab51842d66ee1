// The list of groups, which a report reads while they are made and end.
#include <optional>
#include <string>
#include <vector>

#include "model/holds.hpp"
#include "model/weakening.hpp"
#include "trace/call_group.hpp"

namespace lockstep::detail {

namespace {

/// A group that a report sees lives as long as the report looks at it. Owners make a group each, and another
/// one in its place.
template <int kOwners, int kReaders>
struct Reports : rl::test_suite<Reports<kOwners, kReaders>, kOwners + kReaders> {
  model::Memory memory;
  std::optional<CallGroup> groups[kOwners][2];
  rl::var<int> lives[kOwners][2];

  void before() {
    for (auto& of_owner : lives)
      for (auto& var : of_owner) var($) = 0;
  }
  void thread(unsigned index) {
    const int thread = static_cast<int>(index);
    if (thread < kOwners) {
      for (int which = 0; which < 2; ++which) {
        lives[thread][which]($) = 1;
        groups[thread][which].emplace(std::vector<std::string>{"rank 0"}, "rank");
        model::pause();
        groups[thread][which].reset();
        lives[thread][which]($) = 0;
      }
      return;
    }
    for (int i = 0; i < 2; ++i) {
      model::pause();
      CallGroup::for_each([&](const CallGroup& group) {
        for (int owner = 0; owner < kOwners; ++owner)
          for (int which = 0; which < 2; ++which)
            if (&group == &*groups[owner][which]) RL_ASSERT(static_cast<int>(lives[owner][which]($)) == 1);
      });
    }
  }
};

}  // namespace

}  // namespace lockstep::detail

int main(int argc, char** argv) {
  using namespace lockstep::detail;
  using lockstep::model::holds;
  return lockstep::model::prove({{"a report of an owner's groups", holds<Reports<1, 1>>},
                                 {"2 reports", holds<Reports<1, 2>>},
                                 {"a report of 2 owners' groups", holds<Reports<2, 1>>}},
                                LOCKSTEP_UNNOTICED, argc, argv);
}
