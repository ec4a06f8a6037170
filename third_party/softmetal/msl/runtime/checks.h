// What happens when a kernel does something undefined that the compiler checks for (the
// -fsanitize= flags of ../../mslc/compile.py): the dispatch fails, with values and line. The
// compiler calls these functions by name, with data laid out as in
// compiler-rt/lib/ubsan/ubsan_handlers.h; it would link that library otherwise.
//
// Misaligned accesses are not here: they trap, and the host finds the line.
#pragma once

#include "group.h"

namespace softmetal {

struct CheckedType {
  ushort kind;
  ushort info;   // of integers: bit 0 is the sign, the rest log2 of the width
  char name[1];  // in quotes
  bool is_signed() const { return info & 1; }
};
struct OutOfBounds {
  site where;
  const CheckedType *array, *index;
};
struct DivisionOverflow {
  site where;
  const CheckedType* type;
};
struct ShiftOutOfBounds {
  site where;
  const CheckedType *left, *right;
};
struct TypeMismatch {
  site where;
  const CheckedType* type;
  uchar log_alignment;
  uchar kind;
};
struct MissingReturn {
  site where;
};

inline Message& print(Message& m, const CheckedType& type, ulong value) {
  uint unused = 64 - (1u << (type.info >> 1));
  if (!type.is_signed()) return m << (value << unused >> unused);
  long number = long(value << unused) >> unused;
  return number < 0 ? m << "-" << ulong(-number) : m << ulong(number);
}

// 'uint' of "'uint' (aka 'unsigned int')"; of a name that mslc made, the other one.
inline Message& operator<<(Message& m, const CheckedType& type) {
  const char* begin = type.name;
  bool generated = begin[1] == 's' && begin[2] == 'o' && begin[3] == 'f' && begin[4] == 't';
  if (generated) {
    do ++begin;
    while (begin[1] && !(begin[0] == '\'' && begin[-1] == ' '));
  }
  char quoted[200];
  uint n = 0;
  do quoted[n++] = *begin++;
  while (*begin && *begin != '\'' && n < sizeof quoted - 2);
  quoted[n++] = '\'';
  quoted[n] = 0;
  return m << quoted;
}

// Whether a place is in these headers (a component of a vector, say) rather than in the kernel.
inline bool is_library(const site& where) {
  for (const char* p = where.file; *p; ++p) {
    const char *a = p, *b = "/msl/library/";
    while (*b && *a == *b) ++a, ++b;
    if (!*b) return true;
  }
  return false;
}

// `caller`: the return address of the check, by which the host finds the kernel's line where
// `where` is not in the kernel.
[[noreturn]] __attribute__((noinline)) static void fail_check(const site& where,
                                                              const void* caller) {
  Group& g = *current_group;
  bool in_library = is_library(where);
  if (!in_library) g.failure << ", at " << where;
  g.dispatch->fail(g.dispatch, g.failure.text, in_library ? (const char*)caller - 1 : nullptr);
  __builtin_trap();  // back to the host, from whatever stack this is
}

inline Message& start_message() {
  Message& m = current_group->failure;
  m.length = 0;
  return m;
}

}  // namespace softmetal

#define SM_CHECK extern "C" __attribute__((visibility("hidden"), noreturn, noinline, cold)) void

SM_CHECK __ubsan_handle_out_of_bounds_abort(const softmetal::OutOfBounds* check, ulong index) {
  softmetal::print(softmetal::start_message() << "index ", *check->index, index)
      << " is out of bounds of " << *check->array;
  softmetal::fail_check(check->where, __builtin_return_address(0));
}

SM_CHECK __ubsan_handle_type_mismatch_v1_abort(const softmetal::TypeMismatch* check, ulong) {
  softmetal::start_message() << "misaligned access: the address of " << *check->type
                             << " must be a multiple of " << (1u << check->log_alignment);
  softmetal::fail_check(check->where, __builtin_return_address(0));
}

SM_CHECK __ubsan_handle_divrem_overflow_abort(const softmetal::DivisionOverflow* check, ulong,
                                              ulong divisor) {
  softmetal::start_message() << (divisor ? "division of the smallest integer by -1, of type "
                                         : "integer division by zero, of type ")
                             << *check->type;
  softmetal::fail_check(check->where, __builtin_return_address(0));
}

SM_CHECK __ubsan_handle_shift_out_of_bounds_abort(const softmetal::ShiftOutOfBounds* check, ulong,
                                                  ulong count) {
  softmetal::print(softmetal::start_message() << "shift by ", *check->right, count)
      << ", which is out of range for " << *check->left;
  softmetal::fail_check(check->where, __builtin_return_address(0));
}

SM_CHECK __ubsan_handle_missing_return(const softmetal::MissingReturn* check) {
  softmetal::start_message() << "a function that returns a value ended without a return";
  softmetal::fail_check(check->where, __builtin_return_address(0));
}
#undef SM_CHECK
