#include <algorithm>

#include <lockstep/input/npy.hpp>

#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"
#include "input/formats/npy_array.hpp"
#include "input/formats/zip_directory.hpp"

namespace lockstep {
namespace {

using detail::ZipMember;

constexpr std::string_view kSuffix = ".npy";

std::string array_name(const ZipMember& member) {
  std::string name = member.name;
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

Tensor read_member(const detail::InputFileHandle& file, const ZipMember& member) {
  try {
    detail::ZipMemberSource source(file, member);
    Tensor array = detail::read_npy(source);
    source.finish();
    return array;
  } catch (detail::FileFault& fault) {
    fault.reason = detail::concat("array ", detail::in_quotes(array_name(member)), ": ", fault.reason);
    throw;
  }
}

}  // namespace

std::map<std::string, Tensor> load_npz(const std::filesystem::path& path,
                                       const std::vector<std::string>& names) {
  return detail::load_npz(path, names, "load_npz");
}

std::map<std::string, Tensor> detail::load_npz(const std::filesystem::path& path,
                                               const std::vector<std::string>& names, std::string_view what) {
  return detail::with_file_faults(what, path, "Pass a .npz file as numpy.savez writes it.", [&] {
    const auto file = std::make_shared<const detail::InputFile>(path, what);
    const std::vector<ZipMember> members = detail::read_zip_directory(*file);
    const auto is_wanted = [&](const ZipMember& member) {
      return names.empty() || std::find(names.begin(), names.end(), array_name(member)) != names.end();
    };
    for (const std::string& name : names)
      LOCKSTEP_EXPECTS(std::any_of(members.begin(), members.end(),
                                   [&](const ZipMember& member) { return array_name(member) == name; }),
                       NotFound, what, ": ", path, " has no array '", name, "'. Pass names that it has.");
    std::map<std::string, Tensor> arrays;
    for (const ZipMember& member : members)
      if (is_wanted(member) && !arrays.emplace(array_name(member), read_member(file, member)).second)
        throw detail::FileFault{member.begin, "a member has the name of another one"};
    return arrays;
  });
}

}  // namespace lockstep
