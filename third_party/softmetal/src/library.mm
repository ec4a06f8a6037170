#include "objects.h"

using softmetal::to_ns;
using softmetal::to_string;

static std::string type_name(NSUInteger type) {
  struct {
    NSUInteger first;
    const char* name;
  } const scalars[] = {
      {MTLDataTypeFloat, "float"}, {MTLDataTypeHalf, "half"},   {MTLDataTypeInt, "int"},
      {MTLDataTypeUInt, "uint"},   {MTLDataTypeShort, "short"}, {MTLDataTypeUShort, "ushort"},
      {MTLDataTypeChar, "char"},   {MTLDataTypeUChar, "uchar"}, {MTLDataTypeBool, "bool"},
      {MTLDataTypeLong, "long"},   {MTLDataTypeULong, "ulong"}, {MTLDataTypeBFloat, "bfloat"}};
  for (const auto& scalar : scalars) {
    if (type < scalar.first || type > scalar.first + 3) continue;
    return scalar.name + (type > scalar.first ? std::to_string(type - scalar.first + 1) : "");
  }
  return "MTLDataType " + std::to_string(type);
}

std::string softmetal::describe_missing(const sm_kernel& kernel, const sm_fconst& constant) {
  return std::string("kernel '") + kernel.name + "' needs a value of the function constant '" +
         constant.name + "' (index " + std::to_string(constant.index) +
         "): set it in MTLFunctionConstantValues, or ask is_function_constant_defined in the "
         "source";
}

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
    NSArray* typed = [(SMFunctionConstantValues*)values valueAtIndex:c.index name:c.name];
    if (!typed) continue;
    const NSUInteger type = [[typed objectAtIndex:0] unsignedIntegerValue];
    NSData* value = [typed objectAtIndex:1];
    if (type != static_cast<NSUInteger>(c.type) || [value length] != c.size) {
      softmetal::set_error(error, MTLLibraryErrorDomain, MTLLibraryErrorCompileFailure,
                           "kernel '" + std::string(kernel->name) + "': function constant '" +
                               c.name + "' (index " + std::to_string(c.index) + ") is " +
                               type_name(c.type) + " in the source, its value was set as " +
                               type_name(type));
      return nil;
    }
    const char* bytes = static_cast<const char*>([value bytes]);
    constants->emplace(c.index, std::vector<char>(bytes, bytes + c.size));
  }
  if (const sm_fconst* missing = library->missing_constant(*kernel, *constants)) {
    softmetal::set_error(error, MTLLibraryErrorDomain, MTLLibraryErrorCompileFailure,
                         softmetal::describe_missing(*kernel, *missing));
    return nil;
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
