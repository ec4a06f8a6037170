"""Our declarations of Metal and Foundation are Apple's; a mistake of any kind in them is found."""

import re
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_every_declaration_is_as_published():
    from macos.conformance import compare, declarations

    ours = declarations.read()
    assert sum(len(container.methods) for container in ours.containers) > 100
    assert compare.compare(ours, compare.sources()) == []


def test_every_type_is_known_to_both_sides():
    # An encoding that is not understood would compare equal to nothing, or worse, to another one.
    from macos.conformance import declarations

    ours = declarations.read()
    unknown = {
        (container.name, method.selector)
        for container in ours.containers
        for method in container.methods
        if any("?(" in encoding for encoding in method.types)
    }
    assert unknown == {("NSCopying", "-copyWithZone:")}  # NSZone is opaque everywhere


def test_versions_are_as_recorded():
    from macos.conformance import availability, declarations

    ours = declarations.read()
    assert availability.compare(ours) == []
    needed = availability.needed(ours)
    assert needed["-[MTLCompileOptions mathMode]"] == "15.0"
    assert needed["-[MTLBuffer gpuAddress]"] == "13.0"


# name: (file, pattern, replacement, what the comparison must say)
MISTAKES = {
    "selector": (
        "Metal/MTLComputeCommandEncoder.h",
        r"setThreadgroupMemoryLength:",
        "setThreadgroupMemorySize:",
        "an unknown selector",
    ),
    "label of an argument": (
        "Metal/MTLCommandEncoder.h",
        r"\(void\)pushDebugGroup:",
        "(void)pushGroup:",
        "an unknown selector",
    ),
    "argument's width": (
        "Metal/MTLComputeCommandEncoder.h",
        r"setThreadgroupMemoryLength:\(NSUInteger\)",
        "setThreadgroupMemoryLength:(uint32_t)",
        "types ['v', 'I', 'Q']",
    ),
    "argument's class": (
        "Metal/MTLComputeCommandEncoder.h",
        r"setBuffer:\(nullable id<MTLBuffer>\)",
        "setBuffer:(nullable id<MTLComputePipelineState>)",
        "@(MTLComputePipelineState)",
    ),
    "result": (
        "Metal/MTLCommandEncoder.h",
        r"- \(void\)endEncoding",
        "- (int)endEncoding",
        "types ['i']",
    ),
    "BOOL or int": (
        "Metal/MTLLibrary.h",
        r"BOOL preserveInvariance",
        "int preserveInvariance",
        "preserveInvariance]: types ['i']",
    ),
    "error by value": (
        "Metal/MTLDevice.h",
        r"newLibraryWithURL:\(NSURL\*\)url(\s+)error:\(__autoreleasing NSError\*\*\)",
        r"newLibraryWithURL:(NSURL*)url\1error:(NSError*)",
        "newLibraryWithURL:error:]: types",
    ),
    "block": (
        "Metal/MTLCommandBuffer.h",
        r"\(\^MTLCommandBufferHandler\)\(id<MTLCommandBuffer>\)",
        "(^MTLCommandBufferHandler)(NSUInteger)",
        "@?<vQ>",
    ),
    "on another class": (
        "Metal/MTLLibrary.h",
        r"(@protocol MTLFunction <NSObject>)",
        r"\1\n@property(readonly) NSUInteger threadExecutionWidth;",
        "known, but not on this class",
    ),
    "class method": (
        "Foundation/Foundation.h",
        r"\+ \(NSNumber\*\)numberWithBool",
        "- (NSNumber*)numberWithBool",
        "-[NSNumber numberWithBool:]",
    ),
    "selector of Foundation": (
        "Foundation/Foundation.h",
        "stringWithUTF8String",
        "stringWithUTF8Chars",
        "an unknown selector",
    ),
    "value": (
        "Metal/MTLCommandBuffer.h",
        r"(StatusCommitted = )2",
        r"\g<1>6",
        "MTLCommandBufferStatusCommitted = 6",
    ),
    "value of options": (
        "Metal/MTLCommandEncoder.h",
        r"(MTLResourceUsageWrite = 1 << )1",
        r"\g<1>3",
        "MTLResourceUsageWrite = 8",
    ),
    "enumerator": (
        "Metal/MTLLibrary.h",
        "MTLMathModeRelaxed",
        "MTLMathModeLax",
        "metal-cpp has None",
    ),
    "width of an enum": (
        "Metal/MTLLibrary.h",
        r"NS_ENUM\(NSInteger, MTLMathMode\)",
        "NS_ENUM(uint8_t, MTLMathMode)",
        "MTLMathMode: of type C",
    ),
    "width of options": (
        "Metal/MTLCommandEncoder.h",
        r"NS_OPTIONS\(NSUInteger, MTLBarrierScope\)",
        "NS_OPTIONS(uint32_t, MTLBarrierScope)",
        "MTLBarrierScope: of type I",
    ),
    "width of a field": (
        "Metal/MTLTypes.h",
        "NSUInteger width, height, depth;",
        "uint32_t width, height, depth;",
        "struct MTLSize",
    ),
    "order of fields": (
        "Metal/MTLTypes.h",
        "NSUInteger width, height, depth;",
        "NSUInteger height, width, depth;",
        "struct MTLSize",
    ),
    "class for a protocol": (
        "Metal/MTLLibrary.h",
        r"(API_AVAILABLE\(.*\)\n)@protocol (MTLFunction) <NSObject>",
        r"@protocol \2;\n\1@interface \2 : NSObject",
        "MTLFunction: declared as class, metal-cpp says protocol",
    ),
    "protocol for a class": (
        "Metal/MTLFunctionConstantValues.h",
        r"@interface (MTLFunctionConstantValues) : NSObject <NSCopying>",
        r"@protocol \1 <NSObject>",
        "declared as protocol, metal-cpp says class",
    ),
    "base protocol": (
        "Metal/MTLComputeCommandEncoder.h",
        r"@protocol MTLComputeCommandEncoder <MTLCommandEncoder>",
        "@protocol MTLComputeCommandEncoder <MTLResource>",
        "MTLResource is not a base of it",
    ),
    "function": (
        "Metal/MTLDevice.h",
        "MTLCreateSystemDefaultDevice",
        "MTLCreateDefaultDevice",
        "MTLCreateDefaultDevice(): metal-cpp has no such function",
    ),
    "result of a function": (
        "Metal/MTLDevice.h",
        r"id<MTLDevice> _Nullable MTLCreateSystemDefaultDevice",
        "void MTLCreateSystemDefaultDevice",
        "MTLCreateSystemDefaultDevice(): types ['v']",
    ),
    "constant": (
        "Metal/MTLLibrary.h",
        "MTLLibraryErrorDomain",
        "MTLLibraryErrorsDomain",
        "MTLLibraryErrorsDomain: PyObjC has no such constant",
    ),
    "version": (
        "Metal/MTLBuffer.h",
        r"gpuAddress API_AVAILABLE\(macos\(13.0\)",
        "gpuAddress API_AVAILABLE(macos(12.0)",
        "-[MTLBuffer gpuAddress]: declared for macOS 12.0, the record has 13.0",
    ),
    "version left out": (
        "Metal/MTLLibrary.h",
        r"MTLMathMode mathMode API_AVAILABLE\(macos\(15.0\), ios\(18.0\)\)",
        "MTLMathMode mathMode",
        "-[MTLCompileOptions mathMode]: declared for macOS 10.11, the record has 15.0",
    ),
}


