#pragma once

#include <string>
#include <string_view>
#include <vector>

/// What the process has loaded: the program and its shared libraries.
namespace lockstep::detail {

/// Their files; the program's own name is "".
std::vector<std::string> loaded_files();
/// Those whose names, without folders, begin with `prefix`, as "libcudart.so".
std::vector<std::string> loaded_files(std::string_view prefix);

/// Warns if the process has several files of that prefix, for example of another version: "two" is what they
/// are.
void warn_if_several(std::string_view prefix, std::string_view two);

/// At the first use of the library: warns of another copy of it in the process.
/// @throws Unsupported  something in the process was compiled with headers of another binary interface.
void check_loaded_copies();

}  // namespace lockstep::detail
