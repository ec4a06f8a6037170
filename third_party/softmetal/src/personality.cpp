// Exceptions in Objective-C++ code on GCC's Objective-C runtime.
//
// With -fobjc-runtime=gcc clang gives every function of a .mm file the personality routine
// __gnu_objc_personality_v0, which decides in each frame whether an exception is caught there. That
// of libobjc is for Objective-C alone: it skips C++ catch clauses, and where an NSException passes
// one (`catch (const std::exception&)`) it takes the std::type_info in the frame's type table for
// the name of a class, and aborts. That of libstdc++ is no better: it takes the class names of
// @catch clauses for type_infos.
//
// So this library defines __gnu_objc_personality_v0 itself (link it before -lobjc). An entry of the
// type table is either a type_info, which catches C++ exceptions, or a class name, which catches
// Objective-C ones; no entry (@catch (id), @catch (...), catch (...)) catches everything, except
// that the code of C++'s `catch (...)` cannot deal with an NSException: do not let one get there.
//
// @finally is such a catch-all: its code ends by throwing what it got with objc_exception_throw.
// That is defined here too, for the case that it got a C++ exception.
#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

// Of libobjc.
using Class = struct objc_class*;
extern "C" Class objc_getClass(const char* name);
extern "C" Class class_getSuperclass(Class c);

namespace {

// ---- layout of thrown objects -------------------------------------------------------------------

// libstdc++, unwind-cxx.h

struct ThrownHeader {
  std::type_info* type;
  void (*destructor)(void*);
  void (*unexpected_handler)();
  void (*terminate_handler)();
  ThrownHeader* next;
  int handler_count;
  int handler_switch_value;
  const unsigned char* action_record;
  const unsigned char* language_specific_data;
  void* catch_temp;
  void* adjusted_pointer;  // what the catch clause binds to
  _Unwind_Exception unwind;
};

// libobjc, exception.c
struct ThrownObject {
  _Unwind_Exception unwind;
  void* value;  // id
};

constexpr uint64_t kGnuObjC = 0x474e55434f424a43;  // "GNUCOBJC"
constexpr uint64_t kGnuCxx =
    0x474e5543432b2b00;  // "GNUCC++\0"; the last byte is 1 for std::rethrow

struct Thrown {
  explicit Thrown(_Unwind_Exception* e)
      : header(reinterpret_cast<ThrownHeader*>(reinterpret_cast<char*>(e) -
                                               offsetof(ThrownHeader, unwind))) {
    const bool dependent = (e->exception_class & 0xff) == 1;
    // A dependent exception (std::rethrow_exception) begins with a pointer to the object instead.
    object = dependent ? *reinterpret_cast<void**>(header) : static_cast<void*>(header + 1);
    type = (static_cast<ThrownHeader*>(object) - 1)->type;
  }
  ThrownHeader* header;
  void* object;
  std::type_info* type;
};

// ---- DWARF encodings (Linux Standard Base, .eh_frame) -------------------------------------------

enum : unsigned char {
  kOmit = 0xff,
  kFormat = 0x0f,
  kUleb128 = 0x01,
  kData2 = 0x02,
  kData4 = 0x03,
  kData8 = 0x04,
  kSleb128 = 0x09,
  kSigned2 = 0x0a,
  kSigned4 = 0x0b,
  kSigned8 = 0x0c,
  kApplication = 0x70,
  kPcRelative = 0x10,
  kIndirect = 0x80,
};

class Reader {
 public:
  explicit Reader(const unsigned char* at) : at_(at) {}
  const unsigned char* at() const { return at_; }
  unsigned char byte() { return *at_++; }

  uint64_t uleb128() {
    uint64_t value = 0;
    unsigned shift = 0;
    for (unsigned char b = 0x80; b & 0x80; shift += 7) {
      b = byte();
      value |= static_cast<uint64_t>(b & 0x7f) << shift;
    }
    return value;
  }

  int64_t sleb128() {
    uint64_t value = 0;
    unsigned shift = 0;
    unsigned char b;
    do {
      b = byte();
      value |= static_cast<uint64_t>(b & 0x7f) << shift;
      shift += 7;
    } while (b & 0x80);
    if (shift < 64 && (b & 0x40)) value |= ~static_cast<uint64_t>(0) << shift;
    return static_cast<int64_t>(value);
  }