def planted(folder: Path, file: str, pattern: str, replacement: str) -> Path:
    """A copy of our headers, as frameworks, with one mistake in it."""
    from macos import paths

    for name, headers in (
        ("Metal", paths.METAL_HEADERS),
        ("Foundation", paths.FOUNDATION_HEADERS),
    ):
        shutil.copytree(headers, folder / f"{name}.framework" / "Headers")
    framework, _, name = file.partition("/")
    path = folder / f"{framework}.framework" / "Headers" / name
    text = path.read_text()
    changed = re.sub(pattern, replacement, text)
    assert changed != text, f"the mistake is not in {file}"
    path.write_text(changed)
    return folder


def test_a_copy_without_mistakes_has_none(tmp_path):
    from macos.conformance import availability, compare, declarations

    folder = planted(tmp_path, "Metal/Metal.h", r"\Z", "\n")
    ours = declarations.read(folder)
    assert compare.compare(ours, compare.sources()) + availability.compare(ours) == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistake_is_found(mistake, tmp_path):
    from macos.conformance import availability, compare, declarations

    *change, message = MISTAKES[mistake]
    ours = declarations.read(planted(tmp_path, *change))
    problems = compare.compare(ours, compare.sources()) + availability.compare(ours)
    assert any(message in problem for problem in problems), problems
