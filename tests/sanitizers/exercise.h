// A program that uses the software Metal device as host code does. Each case is run by name.
#pragma once
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <functional>
#include <map>
#include <stdexcept>
#include <string>

using Cases = std::map<std::string, std::function<void()>>;
void add_device_cases(Cases& cases);
void add_queue_cases(Cases& cases);
void add_planted_bugs(Cases& cases);  // each of which a sanitizer has to report

// What the cases compile. The kernels: add_one, saxpy, group_sum, poke, hang, scale.
extern const char* const kSource;

inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

// An object that the caller owns, released at the end of the scope.
template <class T>
class Owned {
 public:
  explicit Owned(T object) : object_(object) {}
  ~Owned() { [object_ release]; }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator T() const { return object_; }
  T get() const { return object_; }

 private:
  T object_;
};

struct Host {
  Owned<id<MTLDevice>> device{MTLCreateSystemDefaultDevice()};
  Owned<id<MTLLibrary>> library{compile(kSource)};
  Owned<id<MTLCommandQueue>> queue{[device.get() newCommandQueue]};

  id<MTLLibrary> compile(const char* source);
  id<MTLComputePipelineState> pipeline(const char* kernel);  // the caller owns it
  id<MTLBuffer> floats(size_t count, float value);           // the caller owns it
};

inline float* floats_of(id<MTLBuffer> buffer) {
  return static_cast<float*>([buffer contents]);
}
