#pragma once

#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/device_manager.hpp>

namespace lockstep::test {

/// A device as asynchronous as one can be: nothing enqueued on a stream is done before somebody waits for it.
/// Work that was ordered too weakly therefore meets bytes that are not there yet (0xaa), or not there any
/// more (0xdd, or a sanitizer).
///
/// Calls itself GPU:k, computes with the host backend's kernels, and works through a StreamScope, without the
/// device manager. One thread. Declare it before the tensors on it, and behind what enqueued work uses.
class LazyDevice final : public backend::DeviceBackend {
 public:
  using StreamHandle = backend::StreamHandle;
  using EventHandle = backend::EventHandle;
  using Work = std::function<void()>;

  explicit LazyDevice(int index = 0) : device_(DeviceKind::gpu, index), kernels_(*this) {}
  ~LazyDevice() override {
    for (const auto& queue : queues_) queue->run(queue->work.size());
  }

  const Device& device() const noexcept override { return device_; }

  void* allocate(std::size_t size_bytes, StreamHandle) override {
    ++num_allocations;
    in_use_bytes += static_cast<std::int64_t>(size_bytes);
    return std::memset(std::malloc(size_bytes), 0xaa, size_bytes);
  }
  void deallocate(void* data, std::size_t size_bytes, StreamHandle stream) noexcept override {
    in_use_bytes -= static_cast<std::int64_t>(size_bytes);
    enqueue(stream, [=] { std::free(std::memset(data, 0xdd, size_bytes)); });
  }
  void* allocate_pinned(std::size_t size_bytes) override { return std::malloc(size_bytes); }
  void deallocate_pinned(void* data, std::size_t) noexcept override { std::free(data); }
  MemoryStats memory_stats() const override {
    MemoryStats stats;
    stats.in_use_bytes = in_use_bytes;
    stats.num_allocations = num_allocations;
    return stats;
  }
  void trim_memory() override {}

  StreamHandle create_stream() override {
    ++num_streams;
    queues_.push_back(std::make_unique<Queue>());
    return StreamHandle(reinterpret_cast<std::uintptr_t>(queues_.back().get()));
  }
  void destroy_stream(StreamHandle) noexcept override { --num_streams; }
  void synchronize(StreamHandle stream) override { queue(stream).run(queue(stream).work.size()); }
  bool is_complete(StreamHandle stream) override { return queue(stream).done == queue(stream).work.size(); }

  EventHandle create_event() override {
    ++num_events;
    return EventHandle(reinterpret_cast<std::uintptr_t>(new Mark()));
  }
  void destroy_event(EventHandle event) noexcept override {
    --num_events;
    delete &mark(event);
  }
  void record(EventHandle event, StreamHandle stream) override {
    mark(event) = {&queue(stream), queue(stream).work.size()};
  }
  void wait(StreamHandle stream, EventHandle event) override {
    enqueue(stream, [at = mark(event)] { at.run(); });
  }
  void synchronize(EventHandle event) override {
    if (event_failure) std::rethrow_exception(event_failure);
    mark(event).run();
  }
  bool is_complete(EventHandle event) override {
    if (event_failure) std::rethrow_exception(event_failure);
    return mark(event).queue == nullptr || mark(event).queue->done >= mark(event).position;
  }

  void copy(void* destination, const void* source, std::size_t size_bytes, StreamHandle stream) override {
    enqueue(stream, [=] { std::memcpy(destination, source, size_bytes); });
  }
  void copy_from_host(void* destination, const void* source, std::size_t size_bytes,
                      StreamHandle stream) override {
    const auto* const bytes = static_cast<const std::byte*>(source);
    enqueue(stream, [destination, values = std::vector<std::byte>(bytes, bytes + size_bytes)] {
      std::memcpy(destination, values.data(), values.size());
    });
  }
  void copy_to_host(void* destination, const void* source, std::size_t size_bytes,
                    StreamHandle stream) override {
    copy(destination, source, size_bytes, stream);
    synchronize(stream);
  }
  void copy_from_peer(void* destination, const void* source, DeviceBackend&, std::size_t size_bytes,
                      StreamHandle stream) override {
    ++num_peer_copies;
    copy(destination, source, size_bytes, stream);
  }

  backend::KernelBackend& kernels() noexcept override { return kernels_; }

  void enqueue(StreamHandle stream, Work work) {
    ++num_launches;
    queue(stream).work.push_back(std::move(work));
  }

