#include "mps/library.h"

#include "checks.h"
#include "mps/device.h"
#include "mps/device_facts.h"

namespace mps_ds::mps {

namespace {

// Every option is set: nil options mean fast math, which drops NaN tests and changes roundings.
Owned<MTLCompileOptions*> compile_options() {
  auto options = Owned<MTLCompileOptions*>::adopt([[MTLCompileOptions alloc] init]);
  options.get().languageVersion = MTLLanguageVersion3_1;
#ifdef __MAC_15_0  // the SDK knows macOS 15: that of Xcode 15 does not
  if (@available(macOS 15.0, *)) {
    options.get().mathMode = MTLMathModeSafe;
    // Apart from the mode: functions default to their fast variants even in safe mode.
    options.get().mathFloatingPointFunctions = MTLMathFloatingPointFunctionsPrecise;
    return options;
  }
#endif
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
  options.get().fastMathEnabled = NO;
#pragma clang diagnostic pop
  return options;
}

}  // namespace

id<MTLLibrary> Library::compiled() {
  if (library_) return library_.get();
  const DeviceFacts facts = device_facts();
  const std::string unsupported = unsupported_device(facts.metal3, facts.argument_buffers_tier);
  MPS_DS_CHECK(unsupported.empty(), unsupported);
  NSError* error = nil;
  NSString* source = [NSString stringWithUTF8String:source_];
  library_ = Owned<id<MTLLibrary>>::adopt([device() newLibraryWithSource:source
                                                                 options:compile_options().get()
                                                                   error:&error]);
  MPS_DS_CHECK(library_, family_, ".metal does not compile on this machine: ", describe(error));
  return library_.get();
}

Owned<id<MTLFunction>> Library::function(const Key& key) {
  const auto& [kernel, constants] = key;
  auto values = Owned<MTLFunctionConstantValues*>::adopt([[MTLFunctionConstantValues alloc] init]);
  for (size_t i = 0; i < constants.size(); ++i)
    [values.get() setConstantValue:&constants[i] type:MTLDataTypeUInt atIndex:i];
  NSError* error = nil;
  auto function = Owned<id<MTLFunction>>::adopt([compiled()
      newFunctionWithName:[NSString stringWithUTF8String:kernel.c_str()]
           constantValues:values.get()
                    error:&error]);
  MPS_DS_CHECK(function, family_, ".metal has no kernel ", kernel, ": ", describe(error));
  return function;
}

Owned<id<MTLComputePipelineState>> Library::make(const Key& key) {
  auto specialised = function(key);
  NSError* error = nil;
  auto pipeline = Owned<id<MTLComputePipelineState>>::adopt(
      [device() newComputePipelineStateWithFunction:specialised.get() error:&error]);
  MPS_DS_CHECK(pipeline, "no pipeline for ", key.first, ": ", describe(error));
  return pipeline;
}

id<MTLComputePipelineState> Library::pipeline(const std::string& kernel,
                                              const std::vector<uint32_t>& constants) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Key key{kernel, constants};
  auto& pipeline = pipelines_[key];
  if (pipeline) return pipeline.get();
  @autoreleasepool {
    @try {  // a GPU of a virtual machine may raise where others give an error
      pipeline = make(key);
    } @catch (NSException* exception) {
      throw std::runtime_error(text("mps_ds: no pipeline for ", kernel, ": ", describe(exception)));
    }
  }
  return pipeline.get();
}

}  // namespace mps_ds::mps
