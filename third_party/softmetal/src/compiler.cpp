
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>

#include "counters.h"
#include "kernel_library.h"
#include "process.h"
#include "softmetal/softmetal.h"
#include "subprocess.h"

namespace softmetal {
namespace {

std::mutex g_lock;  // one compilation at a time in this process

std::vector<std::string>& command_override() {
  static auto* command = new std::vector<std::string>;
  return *command;
}

std::vector<std::string> compiler_command() {
  if (!command_override().empty()) return command_override();
  if (const char* text = getenv("SOFTMETAL_COMPILER")) {
    std::istringstream words(text);
    std::vector<std::string> command;
    for (std::string word; words >> word;) command.push_back(word);
    if (!command.empty()) return command;
  }
  return {"python3", library_folder() + "/../mslc"};
}

std::string trimmed(std::string text) {
  while (!text.empty() && isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

// Digest of the compiler and of the shading language library, so that a new version of either does
// not find old libraries.
std::string compiler_version() {
  static auto& version = *new std::string;
  if (!version.empty()) return version;
  std::ifstream file(library_folder() + "/../msl/DIGEST");
  std::getline(file, version);
  version = trimmed(version);
  if (version.empty()) {
    std::vector<std::string> command = compiler_command();
    command.push_back("--digest");
    const ProcessResult result = run_process(command);
    if (result.status == 0) version = trimmed(result.output);
  }
  return version.empty() ? "unversioned" : version;
}

std::string cache_folder() {
  const auto from = [](const char* name, const char* rest) {
    const char* value = getenv(name);
    return value && *value ? value + std::string(rest) : std::string();
  };
  std::string folder = from("SOFTMETAL_CACHE", "");
  if (folder.empty()) folder = from("XDG_CACHE_HOME", "/softmetal");
  if (folder.empty()) folder = from("HOME", "/.cache/softmetal");
  return folder.empty() ? "/tmp/softmetal-" + std::to_string(getuid()) : folder;
}

bool make_folders(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), 0777) && access(part.c_str(), F_OK)) return false;
    if (slash == std::string::npos) return true;
  }
}

bool exists(const std::string& path) {
  return access(path.c_str(), R_OK) == 0;
}

// The library at `path` if it was made from this source. Another source with the same key: null.
const KernelLibrary* open_if_same(const std::string& path, const std::string& identity,
                                  std::string& error) {
  if (!exists(path)) return nullptr;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;  // damaged: made again
  auto source = static_cast<const char* const*>(dlsym(handle, "softmetal_source"));
  const bool same = source && identity == *source;
  const KernelLibrary* library = same ? open_library(path, error) : nullptr;
  dlclose(handle);  // open_library holds its own
  return library;
}

std::string version_words(unsigned long version) {
  return std::to_string(version >> 16) + "." + std::to_string(version & 0xffff);
}

bool compile(const MetalSource& source, const std::string& target, std::string& error) {
  static unsigned serial = 0;
  const std::string scratch =
      target + "." + std::to_string(getpid()) + "." + std::to_string(++serial);
  const std::string in = scratch + ".metal", out = scratch + ".so";
  std::ofstream(in, std::ios::binary) << source.text;
  std::vector<std::string> command = compiler_command();
  command.insert(command.end(), {"--language-version", version_words(source.language_version),
                                 "--name", "program_source", "-o", out});
  if (source.traced) command.push_back("--trace");
  for (const auto& [name, value] : source.macros) command.push_back("-D" + name + "=" + value);
  command.push_back(in);
  const ProcessResult result = run_process(command);
  counting::add(counting::global().libraries_compiled);
  unlink(in.c_str());
  if (result.status == 0 && rename(out.c_str(), target.c_str()) == 0) return true;
  error = trimmed(result.output);
  if (error.empty()) error = "the compiler " + command[0] + " made no library and said nothing";
  unlink(out.c_str());
  return false;
}

}  // namespace

void set_compiler(const std::vector<std::string>& command) {
  std::lock_guard<std::mutex> lock(g_lock);
  command_override() = command;
}

const KernelLibrary* find_or_compile(const MetalSource& source, std::string& error) {
  const std::string identity = source.identity();
  std::lock_guard<std::mutex> lock(g_lock);
  static auto* known = new std::map<std::string, const KernelLibrary*>;
  if (auto found = known->find(identity); found != known->end()) return found->second;

  const std::string name = digest(identity) + "-" + compiler_version() + ".so";
  const std::string installed = library_folder() + "/../kernels/" + name;
  const std::string folder = cache_folder();
  const std::string cached = folder + "/" + name;
  const KernelLibrary* library = open_if_same(installed, identity, error);
  if (!library) library = open_if_same(cached, identity, error);
  if (!library) {
    error.clear();
    if (!make_folders(folder)) {
      error = "cannot create the folder for compiled kernels, " + folder +
              " (set SOFTMETAL_CACHE to one that can be written)";
      return nullptr;
    }
    if (!compile(source, cached, error)) return nullptr;
    library = open_library(cached, error);
  }
  if (library) {
    known->emplace(identity, library);
    if (!library->source_) library->source_ = std::make_shared<const MetalSource>(source);
  }
  return library;
}

}  // namespace softmetal
