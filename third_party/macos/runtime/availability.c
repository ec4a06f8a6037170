// What clang calls for @available(macOS 15.0, *). On a Mac it is in the compiler's own static
// library (libclang_rt.osx.a), which compilers for Linux lack. This is that function for macOS
// 10.15 and later, where the system answers by itself.
#include <stdbool.h>
#include <stdint.h>

struct build_version {
  uint32_t platform;
  uint32_t version;
};

extern bool _availability_version_check(uint32_t count, struct build_version versions[]);

int32_t __isPlatformVersionAtLeast(uint32_t platform, uint32_t major, uint32_t minor,
                                   uint32_t patch) {
  struct build_version wanted = {platform,
                                 (major & 0xffff) << 16 | (minor & 0xff) << 8 | (patch & 0xff)};
  return _availability_version_check(1, &wanted);
}
