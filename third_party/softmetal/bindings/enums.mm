#include "wrappers.h"

namespace softmetal::bindings {

void bind_enums(py::module_& m) {
  py::enum_<MTLStorageMode>(m, "StorageMode")
      .value("SHARED", MTLStorageModeShared)
      .value("MANAGED", MTLStorageModeManaged)
      .value("PRIVATE", MTLStorageModePrivate);
  py::enum_<MTLDispatchType>(m, "DispatchType")
      .value("SERIAL", MTLDispatchTypeSerial)
      .value("CONCURRENT", MTLDispatchTypeConcurrent);
  py::enum_<MTLCommandBufferStatus>(m, "CommandBufferStatus")
      .value("NOT_ENQUEUED", MTLCommandBufferStatusNotEnqueued)
      .value("ENQUEUED", MTLCommandBufferStatusEnqueued)
      .value("COMMITTED", MTLCommandBufferStatusCommitted)
      .value("SCHEDULED", MTLCommandBufferStatusScheduled)
      .value("COMPLETED", MTLCommandBufferStatusCompleted)
      .value("ERROR", MTLCommandBufferStatusError);
  py::enum_<MTLCommandBufferError>(m, "CommandBufferError", py::arithmetic())
      .value("NONE", MTLCommandBufferErrorNone)
      .value("INTERNAL", MTLCommandBufferErrorInternal)
      .value("TIMEOUT", MTLCommandBufferErrorTimeout)
      .value("PAGE_FAULT", MTLCommandBufferErrorPageFault)
      .value("OUT_OF_MEMORY", MTLCommandBufferErrorOutOfMemory)
      .value("INVALID_RESOURCE", MTLCommandBufferErrorInvalidResource)
      .value("STACK_OVERFLOW", MTLCommandBufferErrorStackOverflow);
  py::enum_<MTLLibraryError>(m, "LibraryError", py::arithmetic())
      .value("COMPILE_FAILURE", MTLLibraryErrorCompileFailure)
      .value("FUNCTION_NOT_FOUND", MTLLibraryErrorFunctionNotFound)
      .value("FILE_NOT_FOUND", MTLLibraryErrorFileNotFound);
  py::enum_<MTLLanguageVersion>(m, "LanguageVersion", py::arithmetic())
      .value("V3_0", MTLLanguageVersion3_0)
      .value("V3_1", MTLLanguageVersion3_1)
      .value("V3_2", MTLLanguageVersion3_2)
      .value("V4_0", MTLLanguageVersion4_0);
  py::enum_<MTLMathMode>(m, "MathMode")
      .value("SAFE", MTLMathModeSafe)
      .value("RELAXED", MTLMathModeRelaxed)
      .value("FAST", MTLMathModeFast);
  py::enum_<MTLMathFloatingPointFunctions>(m, "MathFloatingPointFunctions")
      .value("FAST", MTLMathFloatingPointFunctionsFast)
      .value("PRECISE", MTLMathFloatingPointFunctionsPrecise);
  py::enum_<MTLDataType>(m, "DataType")
      .value("FLOAT", MTLDataTypeFloat)
      .value("FLOAT2", MTLDataTypeFloat2)
      .value("FLOAT4", MTLDataTypeFloat4)
      .value("HALF", MTLDataTypeHalf)
      .value("BFLOAT", MTLDataTypeBFloat)
      .value("INT", MTLDataTypeInt)
      .value("UINT", MTLDataTypeUInt)
      .value("UINT2", MTLDataTypeUInt2)
      .value("SHORT", MTLDataTypeShort)
      .value("USHORT", MTLDataTypeUShort)
      .value("CHAR", MTLDataTypeChar)
      .value("UCHAR", MTLDataTypeUChar)
      .value("BOOL", MTLDataTypeBool)
      .value("LONG", MTLDataTypeLong)
      .value("ULONG", MTLDataTypeULong)
      .value("STRUCT", MTLDataTypeStruct);
  py::enum_<MTLGPUFamily>(m, "GPUFamily")
      .value("APPLE7", MTLGPUFamilyApple7)
      .value("APPLE9", MTLGPUFamilyApple9)
      .value("METAL3", MTLGPUFamilyMetal3);
  // Sets of bits, which are plain integers in C++.
  m.attr("USAGE_READ") = NSUInteger(MTLResourceUsageRead);
  m.attr("USAGE_WRITE") = NSUInteger(MTLResourceUsageWrite);
  m.attr("STORAGE_SHARED") = NSUInteger(MTLResourceStorageModeShared);
  m.attr("STORAGE_MANAGED") = NSUInteger(MTLResourceStorageModeManaged);
  m.attr("STORAGE_PRIVATE") = NSUInteger(MTLResourceStorageModePrivate);
}

}  // namespace softmetal::bindings