  uintptr_t encoded(unsigned char encoding) {
    if (encoding == kOmit) return 0;
    const uintptr_t origin = reinterpret_cast<uintptr_t>(at_);
    uintptr_t value = plain(encoding & kFormat);
    if (!value) return 0;
    if ((encoding & kApplication) == kPcRelative) value += origin;
    if (encoding & kIndirect) value = *reinterpret_cast<const uintptr_t*>(value);
    return value;
  }

 private:
  template <class T>
  T raw() {
    T value;
    memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  uintptr_t plain(unsigned char format) {
    switch (format) {
      case 0:  // native pointer
      case kData8:
      case kSigned8:
        return raw<uint64_t>();
      case kUleb128:
        return uleb128();
      case kSleb128:
        return sleb128();
      case kData2:
        return raw<uint16_t>();
      case kSigned2:
        return raw<int16_t>();
      case kData4:
        return raw<uint32_t>();
      case kSigned4:
        return raw<int32_t>();
    }
    abort();
  }

  const unsigned char* at_;
};

size_t encoded_size(unsigned char encoding) {
  switch (encoding & kFormat) {
    case kData2:
    case kSigned2:
      return 2;
    case kData4:
    case kSigned4:
      return 4;
  }
  return 8;
}

// ---- the language-specific data of one frame ----------------------------------------------------

struct Frame {
  uintptr_t start, landing_pads;
  unsigned char type_encoding, call_site_encoding;
  const unsigned char *types, *call_sites, *call_sites_end;

  Frame(const unsigned char* data, uintptr_t function) : start(function), landing_pads(function) {
    Reader r(data);
    if (const unsigned char e = r.byte(); e != kOmit) landing_pads = r.encoded(e);
    type_encoding = r.byte();
    types = nullptr;
    if (type_encoding != kOmit) {
      const uint64_t distance = r.uleb128();
      types = r.at() + distance;
    }
    call_site_encoding = r.byte();
    const uint64_t length = r.uleb128();
    call_sites = r.at();
    call_sites_end = call_sites + length;
  }

  const void* type(int64_t filter) const {
    Reader r(types - filter * static_cast<int64_t>(encoded_size(type_encoding)));
    return reinterpret_cast<const void*>(r.encoded(type_encoding));
  }
};

struct CallSite {
  bool found = false;
  uintptr_t landing_pad = 0;               // 0: nothing to do here
  const unsigned char* actions = nullptr;  // null: cleanup only
};

CallSite find_call_site(const Frame& frame, uintptr_t ip) {
  CallSite result;
  for (Reader r(frame.call_sites); r.at() < frame.call_sites_end;) {
    const uintptr_t begin = frame.start + r.encoded(frame.call_site_encoding);
    const uintptr_t length = r.encoded(frame.call_site_encoding);
    const uintptr_t pad = r.encoded(frame.call_site_encoding);
    const uint64_t action = r.uleb128();
    if (ip < begin) break;  // sorted
    if (ip >= begin + length) continue;
    result.found = true;
    if (pad) result.landing_pad = frame.landing_pads + pad;
    if (action) result.actions = frame.call_sites_end + action - 1;
    break;
  }
  return result;
}

// In the type table of an Objective-C++ frame: a C++ type, or else the name of a class.
bool is_type_info(const void* entry) {
  void* first;  // a type_info begins with a pointer into the vtable of one of libstdc++'s classes
  memcpy(&first, entry, sizeof first);  // a name may begin anywhere
  Dl_info info;
  return dladdr(first, &info) && info.dli_sname &&
         !strncmp(info.dli_sname, "_ZTVN10__cxxabiv1", strlen("_ZTVN10__cxxabiv1"));
}

// What is thrown, and what a handler that takes it gets.
struct Exception {
  enum Language { cxx, objc, foreign } language;
  _Unwind_Exception* unwind;

  explicit Exception(_Unwind_Exception* e) : language(foreign), unwind(e) {
    if ((e->exception_class >> 8) == (kGnuCxx >> 8)) language = cxx;
    if (e->exception_class == kGnuObjC) language = objc;
  }

