#include <lockstep/error.hpp>
#include <lockstep/input/detail/positioned.hpp>

#include "detail/expects.hpp"
#include "input/pipeline/stopping.hpp"

namespace lockstep::detail {

void skip_to(const readers::Position& position, FunctionRef<bool()> next) {
  LOCKSTEP_EXPECTS(position.size() == 1, InvalidArgument, "restore_state: a generator's position has ",
                   position.size(), " numbers, not one. Restore a state that this dataset has saved.");
  for (std::uint64_t i = 0; i < position[0]; ++i) {
    check_stop();
    try {
      if (!next()) return;
    } catch (const Stopped&) {
      throw;
    } catch (...) {  // was thrown before the state was saved
    }
  }
}

}  // namespace lockstep::detail
