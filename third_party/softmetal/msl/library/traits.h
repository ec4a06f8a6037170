// <metal_type_traits> and the small utilities of <metal_utility>.
#pragma once

#include "types.h"

struct bfloat;

namespace metal {

template <class T, T v>
struct integral_constant {
  static constexpr T value = v;
  using value_type = T;
  using type = integral_constant;
  constexpr operator T() const { return v; }
  constexpr T operator()() const { return v; }
};
template <bool b>
using bool_constant = integral_constant<bool, b>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <bool, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <bool b, class T = void>
using enable_if_t = typename enable_if<b, T>::type;

template <bool, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool b, class A, class B>
using conditional_t = typename conditional<b, A, B>::type;

// One transformation X: X<T>::type and X_t<T>, from the compiler's builtin.
#define SM_TRANSFORM(name, builtin) \
  template <class T>                \
  struct name {                     \
    using type = builtin(T);        \
  };                                \
  template <class T>                \
  using name##_t = typename name<T>::type;
SM_TRANSFORM(remove_cv, __remove_cv)
SM_TRANSFORM(remove_const, __remove_const)
SM_TRANSFORM(remove_volatile, __remove_volatile)
SM_TRANSFORM(remove_reference, __remove_reference_t)
SM_TRANSFORM(remove_pointer, __remove_pointer)
SM_TRANSFORM(remove_extent, __remove_extent)
SM_TRANSFORM(decay, __decay)
SM_TRANSFORM(make_unsigned, __make_unsigned)
SM_TRANSFORM(make_signed, __make_signed)
SM_TRANSFORM(underlying_type, __underlying_type)
SM_TRANSFORM(add_pointer, __add_pointer)
#undef SM_TRANSFORM

// Address spaces are one here.
template <class T>
struct remove_addrspace {
  using type = T;
};
template <class T>
using remove_addrspace_t = T;

// One predicate X: X<T>::value and X_v<T>.
#define SM_PREDICATE(name, ...)            \
  template <class T>                       \
  constexpr bool name##_v = (__VA_ARGS__); \
  template <class T>                       \
  struct name : bool_constant<name##_v<T>> {};
SM_PREDICATE(is_integral, __is_integral(T))
SM_PREDICATE(is_floating_point, __is_floating_point(T) || __is_same(__remove_cv(T), half) ||
                                    __is_same(__remove_cv(T), bfloat))
SM_PREDICATE(is_arithmetic, is_integral_v<T> || is_floating_point_v<T>)
SM_PREDICATE(is_pointer, __is_pointer(T))
SM_PREDICATE(is_reference, __is_reference(T))
SM_PREDICATE(is_enum, __is_enum(T))
SM_PREDICATE(is_class, __is_class(T))
SM_PREDICATE(is_union, __is_union(T))
SM_PREDICATE(is_array, __is_array(T))
SM_PREDICATE(is_void, __is_void(T))
SM_PREDICATE(is_const, __is_const(T))
SM_PREDICATE(is_scalar, is_arithmetic_v<T> || __is_pointer(T) || __is_enum(T))
SM_PREDICATE(is_signed, __is_signed(T) || is_floating_point_v<T>)
SM_PREDICATE(is_unsigned, __is_unsigned(T))
SM_PREDICATE(is_trivially_copyable, __is_trivially_copyable(T))
#undef SM_PREDICATE

#define SM_PREDICATE2(name, builtin)       \
  template <class A, class B>              \
  constexpr bool name##_v = builtin(A, B); \
  template <class A, class B>              \
  struct name : bool_constant<builtin(A, B)> {};
SM_PREDICATE2(is_same, __is_same)
SM_PREDICATE2(is_convertible, __is_convertible_to)
SM_PREDICATE2(is_base_of, __is_base_of)
#undef SM_PREDICATE2

template <class...>
struct disjunction : false_type {};
template <class A, class... Rest>
struct disjunction<A, Rest...> : conditional_t<bool(A::value), A, disjunction<Rest...>> {};
template <class... A>
using _disjunction = disjunction<A...>;  // the name in Apple's header, which MLX uses
template <class... A>
constexpr bool disjunction_v = disjunction<A...>::value;

template <class...>
struct conjunction : true_type {};
template <class A, class... Rest>
struct conjunction<A, Rest...> : conditional_t<bool(A::value), conjunction<Rest...>, A> {};
template <class... A>
constexpr bool conjunction_v = conjunction<A...>::value;

template <class A>
struct negation : bool_constant<!bool(A::value)> {};

template <class T>
T&& declval();
template <class T>
constexpr T&& forward(remove_reference_t<T>& t) {
  return static_cast<T&&>(t);
}
template <class T>
constexpr remove_reference_t<T>&& move(T&& t) {
  return static_cast<remove_reference_t<T>&&>(t);
}
template <class T>
constexpr void swap(T& a, T& b) {
  T t = a;
  a = b;
  b = t;
}

// <metal_uniform>: a hint to the compiler of a GPU.
template <class T>
using uniform = T;
template <class T>
constexpr T make_uniform(T x) {
  return x;
}

}  // namespace metal

namespace softmetal {

// T in a place from which it is not deduced.
template <class T>
struct identity {
  using type = T;
};
template <class T>
using identity_t = typename identity<T>::type;

template <class T>
using integral_only = metal::enable_if_t<metal::is_integral_v<T>, bool>;

}  // namespace softmetal

namespace softmetal {

// array[i]. The read lets the compiler's check of array bounds see the access: a reference to one
// past the end would pass.
template <class T, size_t N>
constexpr T& element(T (&array)[N], size_t i) {
  auto value = array[i];
  (void)value;
  return array[i];
}

}  // namespace softmetal

template <class To, class From>
constexpr To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type: the two types must have the same size");
  static_assert(!__is_pointer(To) && !__is_pointer(From), "as_type: pointers cannot be converted");
  if constexpr (__is_trivially_copyable(To) && __is_trivially_copyable(From)) {
    return __builtin_bit_cast(To, value);
  } else {  // vectors
    To result;
    __builtin_memcpy((void*)&result, (const void*)&value, sizeof(To));
    return result;
  }
}