  bool is_caught_by(const void* entry) const {
    if (language == foreign) return false;  // pthread_exit and the like: cleanups only
    if (language == objc) return !entry || (!is_type_info(entry) && is_kind_of(entry));
    const Thrown thrown(unwind);
    void* adjusted = thrown.object;
    bool match = !entry;
    if (entry && is_type_info(entry)) {
      if (thrown.type->__is_pointer_p()) adjusted = *static_cast<void**>(thrown.object);
      match = static_cast<const std::type_info*>(entry)->__do_catch(thrown.type, &adjusted, 1);
    }
    if (match) thrown.header->adjusted_pointer = adjusted;
    return match;
  }

  // For the landing pad: of an Objective-C handler the object itself.
  uintptr_t for_handler() const {
    if (language != objc) return reinterpret_cast<uintptr_t>(unwind);
    const uintptr_t object =
        reinterpret_cast<uintptr_t>(reinterpret_cast<ThrownObject*>(unwind)->value);
    _Unwind_DeleteException(unwind);
    return object;
  }

 private:
  bool is_kind_of(const void* class_name) const {
    void* object = reinterpret_cast<ThrownObject*>(unwind)->value;
    const Class wanted = objc_getClass(static_cast<const char*>(class_name));
    if (!object || !wanted) return false;
    for (Class c = *static_cast<Class*>(object); c; c = class_getSuperclass(c)) {
      if (c == wanted) return true;
    }
    return false;
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) _Unwind_Reason_Code
__gnu_objc_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class,
                          _Unwind_Exception* unwind, _Unwind_Context* context) {
  if (version != 1) return _URC_FATAL_PHASE1_ERROR;
  auto* data = static_cast<const unsigned char*>(
      reinterpret_cast<void*>(_Unwind_GetLanguageSpecificData(context)));
  if (!data) return _URC_CONTINUE_UNWIND;
  const Frame frame(data, _Unwind_GetRegionStart(context));
  int before = 0;
  uintptr_t ip = _Unwind_GetIPInfo(context, &before);
  if (!before) --ip;  // the call, not what follows it

  const Exception exception(unwind);
  const CallSite site = find_call_site(frame, ip);
  if (!site.found && exception.language == Exception::cxx) std::terminate();  // a noexcept region
  if (!site.landing_pad) return _URC_CONTINUE_UNWIND;

  int64_t match = 0;
  bool cleanup = !site.actions;
  const bool may_catch = !(actions & _UA_FORCE_UNWIND);
  for (const unsigned char* action = site.actions; action && !match;) {
    Reader r(action);
    const int64_t filter = r.sleb128();
    const unsigned char* link = r.at();
    const int64_t next = r.sleb128();
    if (filter == 0) cleanup = true;
    if (filter > 0 && may_catch && exception.is_caught_by(frame.type(filter))) match = filter;
    action = next ? link + next : nullptr;
  }

  if (actions & _UA_SEARCH_PHASE) return match ? _URC_HANDLER_FOUND : _URC_CONTINUE_UNWIND;
  if (!match && !cleanup) return _URC_CONTINUE_UNWIND;
  const uintptr_t value =
      match ? exception.for_handler() : reinterpret_cast<uintptr_t>(exception.unwind);
  _Unwind_SetGR(context, __builtin_eh_return_data_regno(0), value);
  _Unwind_SetGR(context, __builtin_eh_return_data_regno(1), match);
  _Unwind_SetIP(context, site.landing_pad);
  return _URC_INSTALL_CONTEXT;
}

extern "C" __attribute__((visibility("default"))) void objc_exception_throw(void* object) {
  // An object begins with a pointer to its class, a C++ exception with the mark of its language.
  auto* unwind = static_cast<_Unwind_Exception*>(object);
  if (object && Exception(unwind).language == Exception::cxx) {
    _Unwind_Resume_or_Rethrow(unwind);
    std::terminate();  // nobody catches it
  }
  static const auto objc =
      reinterpret_cast<decltype(&objc_exception_throw)>(dlsym(RTLD_NEXT, "objc_exception_throw"));
  objc(object);
}
