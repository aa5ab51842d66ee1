// all_reduce of Open MPI, or of another MPI: mpirun -n RANKS compare_open_mpi --sweep FIRST:LAST:FACTOR

#include <array>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <mpi.h>

#include "all_reduce_sweep.hpp"

namespace {

void check(int status) {
  if (status != MPI_SUCCESS) throw std::runtime_error("an MPI call failed");  // which MPI has reported
}

class Mpi : public lockstep::compare::Peer {
 public:
  Mpi() {
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
    check(MPI_Comm_size(MPI_COMM_WORLD, &num_ranks_));
  }
  int rank() const override { return rank_; }
  int num_ranks() const override { return num_ranks_; }
  void all_reduce(const float* input, float* output, std::size_t count) override {
    check(MPI_Allreduce(input, output, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
  }

 private:
  int rank_ = 0, num_ranks_ = 1;
};

constexpr std::string_view kName = "Open MPI";

// "v4.1.4" of "Open MPI v4.1.4, package: …"; of another MPI what it says before a comma.
std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length));
  const std::string_view whole(text.data(), static_cast<std::size_t>(length));
  const std::string_view version = whole.substr(0, whole.find_first_of(",\n"));
  return std::string(version.starts_with(kName) ? version.substr(kName.size() + 1) : version);
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = lockstep::compare::parse_sweep_options(argc, argv);
  MPI_Init(&argc, &argv);
  try {
    Mpi mpi;
    const auto report =
        lockstep::compare::measure_all_reduce(mpi, options, std::string(kName), library_version());
    if (mpi.rank() == 0) std::cout << report.dump(1) << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "compare_open_mpi: " << error.what() << '\n';
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
