// The classes behind the protocols of <Metal/Metal.h>. Manual retain/release.
#pragma once
#import <Metal/Metal.h>
#include <atomic>
#include <memory>
#include <string>

#include "counters.h"
#include "execute.h"
#include "softmetal/softmetal.h"

namespace softmetal {

// Throws ValidationError.
[[noreturn]] void invalid(const std::string& what);

NSError* make_error(NSString* domain, NSInteger code, const std::string& text);  // autoreleased
// For `error:(NSError**)error` parameters: stores the error where the caller wants one.
void set_error(NSError** error, NSString* domain, NSInteger code, const std::string& text);

// The error of a function constant without a value.
std::string describe_missing(const sm_kernel& kernel, const sm_fconst& constant);

NSString* to_ns(const std::string& text);  // autoreleased
std::string to_string(NSString* text);     // "" for nil

}  // namespace softmetal

@interface SMDevice : NSObject <MTLDevice>
+ (SMDevice*)shared;  // nil before MTLCreateSystemDefaultDevice()
@end

@interface SMBuffer : NSObject <MTLBuffer> {
 @public
  std::shared_ptr<softmetal::Memory> memory;
 @private
  MTLResourceOptions _options;
  void (^_deallocator)(void*, NSUInteger);
}
// For memory that the caller owns, `deallocator` gives it back; else nil.
- (instancetype)initWithMemory:(std::shared_ptr<softmetal::Memory>)bytes
                       options:(MTLResourceOptions)options
                   deallocator:(void (^)(void*, NSUInteger))deallocator;
+ (NSUInteger)allocatedBytes;
@end

@interface SMLibrary : NSObject <MTLLibrary> {
 @public
  const softmetal::KernelLibrary* library;
 @private
  NSString* _label;
}
- (instancetype)initWithLibrary:(const softmetal::KernelLibrary*)contents;
@end

@interface SMFunction : NSObject <MTLFunction> {
 @public
  softmetal::Function function;
 @private
  NSString* _label;
}
- (instancetype)initWithFunction:(const softmetal::Function&)contents;
@end

@interface SMFunctionConstantValues : MTLFunctionConstantValues {
  // To arrays of two: the MTLDataType, an NSData.
  NSMutableDictionary* _byIndex;  // of NSNumber
  NSMutableDictionary* _byName;
}
// The value given for a constant by index or by name; nil if none was.
- (NSArray*)valueAtIndex:(int)index name:(const char*)name;
@end

@interface SMComputePipeline : NSObject <MTLComputePipelineState> {
 @public
  softmetal::Function function;
  softmetal::counting::Kernel* counters;
  BOOL wholeSimdgroups;  // threadGroupSizeIsMultipleOfThreadExecutionWidth
 @private
  NSString* _label;
  NSUInteger _maxThreads;  // by the kernel and its descriptor
}
- (instancetype)initWithDescriptor:(MTLComputePipelineDescriptor*)descriptor;
@end
