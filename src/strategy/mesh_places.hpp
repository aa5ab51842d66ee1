#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// "2, 0, 1".
std::string listed(const std::vector<int>& numbers);

/// a · b, at most the largest int. @pre neither is negative.
int saturated_product(int a, int b) noexcept;
int saturated_product(const std::vector<int>& numbers) noexcept;

/// The nouns of messages about places.
struct PlaceNames {
  std::string_view owner;   ///< "Topology".
  std::string_view group;   ///< "task".
  std::string_view member;  ///< "device".
};

/// The inverse index of members' places in a mesh, [groups][members][axes]: group and member by place.
/// @throws InvalidArgument  there are no groups or members, groups differ in size, a place has not one
/// coordinate for each axis, lies outside the mesh or is there twice.
std::map<std::vector<int>, std::pair<int, int>> index_places(
    const std::vector<std::vector<std::vector<int>>>& places, const std::vector<int>& mesh_shape,
    const PlaceNames& names);

}  // namespace lockstep
