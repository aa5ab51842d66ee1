#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <lockstep/detail/pipeline.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/context.hpp>

#include "detail/process.hpp"
#include "input/stopping.hpp"

namespace lockstep::detail {

/// The pass that an iterator of the user's calls. The passes below it are called in the default context;
/// their threads stop when this is destroyed.
template <class T>
class OuterPass final : public Pass<T> {
 public:
  /// @param what  the call that messages name; outlives this.
  OuterPass(std::unique_ptr<Pass<T>> pass, std::string_view what) : pass_(std::move(pass)), what_(what) {}
  ~OuterPass() override {
    if (process_.is_forked())
      static_cast<void>(pass_.release());  // its destruction would wait for threads that are not there
    else
      stop_.request();
  }
  /// @throws ContextError  in a fork of the process that made this.
  std::optional<T> next() override {
    LOCKSTEP_EXPECTS(!process_.is_forked(), ContextError, what_,
                     ": this process is a fork of the one that made the iterator, and has none of its "
                     "threads. Make iterators after the fork.");
    // The threads below are this pass's; whether this call waits is its thread's.
    const StopScope scope(current_stop_token(), stop_.token());
    const DefaultContext context;  // as on the threads below
    return pass_->next();
  }

 private:
  Process process_;
  ThreadStop stop_;
  std::unique_ptr<Pass<T>> pass_;
  std::string_view what_;
};

}  // namespace lockstep::detail
