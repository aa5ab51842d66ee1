// A plugin that was compiled with other headers, or that has a copy of the library: LOCKSTEP_TEST_NOTE says
// which.
#include <lockstep/detail/abi.hpp>

namespace lockstep::detail {

alignas(4) [[gnu::section(".note.lockstep"), gnu::used]] static constexpr AbiNote kForeign{
    .type = LOCKSTEP_TEST_NOTE, .abi = 9999};

}  // namespace lockstep::detail
