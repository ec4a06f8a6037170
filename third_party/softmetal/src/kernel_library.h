// Compiled kernel libraries: found beside libsoftmetal, in the cache, or made by running mslc.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "faults.h"
#include "softmetal_abi.h"

namespace softmetal {

struct MetalSource {
  std::string text;
  unsigned long language_version = 0;  // MTLLanguageVersion
  std::map<std::string, std::string> macros;
  bool traced = false;  // a tracing build

  // What identifies a compiled library: version, macros, text. The compiler stores the same string
  // in the library, so that two sources with the same key are told apart.
  std::string identity() const;
};

// Lives as long as the process: kernels keep thread-local state.
class KernelLibrary {
 public:
  const sm_library* contents() const { return contents_; }
  const sm_kernel* find(const std::string& name) const;
  const std::string& path() const { return path_; }
  const CodeRange& code() const { return code_; }
  // What it was compiled from; null where that is not known (newLibraryWithURL:).
  const MetalSource* source() const { return source_.get(); }

  // Values of the function constants for the dispatch that comes next. One dispatch at a time.
  using Constants = std::map<int, std::vector<char>>;  // index -> value
  void set_constants(const Constants& constants) const;

  // The first function constant that the kernel needs and that has no value, or null.
  const sm_fconst* missing_constant(const sm_kernel& kernel, const Constants& constants) const;

 private:
  friend const KernelLibrary* open_library(const std::string&, std::string&);
  friend const KernelLibrary* find_or_compile(const MetalSource&, std::string&);
  const sm_library* contents_ = nullptr;
  std::string path_;
  CodeRange code_;
  mutable std::shared_ptr<const MetalSource> source_;  // set once
};

// 16 hexadecimal digits: FNV-1a (64 bits).
std::string digest(const std::string& bytes);

// Null, with `error` set, where `path` is no kernel library.
const KernelLibrary* open_library(const std::string& path, std::string& error);

// The compiled form of Metal source (compiler.cpp): the file <key>-<version>.so, where key is the
// digest of identity() and version that of the compiler (msl/DIGEST), in one of two folders:
//   kernels/ beside lib/   compiled ahead of time, part of the installation
//   the cache              $SOFTMETAL_CACHE, $XDG_CACHE_HOME/softmetal, ~/.cache/softmetal
// Else made there. Null, with the compiler's words in `error`, where it does not compile.
const KernelLibrary* find_or_compile(const MetalSource& source, std::string& error);

}  // namespace softmetal
