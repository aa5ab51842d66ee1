// Examples of the documentation: devices, streams and events.
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

TEST_CASE("the examples of devices are right", "[docs]") {
  //! [Device]
  ls::Device device = "cuda:1";                              // text converts
  bool same = device == ls::Device(ls::DeviceKind::gpu, 1);  // true: "GPU:1" is the canonical spelling
  ls::Device remote = "/job:worker/task:1/device:GPU:0";
  bool is_here = remote.is_local();  // false: a device of another process
  //! [Device]
  CHECK(same);
  CHECK_FALSE(is_here);

  //! [DeviceManager, DeviceInfo]
  ls::DeviceManager& manager = ls::DeviceManager::instance();
  std::vector<ls::Device> gpus = manager.devices(ls::DeviceKind::gpu);  // empty without a GPU or a driver
  ls::Device chosen = gpus.empty() ? "CPU:0" : gpus.front();
  std::string model = manager.info(chosen).name;
  //! [DeviceManager, DeviceInfo]
  CHECK_FALSE(model.empty());

  //! [DeviceScope]
  ls::Tensor there;
  {
    ls::DeviceScope here("CPU:1");
    there = ls::Tensor::zeros({2});  // on CPU:1
  }
  ls::Tensor elsewhere = ls::Tensor::zeros({2});  // on CPU:0
  //! [DeviceScope]
  CHECK(there.device() == "CPU:1");
  CHECK(elsewhere.device() == "CPU:0");
}

TEST_CASE("the examples of streams are right", "[docs]") {
  //! [Stream, StreamScope]
  ls::Stream side("CPU:0");
  ls::Tensor sum;
  {
    ls::StreamScope on(side);  // the library's work of this thread goes there
    sum = ls::sum(ls::Tensor::ones({1000}));
  }
  ls::current_stream("CPU:0").wait(side);  // later work here comes after it; the host goes on
  float total = sum.item<float>();
  //! [Stream, StreamScope]
  CHECK(total == 1000);

  //! [StreamRef]
  ls::StreamRef stream = ls::current_stream("CPU:0");  // not owned; an engine's own: Stream::borrow
  ls::Tensor squares = ls::Tensor::arange(4) * ls::Tensor::arange(4);
  bool is_done = stream.is_complete();  // asks; always true on the host
  stream.synchronize();                 // blocks until the squares are there
  //! [StreamRef]
  CHECK(is_done);
  CHECK(squares.to_vector<int>() == std::vector<int>{0, 1, 4, 9});

  //! [Event, EventRef]
  ls::Event half_way("CPU:0");
  half_way.record(stream);  // marks the work enqueued so far
  side.wait(half_way);      // the other stream goes on after it
  half_way.synchronize();   // or the host waits
  //! [Event, EventRef]
  CHECK(half_way.is_complete());

  //! [dlpack::Deleter]
  ls::Tensor images = ls::Tensor::ones({2, 3});
  ls::dlpack::Managed lent = ls::dlpack::to(images, stream);     // lent.release() hands it to another library
  ls::Tensor taken = ls::dlpack::from(std::move(lent), stream);  // the last handle calls the deleter
  bool is_the_same = taken.data() == images.data();              // true: nothing is copied
  //! [dlpack::Deleter]
  CHECK(is_the_same);
}
