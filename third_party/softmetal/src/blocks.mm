// Blocks as Objective-C objects.
//
// The classes of libBlocksRuntime (_NSConcreteStackBlock and its kin) are raw storage, not classes
// of GCC's Objective-C runtime, so that `[block copy]` or a block in an NSArray would crash. Give
// that storage the structure of a class that works.
#include <dlfcn.h>

#include <Block.h>
#include <cstdio>
#include <cstring>

#include "objects.h"

extern "C" {
__attribute__((aligned(8))) extern void* _NSConcreteStackBlock[32];
__attribute__((aligned(8))) extern void* _NSConcreteGlobalBlock[32];
__attribute__((aligned(8))) extern void* _NSConcreteMallocBlock[32];
}

@interface SMBlock : NSObject
@end

constexpr size_t kClassBytes = 13 * sizeof(void*);  // struct objc_class of GCC's libobjc

static void install_block_class() {
  [[[SMBlock alloc] init] dealloc];  // a first message, which builds the class's dispatch table
  // libgnustep-base has an 8-byte _NSConcreteStackBlock of its own.
  Dl_info info;
  if (!dladdr(_NSConcreteStackBlock, &info) || !strstr(info.dli_fname, "BlocksRuntime")) {
    fprintf(stderr, "softmetal: link -lBlocksRuntime before -lgnustep-base, [block copy] would "
                    "crash\n");
    return;
  }
  for (void** storage : {_NSConcreteStackBlock, _NSConcreteGlobalBlock, _NSConcreteMallocBlock}) {
    memcpy(storage, (void*)[SMBlock class], kClassBytes);
  }
}

@implementation SMBlock
// The runtime calls this once the class and its superclass are registered; a C constructor would be
// too early.
+ (void)load {
  install_block_class();
}
- (id)copy {
  return (id)_Block_copy((void*)self);
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return (id)_Block_copy((void*)self);
}
- (id)retain {
  return (id)_Block_copy((void*)self);
}
- (oneway void)release {
  _Block_release((void*)self);
}
- (id)autorelease {
  return [super autorelease];
}
@end
