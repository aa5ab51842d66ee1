#include "cluster/launcher_variables.hpp"

#include <algorithm>
#include <array>

#include <arpa/inet.h>

#include <lockstep/backend/engine.hpp>
#include <lockstep/error.hpp>

#include "ascii.hpp"
#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"

namespace lockstep::detail {
namespace {

// RFC 1123, section 2.1, and the underscores that networks use nevertheless.
bool is_host_name(std::string_view text) {
  const auto is_part = [](char c) { return is_digit_ascii(c) || is_letter_ascii(c) || c == '.' || c == '_'; };
  return !text.empty() && text.size() <= 255 && is_part(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_part(c) || c == '-'; });
}

// The brackets and the zone (RFC 4007, section 11) are optional.
bool is_ipv6(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  const std::size_t percent = text.find('%');
  if (percent != text.npos && !is_host_name(text.substr(percent + 1))) return false;
  in6_addr address;
  return inet_pton(AF_INET6, std::string(text.substr(0, percent)).c_str(), &address) == 1;
}

bool is_under_mpi(const cluster::EnvironmentVariables& variables) {
  return std::ranges::any_of(std::to_array({"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}),
                             [&](const char* name) { return find_variable(variables, name) != nullptr; });
}

bool is_known(const std::string& engine) { return backend::find_engine(engine) != nullptr; }

}  // namespace

const std::string* find_variable(const cluster::EnvironmentVariables& variables, std::string_view name) {
  const auto found = variables.find(name);
  return found == variables.end() || found->second.find_first_not_of(" \t\r\n") == std::string::npos
             ? nullptr
             : &found->second;
}

std::string LauncherVariables::quoted(std::string_view name) const {
  const std::string* const value = find(name);
  return concat(name, value ? concat(" is ", in_quotes(*value)) : " is not set");
}

void LauncherVariables::refuse(std::string_view name, std::string_view reason) const {
  raise<InvalidArgument>(
      {__FILE__, __LINE__, __func__},
      concat("from_environment (", launcher_, "): ", quoted(name), reason.empty() ? "" : ": ", reason,
             ". Start the program with ", launcher_, ", or set or unset all of its variables."));
}

void LauncherVariables::expect_agreement(bool condition, std::string_view name, std::string_view other,
                                         std::string_view rule) const {
  if (!condition) refuse(name, concat("it contradicts that ", quoted(other), ", as ", rule));
}

const std::string& LauncherVariables::text(std::string_view name) const {
  const std::string* const value = find(name);
  if (!value) refuse(name, "");
  return *value;
}

const std::string& LauncherVariables::host(std::string_view name) const {
  const std::string& value = text(name);
  if (!is_host_name(value) && !is_ipv6(value)) refuse(name, "it is not the name or the address of a host");
  return value;
}

int LauncherVariables::number(std::string_view name, int least, int most) const {
  const std::optional<int> value = parse_number(text(name));
  if (!value || *value < least || *value > most)
    refuse(name,
           concat("it is not a whole number from ", std::to_string(least), " to ", std::to_string(most)));
  return *value;
}

std::optional<int> LauncherVariables::find_number(std::string_view name, int least, int most) const {
  return find(name) ? std::optional(number(name, least, most)) : std::nullopt;
}

bool is_master_address(std::string_view address, const cluster::EnvironmentVariables& variables) {
  const std::string* const host = find_variable(variables, "MASTER_ADDR");
  const std::string* const port = find_variable(variables, "MASTER_PORT");
  return host != nullptr && port != nullptr &&
         (address == concat(*host, ':', *port) || address == concat('[', *host, "]:", *port));
}

std::string how_to_build(const std::string& engine) {
  return concat(", which this program does not have. Build lockstep with ",
                engine == "mpi" ? "LOCKSTEP_MPI=ON (libopenmpi-dev)" : "LOCKSTEP_GLOO=ON (libgloo-dev)",
                ", and link lockstep::", engine);
}

std::string engine_for(const cluster::EnvironmentVariables& variables, bool has_address) {
  if (const std::string* const name = find_variable(variables, "LOCKSTEP_ENGINE")) {
    LOCKSTEP_EXPECTS(*name == "mpi" || *name == "gloo" || is_known(*name), InvalidArgument,
                     "LOCKSTEP_ENGINE is ", in_quotes(*name),
                     ", which is no engine. Set it to mpi or gloo, or unset it.");
    // Gloo carries data between hosts alone; MPI is also how the processes find each other.
    LOCKSTEP_EXPECTS(*name != "mpi" || is_known(*name), Unsupported,
                     "MultiWorkerMirroredStrategy: LOCKSTEP_ENGINE names the engine mpi", how_to_build(*name),
                     "; or unset LOCKSTEP_ENGINE, where worker 0 has an address.");
    return *name;
  }
  const bool has_addresses = find_variable(variables, "TF_CONFIG") != nullptr ||
                             find_variable(variables, "TORCHELASTIC_RUN_ID") != nullptr;
  if (!is_under_mpi(variables) || has_addresses) return "gloo";
  LOCKSTEP_EXPECTS(
      has_address || is_known("mpi"), Unsupported,
      "MultiWorkerMirroredStrategy: a launcher of MPI, which tells no addresses, has started this "
      "process, and the workers need the engine mpi",
      how_to_build("mpi"), "; or set MASTER_ADDR and MASTER_PORT.");
  return "mpi";
}

}  // namespace lockstep::detail
