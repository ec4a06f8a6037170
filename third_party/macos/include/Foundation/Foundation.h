// The part of Apple's Foundation that this project and its Metal headers name: same types,
// selectors and availability. For the cross build only: on Linux, GNUstep is the Foundation.
#pragma once
#ifdef __OBJC__
#include <dispatch/dispatch.h>
#include <objc/NSObjCRuntime.h>
#include <objc/NSObject.h>
#include <objc/objc.h>
#include <os/availability.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_ENUM(type, name) \
  enum name : type name;    \
  enum name : type
// As Apple has it: in C++ a set of options is an integer, so that `a | b` is one as well.
#ifdef __cplusplus
#define NS_OPTIONS(type, name) \
  type name;                   \
  enum __attribute__((flag_enum)) : type
#else
#define NS_OPTIONS(type, name) \
  enum name : type name;       \
  enum __attribute__((flag_enum)) name : type
#endif
#define NS_ASSUME_NONNULL_BEGIN _Pragma("clang assume_nonnull begin")
#define NS_ASSUME_NONNULL_END _Pragma("clang assume_nonnull end")
#define NS_NOESCAPE __attribute__((noescape))

NS_ASSUME_NONNULL_BEGIN

@class NSString;

typedef NSString* NSErrorDomain;
typedef NSString* NSExceptionName;
typedef struct _NSZone NSZone;

typedef struct _NSRange {
  NSUInteger location;
  NSUInteger length;
} NSRange;

static inline NSRange NSMakeRange(NSUInteger location, NSUInteger length) {
  NSRange range = {location, length};
  return range;
}

@protocol NSCopying
- (id)copyWithZone:(nullable NSZone*)zone;
@end

@interface NSString : NSObject <NSCopying>
@property(readonly) NSUInteger length;
@property(nullable, readonly) const char* UTF8String;
+ (nullable instancetype)stringWithUTF8String:(const char*)nullTerminatedCString;
@end

// The class of @"..." literals.
@interface NSConstantString : NSString
@end

@interface NSURL : NSObject <NSCopying>
@end

@interface NSError : NSObject <NSCopying>
@property(readonly, copy) NSErrorDomain domain;
@property(readonly) NSInteger code;
@property(readonly, copy) NSString* localizedDescription;
@end

__attribute__((objc_exception))  // its type information is the framework's
@interface NSException : NSObject<NSCopying>
@property(readonly, copy) NSExceptionName name;
@property(nullable, readonly, copy) NSString* reason;
@end

@interface NSNumber : NSObject <NSCopying>
+ (NSNumber*)numberWithBool:(BOOL)value;
@end

@interface NSArray<__covariant ObjectType> : NSObject <NSCopying>
@property(readonly) NSUInteger count;
- (ObjectType)objectAtIndex:(NSUInteger)index;
@end

@interface NSDictionary<__covariant KeyType, __covariant ObjectType> : NSObject <NSCopying>
@property(readonly) NSUInteger count;
- (nullable ObjectType)objectForKey:(KeyType)aKey;
@end

NS_ASSUME_NONNULL_END
#endif
