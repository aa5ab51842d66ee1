// all_reduce of Gloo between processes of this machine, over its TCP transport on the loopback interface:
// compare_gloo --ranks N --sweep FIRST:LAST:FACTOR

#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include "all_reduce_sweep.hpp"

namespace {

namespace fs = std::filesystem;

class Gloo : public lockstep::compare::Peer {
 public:
  // @param meeting_place  a folder that is empty before the first rank comes.
  Gloo(int rank, int num_ranks, const fs::path& meeting_place)
      : context_(std::make_shared<gloo::rendezvous::Context>(rank, num_ranks)) {
    gloo::transport::tcp::attr loopback;
    loopback.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(loopback);
    gloo::rendezvous::FileStore store(meeting_place.native());
    context_->connectFullMesh(store, device);
  }
  int rank() const override { return context_->rank; }
  int num_ranks() const override { return context_->size; }
  void all_reduce(const float* input, float* output, std::size_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setInput(const_cast<float*>(input), count);  // which is not written: Gloo has no const buffers
    options.setOutput(output, count);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

std::string version() {
  return std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) + "." +
         std::to_string(GLOO_VERSION_PATCH);
}

int run_rank(int rank, const lockstep::compare::SweepOptions& options, const fs::path& meeting_place) {
  try {
    Gloo peer(rank, options.num_ranks, meeting_place);
    const auto report = lockstep::compare::measure_all_reduce(peer, options, "Gloo", version());
    if (rank == 0) std::cout << report.dump(1) << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "compare_gloo: rank " << rank << ": " << error.what() << '\n';
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = lockstep::compare::parse_sweep_options(argc, argv);
  std::string meeting_place = (fs::temp_directory_path() / "compare_gloo_XXXXXX").native();
  if (mkdtemp(meeting_place.data()) == nullptr) {
    std::cerr << "compare_gloo: no folder can be made in " << fs::temp_directory_path() << '\n';
    return 1;
  }
  std::vector<pid_t> children;
  bool failed = false;
  for (int rank = 0; rank < options.num_ranks && !failed; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(run_rank(rank, options, meeting_place));
    if (child < 0)
      failed = true;
    else
      children.push_back(child);
  }
  for (std::size_t ended = 0; ended < children.size(); ++ended) {
    int status = 0;
    if (failed)  // the others would wait for a rank that is not there
      for (const pid_t child : children) kill(child, SIGTERM);
    if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) failed = true;
  }
  fs::remove_all(meeting_place);
  return failed ? 1 : 0;
}
