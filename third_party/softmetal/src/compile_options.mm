#include "objects.h"

// The interfaces in the header have no instance variables, as Apple's; instances are of a subclass
// that has them.

@interface SMCompileOptions : MTLCompileOptions {
  NSDictionary<NSString*, NSObject*>* _preprocessorMacros;
  MTLMathMode _mathMode;
  MTLMathFloatingPointFunctions _mathFloatingPointFunctions;
  MTLLanguageVersion _languageVersion;
  BOOL _preserveInvariance;
  MTLLibraryOptimizationLevel _optimizationLevel;
  NSUInteger _maxTotalThreadsPerThreadgroup;
}
@end

@implementation MTLCompileOptions
@dynamic preprocessorMacros, fastMathEnabled, mathMode, mathFloatingPointFunctions, languageVersion,
    preserveInvariance, optimizationLevel, maxTotalThreadsPerThreadgroup;

+ (instancetype)allocWithZone:(NSZone*)zone {
  if (self == [MTLCompileOptions class]) return [SMCompileOptions allocWithZone:zone];
  return [super allocWithZone:zone];
}

- (id)copyWithZone:(NSZone*)zone {
  MTLCompileOptions* copy = [[MTLCompileOptions allocWithZone:zone] init];
  copy.preprocessorMacros = self.preprocessorMacros;
  copy.mathMode = self.mathMode;
  copy.mathFloatingPointFunctions = self.mathFloatingPointFunctions;
  copy.languageVersion = self.languageVersion;
  copy.preserveInvariance = self.preserveInvariance;
  copy.optimizationLevel = self.optimizationLevel;
  copy.maxTotalThreadsPerThreadgroup = self.maxTotalThreadsPerThreadgroup;
  return copy;
}

@end

@implementation SMCompileOptions
@synthesize preprocessorMacros = _preprocessorMacros;
@synthesize mathFloatingPointFunctions = _mathFloatingPointFunctions;
@synthesize languageVersion = _languageVersion;
@synthesize preserveInvariance = _preserveInvariance;
@synthesize optimizationLevel = _optimizationLevel;
@synthesize maxTotalThreadsPerThreadgroup = _maxTotalThreadsPerThreadgroup;

// Apple's defaults: fast math, fast functions, the newest language.
- (instancetype)init {
  if ((self = [super init])) {
    _mathMode = MTLMathModeFast;
    _languageVersion = MTLLanguageVersion3_2;
  }
  return self;
}

- (void)dealloc {
  [_preprocessorMacros release];
  [super dealloc];
}

// Two views of one setting.
- (MTLMathMode)mathMode {
  return _mathMode;
}
- (void)setMathMode:(MTLMathMode)mode {
  _mathMode = mode;
}
- (BOOL)fastMathEnabled {
  return _mathMode == MTLMathModeFast;
}
- (void)setFastMathEnabled:(BOOL)fast {
  _mathMode = fast ? MTLMathModeFast : MTLMathModeSafe;
}

@end
