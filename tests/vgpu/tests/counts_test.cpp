// What is counted of the program's work, in all and in ranges.
#include <functional>
#include <thread>

#include <dlfcn.h>
#include <nlohmann/json.hpp>

#include "check.hpp"
#include "counted.hpp"

using Json = nlohmann::json;

namespace {

template <class Function>
Function* counting(const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  REQUIRE(function != nullptr);
  return function;
}
void begin(const char* range) { counting<void(const char*)>("vgpu_range_begin")(range); }
void end() { counting<void()>("vgpu_range_end")(); }
// Null: there is no such range.
Json counts(const char* range) {
  char* const text = counting<char*(const char*)>("vgpu_counts")(range);
  if (text == nullptr) return {};
  Json json = Json::parse(text);
  std::free(text);
  return json;
}

// What `work` on the default stream does.
Json counts_of(const std::function<void()>& work) {
  static int range = 0;
  const std::string name = "range " + std::to_string(range++);
  begin(name.c_str());
  work();
  end();
  OK(cudaDeviceSynchronize());
  return counts(name.c_str());
}

struct Moved {
  std::uint64_t bytes_loaded, sectors_loaded, bytes_stored, sectors_stored;
  bool operator==(const Moved&) const = default;
};
Moved moved(const Json& counts) {
  return {counts["bytes_loaded"], counts["sectors_loaded"], counts["bytes_stored"], counts["sectors_stored"]};
}

}  // namespace

TEST_CASE("counts: an instruction of a warp moves each sector that its lanes touch once") {
  int *from = nullptr, *to = nullptr;
  OK(cudaMalloc(&from, 4096));
  OK(cudaMalloc(&to, 4096));
  OK(cudaMemset(from, 0, 4096));
  const auto total = [&](int* target, const int* source, int stride) {
    return counts_of([&] { gather(target, source, stride, nullptr); })["total"];
  };
  CHECK(moved(total(to, from, 1)) == Moved{128, 4, 128, 4});
  CHECK(moved(total(to, from + 1, 1)) == Moved{128, 5, 128, 4});
  CHECK(moved(total(to + 7, from, 1)) == Moved{128, 4, 128, 5});
  CHECK(moved(total(to, from, 2)) == Moved{128, 8, 128, 4});
  CHECK(moved(total(to, from, 8)) == Moved{128, 32, 128, 4});
  CHECK(moved(total(to, from, 0)) == Moved{128, 1, 128, 4});
  CHECK(moved(total(to, from + 31, -1)) == Moved{128, 4, 128, 4});
  const Json one = total(to, from, 1);
  CHECK((one["launches"] == 1 && one["threads"] == 32 && one["loads"] == 1 && one["stores"] == 1));
  CHECK(one["instructions"] > 5);
  OK(cudaFree(from));
  OK(cudaFree(to));
}

TEST_CASE("counts: barriers are blocks', and atomics lanes'") {
  int* sum = nullptr;
  OK(cudaMalloc(&sum, 4));
  OK(cudaMemset(sum, 0, 4));
  const Json json = counts_of([&] { meet_and_add(sum, 64, nullptr); });
  CHECK(json["total"]["barriers"] == 2);
  CHECK(json["total"]["atomics"] == 64);
  CHECK(moved(json["total"]) == Moved{});  // shared memory is no traffic
  CHECK(json["kernels"].size() == 1);
  CHECK(json["kernels"].begin().key().find("meet_and_add") != std::string::npos);
  CHECK(fetch(sum, 1)[0] == 64);
  OK(cudaFree(sum));
}

