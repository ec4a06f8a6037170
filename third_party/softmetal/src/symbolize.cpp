#include "symbolize.h"

#include <dlfcn.h>

#include <cstdio>
#include <sstream>
#include <vector>

#include "process.h"
#include "subprocess.h"

namespace softmetal {
namespace {

struct Symbolizer {
  std::string path;
  bool llvm = false;
};

const Symbolizer& symbolizer() {
  static const Symbolizer found = [] {
    std::vector<std::string> names = {"llvm-symbolizer"};
    for (int version = 30; version >= 14; --version) {
      names.push_back("llvm-symbolizer-" + std::to_string(version));
    }
    for (const std::string& name : names) {
      const std::string path = find_program(name);
      if (!path.empty()) return Symbolizer{path, true};
    }
    return Symbolizer{find_program("addr2line"), false};
  }();
  return found;
}

// Frames of our own shading language library are not what the reader wrote.
bool is_library_code(const std::string& line) {
  return line.find("/softmetal/msl/") != std::string::npos;
}

}  // namespace

std::string source_line(const void* pc) {
  Dl_info info;
  if (!pc || !dladdr(pc, &info) || !info.dli_fname) return "";
  const Symbolizer& tool = symbolizer();
  if (tool.path.empty()) return "";
  char address[32];
  snprintf(address, sizeof address, "0x%zx",
           size_t(static_cast<const char*>(pc) - static_cast<const char*>(info.dli_fbase)));
  const std::string object = info.dli_fname;
  // Both print a line with the function and one with file:line, innermost frame first.
  const std::vector<std::string> command =
      tool.llvm ? std::vector<std::string>{tool.path, "--inlines", "--functions=linkage",
                                           "--obj=" + object, address}
                : std::vector<std::string>{tool.path, "-f", "-i", "-e", object, address};
  const ProcessResult result = run_process(command);
  if (result.status != 0) return "";
  std::istringstream lines(result.output);
  std::string function, place;
  while (std::getline(lines, function) && std::getline(lines, place)) {
    if (place.empty() || place[0] == '?' || is_library_code(place)) continue;
    place = place.substr(0, place.find(" ("));  // addr2line: "(discriminator 2)"
    // Source compiled at run time has no folder.
    const size_t runtime_source = place.find("program_source:");
    return runtime_source == std::string::npos ? place : place.substr(runtime_source);
  }
  return "";
}

}  // namespace softmetal
