#pragma once

#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/detail/thread_guard.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// While it lives, the thread's sgd_update_ and adam_update_ check their arguments and leave the work to
/// `make`, so that one kernel can update many variables. The variables' owner keeps them until then.
class [[nodiscard]] UpdateBatch : public ThreadGuard<UpdateBatch> {
 public:
  enum class Rule { sgd, adam };
  struct Update {
    Rule rule;
    StreamRef stream;
    backend::UpdateParameters parameters;
    backend::UpdateTensors tensors;
    Tensor gradient, first_slot, second_slot;  ///< Own what the update uses beside the variable.
  };

  /// What a batch takes from the heap, before anything is changed.
  class Memory {
   public:
    void reserve(std::size_t num_updates);

   private:
    friend class UpdateBatch;
    RecycledVector<Update> updates_;
    RecycledVector<backend::UpdateTensors> alike_;
    RecycledVector<char> is_made_;
  };

  /// @param memory  outlives this, and has room for all updates.
  explicit UpdateBatch(Memory& memory) noexcept : memory_(memory) {}

  /// Enqueues the update, or keeps it for the thread's innermost batch.
  static void add(Update update);
  /// Enqueues what was added.
  void make();

 private:
  friend class ThreadGuard<UpdateBatch>;
  static constexpr std::string_view kGuardName = "a batch of updates";
  static UpdateBatch*& innermost() noexcept;

  Memory& memory_;
};

}  // namespace lockstep::detail
