#include <lockstep/backend/loss.hpp>

namespace lockstep::backend {

Loss::Moment Loss::now() noexcept {
  static std::atomic<Moment> last{0};
  return ++last;
}

void Loss::tell() noexcept {
  Moment never = 0;
  told_.compare_exchange_strong(never, now());
}

}  // namespace lockstep::backend
