// <metal_array>
#pragma once

#include "traits.h"

namespace metal {

template <class T, size_t N>
struct array {
  T softmetal_elements[N];
  constexpr T& operator[](size_t i) { return softmetal::element(softmetal_elements, i); }
  constexpr const T& operator[](size_t i) const {
    return softmetal::element(softmetal_elements, i);
  }
  constexpr size_t size() const { return N; }
  constexpr bool empty() const { return N == 0; }
  constexpr T* data() { return softmetal_elements; }
  constexpr const T* data() const { return softmetal_elements; }
  constexpr T* begin() { return softmetal_elements; }
  constexpr const T* begin() const { return softmetal_elements; }
  constexpr T* end() { return softmetal_elements + N; }
  constexpr const T* end() const { return softmetal_elements + N; }
};

}  // namespace metal
