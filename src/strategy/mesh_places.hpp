#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// "2, 0, 1".
std::string listed(const std::vector<int>& numbers);

/// a · b, the largest int where it is more. Neither is negative.
int saturated_product(int a, int b) noexcept;
int saturated_product(const std::vector<int>& numbers) noexcept;

/// What messages about places call them.
struct PlaceNames {
  std::string_view owner;   ///< "Topology".
  std::string_view group;   ///< "task".
  std::string_view member;  ///< "device".
};

/// Groups' members at the places of a mesh, [groups][members][axes], the other way round: group and member by
/// place.
/// @throws InvalidArgument  there are no groups or members, groups differ in size, a place has not one
/// coordinate for each axis, lies outside the mesh or is there twice.
std::map<std::vector<int>, std::pair<int, int>> index_places(
    const std::vector<std::vector<std::vector<int>>>& places, const std::vector<int>& mesh_shape,
    const PlaceNames& names);

}  // namespace lockstep
