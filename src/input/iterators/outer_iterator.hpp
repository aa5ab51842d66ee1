#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/detail/context_frame.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>

#include "detail/expects.hpp"
#include "detail/process.hpp"
#include "detail/start_thread.hpp"
#include "detail/thread_end.hpp"
#include "input/pipeline/pipeline.hpp"
#include "input/pipeline/stopping.hpp"

namespace lockstep::detail {

/// The outermost iterator, which the user's iterator calls. It calls the iterators below as on a thread of
/// the library: in the default context, with CPU:0 and its own stream current. Their threads stop when this
/// is destroyed.
template <class T>
class OuterIterator final : public Iterator<T> {
 public:
  /// @param what  the call that messages name; outlives this.
  OuterIterator(std::unique_ptr<Iterator<T>> pass, std::string_view what)
      : iterator_(std::move(pass)), what_(what) {}
  ~OuterIterator() override {
    const bool is_own_thread = stop_.stops_this_thread();
    if (process_.is_forked() || (is_own_thread && ThreadEnd::has_begun())) {
      // The destructor would wait for threads that do not exist here, or for the thread that calls std::exit.
      static_cast<void>(iterator_.release());
      return;
    }
    stop_.request();
    if (is_own_thread) destroy_elsewhere();
  }
  /// @throws ContextError  in a fork of the process that made this.
  std::optional<T> next() override {
    return call(what_, [this] { return iterator_->next(); });
  }
  /// @throws as next.
  void transfer(PassState& state) override {
    call(state.is_saving() ? "save_state" : "restore_state", [&] { iterator_->transfer(state); });
  }

 private:
  template <class F>
  auto call(std::string_view what, const F& fn) {
    LOCKSTEP_EXPECTS(!process_.is_forked(), ContextError, what,
                     ": this process is a fork of the one that made the iterator, and has none of its "
                     "threads. Make iterators after the fork.");
    // The threads below belong to this pass; the calling thread's token decides whether this call waits.
    const StopScope scope(current_stop_token(), stop_);
    const DefaultContext context;
    const DeviceScope device{Device()};
    const StreamScope stream(host_stream_);
    return fn();
  }
  /// Destroys the pass from a function that one of its own threads calls, and which cannot wait for itself.
  void destroy_elsewhere() noexcept {
    Iterator<T>* const pass = iterator_.release();
    try {
      start_thread("Dataset: the thread that destroys an iterator", [pass] { delete pass; }).detach();
    } catch (const Error&) {
      // The threads end anyway; the memory is leaked
    }
  }

  Process process_;
  ThreadStop stop_;
  StreamRef host_stream_ = default_stream(DeviceManager::instance().open(Device()));
  std::unique_ptr<Iterator<T>> iterator_;
  std::string_view what_;
};

}  // namespace lockstep::detail
