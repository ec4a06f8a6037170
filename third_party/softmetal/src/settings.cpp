#include <cstdlib>
#include <cstring>
#include <mutex>

#include "softmetal/softmetal.h"
#include "softmetal_abi.h"

namespace softmetal {
namespace {

constexpr unsigned kMostWorkers = 256;

bool flag(const char* name, bool otherwise) {
  const char* text = getenv(name);
  return text && *text ? strcmp(text, "0") != 0 : otherwise;
}

unsigned number(const char* name, unsigned otherwise) {
  const char* text = getenv(name);
  return text && *text ? strtoul(text, nullptr, 0) : otherwise;
}

bool is(const char* name, const char* value) {
  const char* text = getenv(name);
  return text && !strcmp(text, value);
}

void check(const Settings& s) {
  if (s.max_threads < SM_SIMD || s.max_threads > SM_MAX_THREADS || s.max_threads % SM_SIMD) {
    throw ValidationError(
        "max_threads (SOFTMETAL_MAX_THREADS) must be a multiple of 32 up to 1024, got " +
        std::to_string(s.max_threads));
  }
  if (s.alignment < 1 || s.alignment > 256 || (s.alignment & (s.alignment - 1))) {
    throw ValidationError("alignment (SOFTMETAL_ALIGN) must be a power of two up to 256, got " +
                          std::to_string(s.alignment));
  }
  if (s.workers > kMostWorkers) {
    throw ValidationError("workers (SOFTMETAL_THREADS) must be at most " +
                          std::to_string(kMostWorkers) + ", got " + std::to_string(s.workers));
  }
}

Settings from_environment() {
  Settings s;
  s.strict = flag("SOFTMETAL_STRICT", s.strict);
  s.flush_subnormals = flag("SOFTMETAL_FLUSH_SUBNORMALS", s.flush_subnormals);
  s.max_threads = number("SOFTMETAL_MAX_THREADS", s.max_threads);
  s.alignment = number("SOFTMETAL_ALIGN", s.alignment);
  if (is("SOFTMETAL_GUARD", "front")) s.guard = Guard::front;
  if (is("SOFTMETAL_ORDER", "reverse")) s.order = Order::reverse;
  if (is("SOFTMETAL_ORDER", "shuffled")) s.order = Order::shuffled;
  s.seed = number("SOFTMETAL_SEED", s.seed);
  s.delay = number("SOFTMETAL_DELAY", s.delay);
  s.workers = number("SOFTMETAL_THREADS", s.workers);
  if (is("SOFTMETAL_EARLY_ACCESS", "stop")) s.early_access = EarlyAccesses::stop;
  if (is("SOFTMETAL_EARLY_ACCESS", "allow")) s.early_access = EarlyAccesses::allow;
  s.poison = flag("SOFTMETAL_POISON", s.poison);
  s.trace = flag("SOFTMETAL_TRACE", s.trace);
  s.fail_on_race = flag("SOFTMETAL_FAIL_ON_RACE", s.fail_on_race);
  s.timeout = number("SOFTMETAL_TIMEOUT", s.timeout);
  s.hide_contents = flag("SOFTMETAL_HIDE_CONTENTS", s.hide_contents);
  check(s);
  return s;
}

std::mutex g_lock;

Settings& current() {
  static Settings s = from_environment();
  return s;
}

}  // namespace

Settings settings() {
  std::lock_guard<std::mutex> lock(g_lock);
  return current();
}

void set_settings(const Settings& s) {
  check(s);
  std::lock_guard<std::mutex> lock(g_lock);
  current() = s;
}

}  // namespace softmetal
