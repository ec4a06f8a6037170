// What the files of this module share: ownership, exceptions, and the classes that stand for
// Metal's.
#pragma once
#import <Metal/Metal.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

namespace softmetal::bindings {

namespace py = pybind11;

// A retained Objective-C object.
template <class T>
class Ref {
 public:
  Ref() = default;
  static Ref adopt(T object) {  // of a method named new...
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  static Ref retain(T object) { return adopt((T)[(id)object retain]); }
  Ref(const Ref& other) : object_((T)[(id)other.object_ retain]) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (!object_) return;
    @autoreleasepool {
      [(id)object_ release];
    }
  }
  T get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T object_ = nullptr;
};

// One class for each protocol, so that Python sees types.
struct Device : Ref<id<MTLDevice>> {};
struct Buffer : Ref<id<MTLBuffer>> {};
struct Library : Ref<id<MTLLibrary>> {};
struct Function : Ref<id<MTLFunction>> {};
struct Pipeline : Ref<id<MTLComputePipelineState>> {};
struct Queue : Ref<id<MTLCommandQueue>> {};
struct CommandBuffer : Ref<id<MTLCommandBuffer>> {};
struct Encoder : Ref<id<MTLComputeCommandEncoder>> {};
struct CompileOptions : Ref<MTLCompileOptions*> {};
struct PipelineDescriptor : Ref<MTLComputePipelineDescriptor*> {};
struct ConstantValues : Ref<MTLFunctionConstantValues*> {};

template <class Wrapper, class T>
Wrapper adopt(T object) {
  return Wrapper{Ref<T>::adopt(object)};
}
template <class Wrapper, class T>
Wrapper retain(T object) {
  return Wrapper{Ref<T>::retain(object)};
}

// nil for None.
template <class Wrapper>
auto object_of(const Wrapper* wrapper) -> decltype(wrapper->get()) {
  return wrapper ? wrapper->get() : nullptr;
}

// Runs f with an autorelease pool; an NSException becomes a C++ exception, as in any host code.
template <class F>
auto pooled(F&& f) -> decltype(f()) {
  @autoreleasepool {
    @try {
      return f();
    } @catch (NSException* e) {
      throw std::runtime_error(std::string([[e name] UTF8String]) + ": " + [[e reason] UTF8String]);
    }
  }
}

inline NSString* to_ns(const std::string& text) {
  return [NSString stringWithUTF8String:text.c_str()];
}
inline py::object from_ns(NSString* text) {
  return text ? py::object(py::str([text UTF8String])) : py::object(py::none());
}

// An instance of the Python exception MetalError.
py::object make_metal_error(NSError* error);
[[noreturn]] void raise(NSError* error);

using Size = std::array<NSUInteger, 3>;
inline MTLSize to_size(const Size& s) {
  return MTLSizeMake(s[0], s[1], s[2]);
}

// A property of a class whose getter and setter have Objective-C names.
#define SOFTMETAL_LABEL(Wrapper)                                                              \
  "label", [](const Wrapper& w) { return pooled([&] { return from_ns([w.get() label]); }); }, \
      [](const Wrapper& w, const std::string& text) {                                         \
        pooled([&] { [w.get() setLabel:to_ns(text)]; });                                      \
      }

void bind_enums(py::module_& m);
void bind_device(py::module_& m);
void bind_programs(py::module_& m);
void bind_commands(py::module_& m);
void bind_control(py::module_& m);
void bind_tracing(py::module_& m);
void bind_host_code(py::module_& m);

}  // namespace softmetal::bindings
