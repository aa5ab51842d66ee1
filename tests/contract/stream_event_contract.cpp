#include <set>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/event.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "support/test_backend.hpp"

namespace lockstep::test {

TEST_CASE("streams and events have handles of their own", "[stream]") {
  const Device device = TestBackend::device();
  std::vector<Stream> streams;
  std::vector<Event> events;
  std::set<backend::StreamHandle> stream_handles{backend::StreamHandle{}};
  std::set<backend::EventHandle> event_handles{backend::EventHandle{}};
  for (int i = 0; i < 5; ++i) {
    CHECK(stream_handles.insert(streams.emplace_back(device).handle()).second);
    CHECK(event_handles.insert(events.emplace_back(device).handle()).second);
  }
}

TEST_CASE("a stream is complete after synchronize", "[stream]") {
  const Stream stream(TestBackend::device());
  CHECK(stream.is_complete());
  const StreamScope scope(stream);
  const Tensor t = Tensor::ones(Shape(100000), DType::f32, stream.device());
  stream.synchronize();
  CHECK(stream.is_complete());
  CHECK(t.to_vector<float>() == std::vector<float>(100000, 1.0f));
}

TEST_CASE("an event that was never recorded is complete and orders nothing", "[stream]") {
  const Stream stream(TestBackend::device());
  const Event event(TestBackend::device());
  CHECK(event.is_complete());
  event.synchronize();
  stream.wait(event);
  stream.synchronize();
  CHECK(stream.is_complete());
}

TEST_CASE("a new stream and a new event know nothing of former owners' work", "[stream]") {
  const Device device = TestBackend::device();
  std::vector<Tensor> busy;
  for (int i = 0; i < 20; ++i) {
    const Stream stream(device);
    const Event event(device);
    REQUIRE(stream.is_complete());
    REQUIRE(event.is_complete());
    const StreamScope scope(stream);
    busy.push_back(Tensor::ones(Shape(100000), DType::f32, device));
    event.record(stream);
  }
}

TEST_CASE("P39 work after an event on another stream sees the work before it", "[stream]") {
  const Device device = TestBackend::device();
  const Stream producer(device);
  const Stream consumer(device);
  const Event ready(device);
  const Event consumed(device);
  Tensor values = Tensor::zeros(Shape(1 << 16), DType::i32, device);
  Tensor sum = Tensor::zeros(Shape(1 << 16), DType::i32, device);
  current_stream(device).synchronize();

  constexpr int kRounds = 50;
  for (int round = 1; round <= kRounds; ++round) {
    {
      const StreamScope scope(producer);
      producer.wait(consumed);
      values.fill_(round);
      ready.record(producer);
    }
    const StreamScope scope(consumer);
    consumer.wait(ready);
    sum.add_(values);
    consumed.record(consumer);
  }
  consumed.synchronize();
  CHECK(consumed.is_complete());
  const StreamScope scope(consumer);
  CHECK(sum.to_vector<std::int32_t>() == std::vector<std::int32_t>(1 << 16, kRounds * (kRounds + 1) / 2));
}

TEST_CASE("an event may be recorded again", "[stream]") {
  const Device device = TestBackend::device();
  const Stream first(device);
  const Stream second(device);
  const Event event(device);
  event.record(first);
  event.record(second);
  event.synchronize();
  CHECK(event.is_complete());
}

TEST_CASE("a stream waits for another device's event", "[stream]") {
  const std::vector<Device> devices = TestBackend::devices(2);
  const Stream producer(devices[0]);
  const Stream consumer(devices[1]);
  const Event ready(devices[0]);
  Tensor source;
  {
    const StreamScope scope(producer);
    source = Tensor::full(Shape(1 << 16), 7.0f, DType::f32, devices[0]);
    ready.record(producer);
  }
  consumer.wait(ready);
  const Buffer destination(static_cast<std::size_t>(source.nbytes()), consumer);
  consumer.device_backend().copy_from_peer(destination.data(), source.view().data, producer.device_backend(),
                                           destination.size_bytes(), consumer.handle());
  std::vector<float> values(1 << 16);
  consumer.device_backend().copy_to_host(values.data(), destination.data(), destination.size_bytes(),
                                         consumer.handle());
  consumer.synchronize();
  CHECK(values == std::vector<float>(1 << 16, 7.0f));
}

}  // namespace lockstep::test
