// Ownership of Metal objects: manual retain/release, stated once.
//
// Methods whose name starts with new, alloc or copy give a reference that the caller owns: adopt
// it. Everything else gives a borrowed one that the enclosing @autoreleasepool keeps: retain it to
// hold it longer. Every entry point from C++ opens an @autoreleasepool. The files also compile as
// ARC, where a strong member does the same.
#pragma once

#import <Foundation/Foundation.h>

#include <utility>

namespace mps_ds::mps {

template <class T>
class Owned {
 public:
  Owned() = default;
  static Owned adopt(T object) { return Owned(object); }
  static Owned retain(T object) {
#if !__has_feature(objc_arc)
    [object retain];
#endif
    return Owned(object);
  }
  Owned(const Owned& other) : Owned(retain(other.object_)) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nil)) {}
  Owned& operator=(Owned other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
#if !__has_feature(objc_arc)
    [object_ release];
#endif
  }
  T get() const { return object_; }
  explicit operator bool() const { return object_ != nil; }

 private:
  explicit Owned(T object) : object_(object) {}
  T object_ = nil;
};

}  // namespace mps_ds::mps
