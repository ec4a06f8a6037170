// <metal_logging> (MSL 3.2): messages are dropped.
#pragma once

namespace metal {
struct os_log {
  constexpr os_log(const char*, const char*) {}
  template <class... A>
  void log(const char*, A...) const {}
  template <class... A>
  void log_debug(const char*, A...) const {}
  template <class... A>
  void log_info(const char*, A...) const {}
  template <class... A>
  void log_error(const char*, A...) const {}
  template <class... A>
  void log_fault(const char*, A...) const {}
};
}  // namespace metal
