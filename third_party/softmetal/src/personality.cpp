// C++ exceptions in Objective-C++ code on GCC's Objective-C runtime.
//
// With -fobjc-runtime=gcc clang gives every function of a .mm file the personality routine
// __gnu_objc_personality_v0, which decides in each frame whether an exception is caught there. That
// of libobjc knows Objective-C exceptions only and skips C++ catch clauses. The one of libstdc++
// cannot replace it: for @catch (NSException*) the frame's type table holds the *name* of a class
// where libstdc++ expects a std::type_info, and it crashes.
//
// So this library defines __gnu_objc_personality_v0 itself (link it before -lobjc): Objective-C
// exceptions go on to libobjc's, C++ exceptions are looked up here, passing over @catch clauses.
// With it `try { @try {...} @catch (NSException*) {...} } catch (const std::exception&) {...}` works
// for both. Not possible on this runtime: to catch an NSException with C++ `catch (...)`.
#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

namespace {

// ---- layout of a thrown C++ object (libstdc++, unwind-cxx.h) ------------------------------------

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

constexpr uint64_t kGnuCxx = 0x474e5543432b2b00;  // "GNUCC++\0"; the last byte is 1 for std::rethrow

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
      case kSigned8: return raw<uint64_t>();
      case kUleb128: return uleb128();
      case kSleb128: return sleb128();
      case kData2: return raw<uint16_t>();
      case kSigned2: return raw<int16_t>();
      case kData4: return raw<uint32_t>();
      case kSigned4: return raw<int32_t>();
    }
    abort();
  }

  const unsigned char* at_;
};

size_t encoded_size(unsigned char encoding) {
  switch (encoding & kFormat) {
    case kData2:
    case kSigned2: return 2;
    case kData4:
    case kSigned4: return 4;
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
  uintptr_t landing_pad = 0;              // 0: nothing to do here
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
  Dl_info info;  // a type_info begins with a pointer into the vtable of one of libstdc++'s classes
  return dladdr(*static_cast<void* const*>(entry), &info) && info.dli_sname &&
         !strncmp(info.dli_sname, "_ZTVN10__cxxabiv1", strlen("_ZTVN10__cxxabiv1"));
}

bool catches(const void* entry, const Thrown& thrown, void** adjusted) {
  *adjusted = thrown.object;
  if (!entry) return true;  // catch (...)
  if (!is_type_info(entry)) return false;
  if (thrown.type->__is_pointer_p()) *adjusted = *static_cast<void**>(thrown.object);
  return static_cast<const std::type_info*>(entry)->__do_catch(thrown.type, adjusted, 1);
}

_Unwind_Reason_Code cxx_personality(_Unwind_Action actions, _Unwind_Exception* exception,
                                    _Unwind_Context* context) {
  auto* data = static_cast<const unsigned char*>(
      reinterpret_cast<void*>(_Unwind_GetLanguageSpecificData(context)));
  if (!data) return _URC_CONTINUE_UNWIND;
  const Frame frame(data, _Unwind_GetRegionStart(context));
  int before = 0;
  uintptr_t ip = _Unwind_GetIPInfo(context, &before);
  if (!before) --ip;  // the call, not what follows it

  const CallSite site = find_call_site(frame, ip);
  if (!site.found) std::terminate();  // a noexcept region
  if (!site.landing_pad) return _URC_CONTINUE_UNWIND;

  const Thrown thrown(exception);
  int64_t match = 0;
  bool cleanup = !site.actions;
  const bool may_catch = !(actions & _UA_FORCE_UNWIND);
  for (const unsigned char* action = site.actions; action && may_catch && !match;) {
    Reader r(action);
    const int64_t filter = r.sleb128();
    const unsigned char* link = r.at();
    const int64_t next = r.sleb128();
    void* adjusted;
    if (filter == 0) {
      cleanup = true;
    } else if (filter > 0 && catches(frame.type(filter), thrown, &adjusted)) {
      match = filter;
      thrown.header->adjusted_pointer = adjusted;
    }
    action = next ? link + next : nullptr;
  }

  if (actions & _UA_SEARCH_PHASE) return match ? _URC_HANDLER_FOUND : _URC_CONTINUE_UNWIND;
  if (!match && !cleanup && may_catch) return _URC_CONTINUE_UNWIND;
  _Unwind_SetGR(context, __builtin_eh_return_data_regno(0), reinterpret_cast<uintptr_t>(exception));
  _Unwind_SetGR(context, __builtin_eh_return_data_regno(1), match);
  _Unwind_SetIP(context, site.landing_pad);
  return _URC_INSTALL_CONTEXT;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) _Unwind_Reason_Code __gnu_objc_personality_v0(
    int version, _Unwind_Action actions, _Unwind_Exception_Class exception_class,
    _Unwind_Exception* exception, _Unwind_Context* context) {
  if ((exception_class >> 8) == (kGnuCxx >> 8)) return cxx_personality(actions, exception, context);
  static const auto objc = reinterpret_cast<decltype(&__gnu_objc_personality_v0)>(
      dlsym(RTLD_NEXT, "__gnu_objc_personality_v0"));
  return objc(version, actions, exception_class, exception, context);
}
