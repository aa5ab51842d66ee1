#include <cstdio>

extern "C" {
float one_sum(float value, void (*between)());
float two_sum(float value, void (*between)());
bool two_has_strategy();
const void* one_address();
const void* two_address();
}

namespace {

float inner = 0;
bool sees_others_scope = false;

}  // namespace

int main() {
#ifdef LOCKSTEP_IS_SHARED
  constexpr bool is_one = true;
#else
  constexpr bool is_one = false;
#endif
  if ((one_address() == two_address()) != is_one) {
    std::printf("there is %s of lockstep\n", is_one ? "more than one copy" : "one copy");
    return 1;
  }
  // The second library computes, too, while the first is in its strategy's scope.
  const float outer = one_sum(1, [] {
    sees_others_scope = two_has_strategy();
    if (!sees_others_scope) inner = two_sum(2, nullptr);
  });
  if (sees_others_scope != is_one) {
    std::printf("the scope of the first library is %s in the second\n", is_one ? "not seen" : "seen");
    return 1;
  }
  if (is_one) inner = two_sum(2, nullptr);
  std::printf("%g and %g\n", double(outer), double(inner));
  return outer == 2 && inner == 4 ? 0 : 1;
}
