#include "objects.h"

using softmetal::to_ns;
using softmetal::to_string;

@implementation SMLibrary
@synthesize label = _label;

- (instancetype)initWithLibrary:(const softmetal::KernelLibrary*)contents {
  if ((self = [super init])) library = contents;
  return self;
}

- (void)dealloc {
  [_label release];
  [super dealloc];
}

- (id<MTLDevice>)device {
  return [SMDevice shared];
}

- (NSArray*)functionNames {
  NSMutableArray* names = [NSMutableArray array];
  const sm_library* contents = library->contents();
  for (int i = 0; i < contents->nkernels; ++i) [names addObject:to_ns(contents->kernels[i].name)];
  return names;
}

- (id<MTLFunction>)newFunctionWithName:(NSString*)name {
  if (!name) softmetal::invalid("newFunctionWithName:nil");
  const sm_kernel* kernel = library->find(to_string(name));
  if (!kernel) return nil;
  static const auto none = std::make_shared<const softmetal::KernelLibrary::Constants>();
  return [[SMFunction alloc] initWithFunction:{library, kernel, none}];
}

- (id<MTLFunction>)newFunctionWithName:(NSString*)name
                        constantValues:(MTLFunctionConstantValues*)values
                                 error:(NSError**)error {
  if (!name) softmetal::invalid("newFunctionWithName:constantValues:error: with a nil name");
  if (!values) softmetal::invalid("newFunctionWithName:constantValues:error: with nil values");
  const sm_kernel* kernel = library->find(to_string(name));
  if (!kernel) {
    softmetal::set_error(error, MTLLibraryErrorDomain, MTLLibraryErrorFunctionNotFound,
                         "the library has no function named '" + to_string(name) + "'");
    return nil;
  }
  auto constants = std::make_shared<softmetal::KernelLibrary::Constants>();
  const sm_library* contents = library->contents();
  for (int i = 0; i < contents->nfconsts; ++i) {
    const sm_fconst& c = contents->fconsts[i];
    NSData* value = [(SMFunctionConstantValues*)values valueAtIndex:c.index name:c.name];
    if (!value) continue;
    if ([value length] != c.size) {
      softmetal::set_error(error, MTLLibraryErrorDomain, MTLLibraryErrorCompileFailure,
                           "function constant '" + std::string(c.name) + "' (index " +
                               std::to_string(c.index) + ") has " + std::to_string(c.size) +
                               " bytes in the source, the type of its value has " +
                               std::to_string([value length]));
      return nil;
    }
    const char* bytes = static_cast<const char*>([value bytes]);
    constants->emplace(c.index, std::vector<char>(bytes, bytes + c.size));
  }
  return [[SMFunction alloc] initWithFunction:{library, kernel, constants}];
}

@end

@implementation SMFunction
@synthesize label = _label;

- (instancetype)initWithFunction:(const softmetal::Function&)contents {
  if ((self = [super init])) function = contents;
  return self;
}

- (void)dealloc {
  [_label release];
  [super dealloc];
}

- (id<MTLDevice>)device {
  return [SMDevice shared];
}

- (MTLFunctionType)functionType {
  return MTLFunctionTypeKernel;
}

- (NSString*)name {
  return to_ns(function.kernel->name);
}

@end