TEST_CASE("counts: copies and memsets move the sectors that they touch on devices") {
  char *a = nullptr, *b = nullptr;
  OK(cudaMalloc(&a, 4096));
  OK(cudaMalloc(&b, 4096));
  const auto total = [&](const std::function<cudaError_t()>& call) {
    return counts_of([&] { OK(call()); })["total"];
  };
  CHECK(moved(total([&] { return cudaMemsetAsync(a + 31, 0, 34, nullptr); })) == Moved{0, 0, 34, 3});
  CHECK(moved(total([&] { return cudaMemcpyAsync(b, a + 16, 100, cudaMemcpyDeviceToDevice, nullptr); })) ==
        Moved{100, 4, 100, 4});
  CHECK(moved(total([&] {
          return cudaMemcpy2DAsync(b, 64, a, 128, 4, 10, cudaMemcpyDeviceToDevice, nullptr);
        })) == Moved{40, 10, 40, 10});
  std::vector<char> host(100);
  CHECK(moved(total([&] { return cudaMemcpy(a, host.data(), 100, cudaMemcpyHostToDevice); })) ==
        Moved{0, 0, 100, 4});
  CHECK(moved(total([&] { return cudaMemcpy(host.data(), a, 100, cudaMemcpyDeviceToHost); })) ==
        Moved{100, 4, 0, 0});
  const Json json = counts_of([&] { OK(cudaMemsetAsync(a, 0, 1, nullptr)); });
  CHECK((json["total"]["launches"] == 0 && json["sets"]["memset"]["launches"] == 1));
  OK(cudaFree(a));
  OK(cudaFree(b));
}

TEST_CASE("counts: an operation is in the ranges that are open when it is enqueued") {
  CHECK(counts(nullptr)["all"]["total"]["launches"] == 0);  // nothing is counted before the first range
  int* sum = nullptr;
  OK(cudaMalloc(&sum, 4));
  OK(cudaMemset(sum, 0, 4));
  OK(cudaDeviceSynchronize());
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  meet_and_add(sum, 1, stream);
  begin("outer");
  meet_and_add(sum, 1, stream);
  begin("inner");
  std::thread([&] { meet_and_add(sum, 1, stream); }).join();
  end();
  end();
  meet_and_add(sum, 1, stream);
  begin("inner");
  meet_and_add(sum, 1, stream);
  end();
  OK(cudaStreamSynchronize(stream));
  CHECK(counts("outer")["total"]["launches"] == 2);
  CHECK(counts("inner")["total"]["launches"] == 2);
  CHECK(counts("another").is_null());
  const Json all = counts(nullptr);
  CHECK(all["all"]["total"]["launches"] == 4);
  CHECK((all["ranges"].size() == 2 && all["ranges"]["outer"] == counts("outer")));
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(sum));
}

TEST_CASE("counts: a graph's kernels are in the range of its launch") {
  int* sum = nullptr;
  OK(cudaMalloc(&sum, 4));
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  const Json captured = counts_of([&] {
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 3; ++i) meet_and_add(sum, 32, stream);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
  });
  CHECK(captured["total"]["launches"] == 0);
  const Json launched = counts_of([&] { OK(cudaGraphLaunch(exec, stream)); });
  CHECK(launched["total"]["launches"] == 3);
  CHECK(launched["calls"] == 1);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  OK(cudaStreamDestroy(stream));
  OK(cudaFree(sum));
}

TEST_CASE("counts: calls are counted by thread and name, and apart those that wait") {
  const Json json = counts_of([] {
    int* data = nullptr;
    OK(cudaMalloc(&data, 4));  // hardware may wait there
    OK(cudaMemsetAsync(data, 0, 4, nullptr));
    OK(cudaMemsetAsync(data, 0, 4, nullptr));
    OK(cudaStreamSynchronize(nullptr));
    std::thread([] { OK(cudaDeviceSynchronize()); }).join();
    OK(cudaFree(data));
  });
  CHECK((json["calls"] == 6 && json["waits"] == 4));
  REQUIRE(json["threads"].size() == 2);
  for (const Json& thread : json["threads"]) {
    if (thread.contains("cudaDeviceSynchronize")) {
      CHECK(thread == Json{{"cudaDeviceSynchronize", {{"calls", 1}, {"waits", 1}}}});
    } else {
      CHECK(thread["cudaMemsetAsync"] == Json{{"calls", 2}, {"waits", 0}});
      for (const char* name : {"cudaMalloc", "cudaStreamSynchronize", "cudaFree"})
        CHECK(thread[name] == Json{{"calls", 1}, {"waits", 1}});
    }
  }
}

TEST_CASE("counts: an end without a beginning is reported") { end(); }
