#include "objects.h"

using softmetal::invalid;

// Bytes of one value. 0: not the type of a function constant.
static NSUInteger size_of(MTLDataType type) {
  struct {
    MTLDataType first;
    NSUInteger bytes;
  } const scalars[] = {{MTLDataTypeFloat, 4}, {MTLDataTypeHalf, 2},  {MTLDataTypeInt, 4},
                       {MTLDataTypeUInt, 4},  {MTLDataTypeShort, 2}, {MTLDataTypeUShort, 2},
                       {MTLDataTypeChar, 1},  {MTLDataTypeUChar, 1}, {MTLDataTypeBool, 1},
                       {MTLDataTypeLong, 8},  {MTLDataTypeULong, 8}};
  if (type == MTLDataTypeBFloat) return 2;
  for (const auto& scalar : scalars) {
    if (type < scalar.first || type > scalar.first + 3) continue;
    const NSUInteger lanes = type - scalar.first + 1;
    return scalar.bytes * (lanes == 3 ? 4 : lanes);
  }
  return 0;
}

static NSArray* value_of(const void* value, MTLDataType type, const char* method) {
  if (!value) invalid(std::string(method) + " with a null value");
  const NSUInteger size = size_of(type);
  if (!size) {
    invalid(std::string(method) + ": MTLDataType " + std::to_string(type) +
            " cannot be a function constant (a scalar or vector can)");
  }
  return [NSArray arrayWithObjects:[NSNumber numberWithUnsignedInteger:type],
                                   [NSData dataWithBytes:value length:size], nil];
}

@implementation MTLFunctionConstantValues

// The interface has no instance variables, as Apple's; instances are of a subclass that does.
+ (instancetype)allocWithZone:(NSZone*)zone {
  if (self == [MTLFunctionConstantValues class]) {
    return [SMFunctionConstantValues allocWithZone:zone];
  }
  return [super allocWithZone:zone];
}

- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  [self doesNotRecognizeSelector:_cmd];
  return nil;
}
- (void)setConstantValue:(const void*)value type:(MTLDataType)type atIndex:(NSUInteger)index {
  (void)value, (void)type, (void)index;
  [self doesNotRecognizeSelector:_cmd];
}
- (void)setConstantValues:(const void*)values type:(MTLDataType)type withRange:(NSRange)range {
  (void)values, (void)type, (void)range;
  [self doesNotRecognizeSelector:_cmd];
}
- (void)setConstantValue:(const void*)value type:(MTLDataType)type withName:(NSString*)name {
  (void)value, (void)type, (void)name;
  [self doesNotRecognizeSelector:_cmd];
}
- (void)reset {
  [self doesNotRecognizeSelector:_cmd];
}

@end

@implementation SMFunctionConstantValues

- (instancetype)init {
  if ((self = [super init])) {
    _byIndex = [NSMutableDictionary new];
    _byName = [NSMutableDictionary new];
  }
  return self;
}

- (void)dealloc {
  [_byIndex release];
  [_byName release];
  [super dealloc];
}

- (id)copyWithZone:(NSZone*)zone {
  SMFunctionConstantValues* copy = [[SMFunctionConstantValues allocWithZone:zone] init];
  [copy->_byIndex addEntriesFromDictionary:_byIndex];
  [copy->_byName addEntriesFromDictionary:_byName];
  return copy;
}

- (void)setConstantValue:(const void*)value type:(MTLDataType)type atIndex:(NSUInteger)index {
  [_byIndex setObject:value_of(value, type, "setConstantValue:type:atIndex:")
               forKey:[NSNumber numberWithUnsignedInteger:index]];
}

- (void)setConstantValues:(const void*)values type:(MTLDataType)type withRange:(NSRange)range {
  for (NSUInteger i = 0; i < range.length; ++i) {
    const char* value = static_cast<const char*>(values) + i * size_of(type);
    [self setConstantValue:value type:type atIndex:range.location + i];
  }
}

- (void)setConstantValue:(const void*)value type:(MTLDataType)type withName:(NSString*)name {
  if (!name) invalid("setConstantValue:type:withName:nil");
  [_byName setObject:value_of(value, type, "setConstantValue:type:withName:") forKey:name];
}

- (void)reset {
  [_byIndex removeAllObjects];
  [_byName removeAllObjects];
}

- (NSArray*)valueAtIndex:(int)index name:(const char*)name {
  NSArray* value = [_byIndex objectForKey:[NSNumber numberWithUnsignedInteger:index]];
  return value ? value : [_byName objectForKey:softmetal::to_ns(name)];
}

@end