  std::int64_t in_use_bytes = 0;
  int num_allocations = 0;
  int num_launches = 0;  ///< All that was enqueued: kernels, copies, waits, releases.
  int num_peer_copies = 0;
  int num_streams = 0;  ///< Not yet destroyed.
  int num_events = 0;
  std::exception_ptr event_failure;  ///< What questions about events throw, once there is one.

 private:
  struct Queue {
    std::vector<Work> work;
    std::size_t done = 0;

    void run(std::size_t end) {
      while (done < end) {
        const Work next = std::move(work[done++]);
        next();
      }
    }
  };
  /// A position in a queue; runs what is before it.
  struct Mark {
    Queue* queue = nullptr;
    std::size_t position = 0;

    void run() const {
      if (queue != nullptr) queue->run(position);
    }
  };

  /// The host's kernels, later.
  class Kernels final : public backend::KernelBackend {
   public:
    explicit Kernels(LazyDevice& owner) : owner_(owner) {}

    void fill(const TensorView& out, const Scalar& value, StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.fill(out, value, {}); });
    }
    void copy(const TensorView& out, const TensorView& in, StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.copy(out, in, {}); });
    }
    void divide(const TensorView& out, const TensorView& in, double divisor, StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.divide(out, in, divisor, {}); });
    }
    void divide_wide_sum(const TensorView& out, const TensorView& wrapped, const TensorView& rough,
                         double divisor, StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.divide_wide_sum(out, wrapped, rough, divisor, {}); });
    }
    void unary(backend::UnaryOp op, const TensorView& out, const TensorView& in, StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.unary(op, out, in, {}); });
    }
    void binary(backend::BinaryOp op, const TensorView& out, const TensorView& a, const TensorView& b,
                StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.binary(op, out, a, b, {}); });
    }
    void scatter_rows(backend::ScatterOp op, const TensorView& out, const TensorView& in,
                      const backend::RowGroups& groups, StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.scatter_rows(op, out, in, groups, {}); });
    }
    void in_top_k(const TensorView& out, const TensorView& logits, const TensorView& labels, std::int64_t k,
                  StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.in_top_k(out, logits, labels, k, {}); });
    }
    void add_row(const TensorView& out, const TensorView& a, const TensorView& b, StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.add_row(out, a, b, {}); });
    }
    void reduce_axis(ReduceOp op, const TensorView& out, const TensorView& in,
                     const backend::AxisExtents& extents, double divisor, StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.reduce_axis(op, out, in, extents, divisor, {}); });
    }
    void argmax(const TensorView& out, const TensorView& in, const backend::AxisExtents& extents,
                StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.argmax(out, in, extents, {}); });
    }
    void matmul(const TensorView& out, const TensorView& a, bool transpose_a, const TensorView& b,
                bool transpose_b, StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.matmul(out, a, transpose_a, b, transpose_b, {}); });
    }
    void softmax_cross_entropy(const TensorView& loss, const TensorView& gradient, const TensorView& logits,
                               const TensorView& labels, StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.softmax_cross_entropy(loss, gradient, logits, labels, {}); });
    }
    void sgd_update(const TensorView& variable, const TensorView& velocity, const TensorView& gradient,
                    const backend::UpdateParameters& parameters, StreamHandle s) override {
      later(s, [=](KernelBackend& host) { host.sgd_update(variable, velocity, gradient, parameters, {}); });
    }
    void adam_update(const TensorView& variable, const TensorView& first_moment,
                     const TensorView& second_moment, const TensorView& gradient,
                     const backend::UpdateParameters& parameters, StreamHandle s) override {
      later(s, [=](KernelBackend& host) {
        host.adam_update(variable, first_moment, second_moment, gradient, parameters, {});
      });
    }

   private:
    template <class F>
    void later(StreamHandle stream, F call) {
      owner_.enqueue(stream, [call] { call(DeviceManager::instance().open("CPU:0").kernels()); });
    }

    LazyDevice& owner_;
  };

  static Queue& queue(StreamHandle stream) {
    return *reinterpret_cast<Queue*>(static_cast<std::uintptr_t>(stream));
  }
  static Mark& mark(EventHandle event) {
    return *reinterpret_cast<Mark*>(static_cast<std::uintptr_t>(event));
  }

  Device device_;
  Kernels kernels_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace lockstep::test
