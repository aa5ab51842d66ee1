// Lists the instructions of PTX files that the executor does not implement. Exit status 1 when there are any.
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "exec/machine.hpp"

int main(int argc, char** argv) {
  int status = 0;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    std::stringstream text;
    text << file.rdbuf();
    std::size_t instructions = 0, functions = 0;
    std::map<std::string, std::pair<int, std::string>> missing;  // by opcode: count and an example
    try {
      auto unit = vgpu::ptx::parse(text.str());
      for (const auto& f : unit->functions) {
        if (!f->defined) continue;
        ++functions;
        instructions += f->body.size();
        for (const std::string& m : vgpu::ptx::unimplemented(*unit, *f)) {
          std::size_t at = m.rfind("): ");
          if (at == std::string::npos) at = m.find("instruction: ") + 10;
          std::string opcode = m.substr(at + 3, m.find_first_of(" \t;", at + 3) - at - 3);
          auto& entry = missing[opcode];
          ++entry.first;
          entry.second = m;
        }
      }
    } catch (const std::exception& e) {
      std::printf("%s: %s\n", argv[i], e.what());
      status = 1;
      continue;
    }
    std::printf("%s: %zu functions, %zu instructions, %zu opcodes missing\n", argv[i], functions,
                instructions, missing.size());
    for (const auto& [opcode, entry] : missing) {
      std::printf("  %6d  %s    e.g. %s\n", entry.first, opcode.c_str(), entry.second.c_str());
      status = 1;
    }
  }
  return status;
}
