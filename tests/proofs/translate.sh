#!/bin/sh
# translate.sh ROOT SOURCE OUTPUT: a source under the root, with the model's types (model/model.hpp) in place of std's, line by line, so
# that a place in it is the same place in the original. Sizes are smaller where executions would be longer and show no more.
set -eu
mkdir -p "$(dirname "$3")"
sed -E \
  -e 's/static_assert\(.*std::atomic.*//' \
  -e '/listeners_of_process_/!s/^(.*constinit.*)std::atomic</\1model::placed_atomic</' \
  -e 's/std::atomic<std::uint32_t> stamp;/model::placed_atomic<std::uint32_t> stamp;/' \
  -e 's/std::atomic<([^<>]*)> (state_\{0\}|holder_\{)/model::placed_atomic<\1> \2/' \
  -e 's/std::atomic<std::uint32_t>& state([,)])/model::placed_atomic<std::uint32_t>\& state\1/'  \
  -e 's/^std::atomic</model::placed_atomic</' \
  -e 's/&this_thread/model::this_thread()/' \
  -e 's/kMaxListed = 1024/kMaxListed = 2/' \
  -e '/static (constinit )?inline std::atomic|std::atomic<Process>/!s/std::atomic</model::atomic</g' \
  -e 's/std::atomic_ref/model::atomic_ref/' \
  -e "s#std::memory_order_(acquire|release|acq_rel|seq_cst)#model::order(\"$2\", __LINE__, rl::mo_\1)#g" \
  -e '/atomic<Process>|num_host_threads_|slept_in_|started_in_/!s/std::memory_order_relaxed/rl::mo_relaxed/g' \
  -e 's/std::atomic_thread_fence\(/model::fence(/' \
  -e 's/std::(mutex|condition_variable)([ >])/model::\1\2/g' \
  -e 's/std::thread([&>])/model::thread\1/; s/(threads_.push_back\()start_thread/\1model::start_thread/' \
  -e 's/Numa::machine\(\)\.core\(\)/0/; s/Numa::machine\(\)\.move_to_core\(.*\);//' \
  -e 's/^( *)job->function\(replica\);/\1RL_ASSERT(job != nullptr); job->function(replica);/' \
  -e 's/std::this_thread::yield\(\)/model::yield()/' \
  -e '/deadline = /!s/std::chrono::steady_clock/model::clock/' \
  -e 's/::syscall\(SYS_futex, /model::sleep_or_wake(/' \
  -e '/shared memory/!s/( |\()Mutex (mutex)\{/\1model::OwnedMutex \2{/' \
  -e 's/kSpinsPerLook = 32/kSpinsPerLook = 1/' \
  -e 's/return linger\(num_threads, ready\)/return (model::may_linger() \&\& linger(num_threads, ready))/' \
  -e 's/if \(Parking::linger\(num_threads, ready\)\)/if (model::may_linger() \&\& Parking::linger(num_threads, ready))/' \
  -e 's/kSlotBytes = 16 << 10/kSlotBytes = 64/' \
  -e 's/kChunkBytes = 128 << 10/kChunkBytes = 64/' \
  -e 's/std::uint32_t size_bytes;/model::plain<std::uint32_t> size_bytes;/' \
  -e 's/std::ranges::copy\(part, own\.part\)/model::copy(part, own.part)/' \
  -e 's/whole\.insert\(whole\.end\(\), part\.begin\(\), part\.end\(\)\)/model::append(whole, part)/' \
  -e 's/^#include <(atomic|mutex|condition_variable)>/#include "model.hpp"/' \
  -e 's/^#include <thread>/#include "thread.hpp"/' \
  "$1/$2" >"$3"
