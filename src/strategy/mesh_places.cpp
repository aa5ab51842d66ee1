#include "strategy/mesh_places.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep {

std::string listed(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

int saturated_product(int a, int b) noexcept {
  return static_cast<int>(std::min<std::int64_t>(std::int64_t{a} * b, std::numeric_limits<int>::max()));
}

int saturated_product(const std::vector<int>& numbers) noexcept {
  int product = 1;
  for (const int number : numbers) product = saturated_product(product, number);
  return product;
}

std::map<std::vector<int>, std::pair<int, int>> index_places(
    const std::vector<std::vector<std::vector<int>>>& places, const std::vector<int>& mesh_shape,
    const PlaceNames& names) {
  const std::string form = detail::concat("[", names.group, "s][", names.member, "s][axes]");
  LOCKSTEP_EXPECTS(!places.empty() && !places.front().empty(), InvalidArgument, names.owner,
                   ": there are coordinates of no ", names.member, ". Give them as ", form, ".");
  std::map<std::vector<int>, std::pair<int, int>> index;
  for (std::size_t group = 0; group < places.size(); ++group) {
    LOCKSTEP_EXPECTS(places[group].size() == places.front().size(), InvalidArgument, names.owner, ": ",
                     names.group, " ", group, " has ", places[group].size(), " ", names.member, "s, ",
                     names.group, " 0 has ", places.front().size(), ". Coordinates are ", form,
                     ": give every ", names.group, " as many.");
    for (std::size_t member = 0; member < places[group].size(); ++member) {
      const std::vector<int>& place = places[group][member];
      const auto here = [&] {
        return detail::concat(names.owner, ": ", names.member, " ", member, " of ", names.group, " ", group,
                              " at (", listed(place), ")");
      };
      LOCKSTEP_EXPECTS(place.size() == mesh_shape.size(), InvalidArgument, here(), " has ", place.size(),
                       " coordinates; the mesh [", listed(mesh_shape), "] has rank ", mesh_shape.size(),
                       ". Give one for each axis.");
      for (std::size_t axis = 0; axis < place.size(); ++axis)
        LOCKSTEP_EXPECTS(place[axis] >= 0 && place[axis] < mesh_shape[axis], InvalidArgument, here(),
                         " is outside the mesh [", listed(mesh_shape), "] on axis ", axis,
                         ". Coordinates on it count from 0 to ", mesh_shape[axis] - 1, ".");
      const auto [other, is_new] = index.emplace(place, std::pair(group, member));
      LOCKSTEP_EXPECTS(is_new, InvalidArgument, here(), " is where ", names.member, " ", other->second.second,
                       " of ", names.group, " ", other->second.first, " is. Give each ", names.member,
                       " a place of its own.");
    }
  }
  return index;
}

}  // namespace lockstep
