// API_AVAILABLE and API_DEPRECATED as on macOS. The attributes concern Apple's platforms only: they
// do nothing on Linux, where clang resolves @available(macOS 15.0, *) to its `*`, that is to true.
#pragma once

#if defined(__APPLE__) && __has_include_next(<os/availability.h>)
#include_next <os/availability.h>
#endif

// The declarations beside this file include macOS 15's. Apple's SDKs define a name for each release
// that they know, so that sources can tell whether a newer API is declared.
#ifndef __MAC_15_0
#define __MAC_15_0 150000
#endif

#define SOFTMETAL_VERSION_macos(...) macos, SOFTMETAL_RANGE(__VA_ARGS__)
#define SOFTMETAL_VERSION_macCatalyst(...) maccatalyst, SOFTMETAL_RANGE(__VA_ARGS__)
#define SOFTMETAL_VERSION_ios(...) ios, SOFTMETAL_RANGE(__VA_ARGS__)
#define SOFTMETAL_VERSION_tvos(...) tvos, SOFTMETAL_RANGE(__VA_ARGS__)
#define SOFTMETAL_VERSION_visionos(...) visionos, SOFTMETAL_RANGE(__VA_ARGS__)

// macos(13.0) is "introduced", macos(10.11, 15.0) is "introduced, deprecated".
#define SOFTMETAL_PICK(one, two, macro, ...) macro
#define SOFTMETAL_RANGE(...) \
  SOFTMETAL_PICK(__VA_ARGS__, SOFTMETAL_RANGE_2, SOFTMETAL_RANGE_1, )(__VA_ARGS__)
#define SOFTMETAL_RANGE_1(from) introduced = from
#define SOFTMETAL_RANGE_2(from, until) introduced = from, deprecated = until

#define SOFTMETAL_ATTRIBUTE(...) __attribute__((availability(__VA_ARGS__)))
#define SOFTMETAL_PLATFORM(p) SOFTMETAL_ATTRIBUTE(SOFTMETAL_VERSION_##p)
#define SOFTMETAL_EACH_1(a) SOFTMETAL_PLATFORM(a)
#define SOFTMETAL_EACH_2(a, b) SOFTMETAL_PLATFORM(a) SOFTMETAL_PLATFORM(b)
#define SOFTMETAL_EACH_3(a, b, c) SOFTMETAL_EACH_2(a, b) SOFTMETAL_PLATFORM(c)
#define SOFTMETAL_EACH_4(a, b, c, d) SOFTMETAL_EACH_3(a, b, c) SOFTMETAL_PLATFORM(d)
#define SOFTMETAL_EACH_5(a, b, c, d, e) SOFTMETAL_EACH_4(a, b, c, d) SOFTMETAL_PLATFORM(e)
#define SOFTMETAL_COUNT(a, b, c, d, e, n, ...) n
#define SOFTMETAL_CONCAT_(a, b) a##b
#define SOFTMETAL_CONCAT(a, b) SOFTMETAL_CONCAT_(a, b)

#ifndef API_AVAILABLE
#define API_AVAILABLE(...)                                                         \
  SOFTMETAL_CONCAT(SOFTMETAL_EACH_, SOFTMETAL_COUNT(__VA_ARGS__, 5, 4, 3, 2, 1, )) \
  (__VA_ARGS__)
#define API_DEPRECATED(message, ...) API_AVAILABLE(__VA_ARGS__)
#define API_DEPRECATED_WITH_REPLACEMENT(replacement, ...) API_AVAILABLE(__VA_ARGS__)
#define API_UNAVAILABLE(...)
#endif
