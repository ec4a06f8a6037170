#include "objects.h"

NSErrorDomain const MTLLibraryErrorDomain = @"MTLLibraryErrorDomain";
NSErrorDomain const MTLCommandBufferErrorDomain = @"MTLCommandBufferErrorDomain";

namespace softmetal {

void invalid(const std::string& what) {
  throw ValidationError("Metal: " + what);
}

NSError* make_error(NSString* domain, NSInteger code, const std::string& text) {
  NSDictionary* info = [NSDictionary dictionaryWithObject:to_ns(text)
                                                   forKey:NSLocalizedDescriptionKey];
  return [NSError errorWithDomain:domain code:code userInfo:info];
}

void set_error(NSError** error, NSString* domain, NSInteger code, const std::string& text) {
  if (error) *error = make_error(domain, code, text);
}

NSString* to_ns(const std::string& text) {
  NSString* result = [NSString stringWithUTF8String:text.c_str()];
  // Not UTF-8 (a compiler's message may quote any bytes): one character for each byte.
  if (!result) {
    result = [[[NSString alloc] initWithBytes:text.data()
                                       length:text.size()
                                     encoding:NSISOLatin1StringEncoding] autorelease];
  }
  return result;
}

std::string to_string(NSString* text) {
  return text ? std::string([text UTF8String]) : "";
}

}  // namespace softmetal
