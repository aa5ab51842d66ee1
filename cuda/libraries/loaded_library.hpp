#pragma once

#include <atomic>
#include <string>

#include "detail/lazy.hpp"

namespace lockstep::cuda {

/// A shared library that is loaded when one of its functions is first called, so that programs start on
/// machines that do not have it. It is never unloaded. Thread-safe.
class LoadedLibrary {
 public:
  /// The texts are static.
  struct Description {
    const char* needed_by;  ///< The beginning of messages, e.g. "matmul on GPUs needs cuBLAS".
    const char* file;       ///< "libcublas.so.13", as the loader finds it or the process has loaded it.
    const char* folder;     ///< Where else to look, after that.
    const char* advice;     ///< What to do without it.
    /// A function that tells whether the program has such a library already (linked, preloaded or exported),
    /// which is then used instead of the file. Null: the file is used.
    const char* global_function = nullptr;
    /// Takes that function of the library that is used. Throws Unsupported where the version is not
    /// supported.
    void (*check)(void* global_function) = nullptr;
  };

  constexpr explicit LoadedLibrary(const Description& description) noexcept : description_(description) {}

  /// @throws Unsupported  the library is missing, its version is not supported, or it has no such function.
  void* function(const char* symbol);

 private:
  struct Handle {
    void* handle;  // from dlopen; null: the program's own library
  };
  Handle load() const;

  const Description description_;
  detail::Lazy<const Handle> loaded_{"a library, which was being loaded"};
};

/// The file that has a function, for messages.
std::string file_of(void* function);

/// A function of a LoadedLibrary, to be called like the function itself.
template <class F>
class LoadedFunction;

template <class Result, class... Arguments>
class LoadedFunction<Result (*)(Arguments...)> {
 public:
  constexpr LoadedFunction(LoadedLibrary& library, const char* symbol) noexcept
      : library_(library), symbol_(symbol) {}

  /// @throws Unsupported  at the first call, see LoadedLibrary::function.
  Result operator()(Arguments... arguments) {
    Pointer function = function_.load(std::memory_order_acquire);
    if (function == nullptr) {
      function = reinterpret_cast<Pointer>(library_.function(symbol_));
      function_.store(function, std::memory_order_release);
    }
    return function(arguments...);
  }

 private:
  using Pointer = Result (*)(Arguments...);

  LoadedLibrary& library_;
  const char* const symbol_;
  std::atomic<Pointer> function_{nullptr};
};

}  // namespace lockstep::cuda

/// Declares a function of a library under its own name: in lockstep::cuda calls without a qualifier find it.
#define LOCKSTEP_LOADED_FUNCTION(library, name) \
  inline constinit LoadedFunction<decltype(&::name)> name { library, #name }
