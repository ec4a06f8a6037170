#include "process.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "softmetal/softmetal.h"

namespace softmetal {
namespace {

bool g_forked = false;

// Registered when the library is loaded, which is before any thread of the device starts.
[[gnu::constructor]] void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { g_forked = true; });
}

}  // namespace

bool forked() {
  return g_forked;
}

void check_not_forked() {
  if (!g_forked) return;
  throw ValidationError(
      "Metal was loaded before this process was forked, and cannot be used in the child: start it "
      "with spawn (multiprocessing.set_start_method(\"spawn\"))");
}

const std::string& library_folder() {
  static const std::string folder = [] {
    Dl_info info;
    if (!dladdr(reinterpret_cast<void*>(&library_folder), &info)) return std::string(".");
    char* real = realpath(info.dli_fname, nullptr);
    std::string path = real ? real : info.dli_fname;
    free(real);
    return path.substr(0, path.rfind('/'));
  }();
  return folder;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) ? "" : name;
  const char* path = getenv("PATH");
  std::istringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (!access(candidate.c_str(), X_OK)) return candidate;
  }
  return "";
}

}  // namespace softmetal
