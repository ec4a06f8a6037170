#include "kernel_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

namespace softmetal {
namespace {

// The executable segment around an address.
CodeRange code_around(const void* address) {
  CodeRange found{static_cast<const char*>(address), nullptr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        CodeRange& range = *static_cast<CodeRange*>(context);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
          const auto* begin = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          if (range.begin < begin || range.begin >= begin + segment.p_memsz) continue;
          range = {begin, begin + segment.p_memsz};
          return 1;
        }
        return 0;
      },
      &found);
  return found;
}

}  // namespace

const sm_kernel* KernelLibrary::find(const std::string& name) const {
  for (int i = 0; i < contents_->nkernels; ++i) {
    if (name == contents_->kernels[i].name) return &contents_->kernels[i];
  }
  return nullptr;
}

void KernelLibrary::set_constants(const Constants& constants) const {
  for (int i = 0; i < contents_->nfconsts; ++i) {
    const sm_fconst& c = contents_->fconsts[i];
    const auto value = constants.find(c.index);
    *c.defined = value != constants.end();
    if (*c.defined) {
      memcpy(c.addr, value->second.data(), c.size);
    } else {
      memset(c.addr, 0, c.size);
    }
  }
}

const sm_fconst* KernelLibrary::missing_constant(const sm_kernel& kernel,
                                                 const Constants& constants) const {
  for (const int* i = kernel.needed_constants; *i >= 0; ++i) {
    if (!constants.count(contents_->fconsts[*i].index)) return &contents_->fconsts[*i];
  }
  return nullptr;
}

std::string MetalSource::identity() const {
  std::string result = std::to_string(language_version) + (traced ? " traced\n" : "\n");
  for (const auto& [name, value] : macros) result += name + "=" + value + "\n";
  return result + "\n" + text;
}

std::string digest(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  char text[17];
  snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

const KernelLibrary* open_library(const std::string& path, std::string& error) {
  static std::mutex lock;
  static auto* opened = new std::map<std::string, std::unique_ptr<KernelLibrary>>;
  std::lock_guard<std::mutex> guard(lock);
  if (auto found = opened->find(path); found != opened->end()) return found->second.get();

  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    error = dlerror();
    return nullptr;
  }
  auto contents = reinterpret_cast<sm_library_fn>(dlsym(handle, "softmetal_library"));
  if (!contents) {
    error = path + " is not a kernel library: it has no softmetal_library()";
  } else if (!contents()) {
    error = path + " was compiled for a processor with instructions that this one lacks";
  } else if (contents()->abi != SM_ABI_VERSION) {
    error = path + " was compiled for version " + std::to_string(contents()->abi) +
            " of the kernel interface, this device has version " + std::to_string(SM_ABI_VERSION);
  }
  if (!error.empty()) {
    dlclose(handle);
    return nullptr;
  }
  auto library = std::make_unique<KernelLibrary>();
  library->contents_ = contents();
  library->path_ = path;
  library->code_ = code_around(reinterpret_cast<const void*>(contents));
  return opened->emplace(path, std::move(library)).first->second.get();
}

}  // namespace softmetal
