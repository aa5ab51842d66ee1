// A fork of a process that has used GPUs ends as if it had not.
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/lockstep.hpp>

using namespace lockstep;

int main() {
  const Tensor ones = Tensor::ones({3}, DType::f32, "GPU:0");
  { const PinnedBuffer pinned(100, "GPU:0"); }
  const pid_t child = ::fork();
  if (child == 0) return 7;
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 7 && (ones + ones).to_vector<float>()[2] == 2 ? 0 : 1;
}
