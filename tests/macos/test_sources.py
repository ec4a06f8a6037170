"""What does not exist on macOS 14 or in PyTorch does not compile or link for a Mac."""

import pytest

pytestmark = pytest.mark.slow

HEAD = """
#include <Metal/Metal.h>
#include <dispatch/dispatch.h>

#include <string>
"""

# name: (source, what clang says)
NOT_COMPILED = {
    "selector": (
        "void f(id<MTLDevice> d) { [d newBufferWithLenght:4 options:0]; }",
        "not found",
    ),
    "type of an argument": (
        'void f(id<MTLComputeCommandEncoder> e) { [e setBuffer:nil offset:@"x" atIndex:0]; }',
        "cannot initialize a parameter of type 'NSUInteger'",
    ),
    "class": ("id f() { return [[MTLCompileOption alloc] init]; }", "undeclared identifier"),
    "enumerator": ("int f() { return MTLMathModeSave; }", "undeclared identifier"),
    "newer than macOS 14, a method": (
        "void f(MTLCompileOptions* o) { o.mathMode = MTLMathModeSafe; }",
        "only available on macOS 15.0 or newer",
    ),
    "newer than macOS 14, a value": (
        "long f() { return MTLLanguageVersion3_2; }",
        "only available on macOS 15.0 or newer",
    ),
    "newer than macOS 14, libSystem": (
        "#include <xpc/xpc.h>\n"
        "int f(xpc_connection_t c) {\n"
        '  return xpc_connection_set_peer_entitlement_exists_requirement(c, "x");\n}',
        "only available on macOS 14.4 or newer",
    ),
    "a stand-in of Linux": ("#include <softmetal/softmetal.h>", "file not found"),
    "the blocks runtime of Linux": ("#include <objc/blocks_runtime.h>", "file not found"),
    "warning": ("int f(int unused) { return 1; }", "unused parameter"),
}

# name: (source, the symbol that the linker misses)
NOT_LINKED = {
    "torch::mps": (
        "namespace torch::mps { id<MTLCommandBuffer> get_comand_buffer(); }\n"
        "id f() { return torch::mps::get_comand_buffer(); }",
        "torch::mps::get_comand_buffer()",
    ),
    "shim of torch": (
        'extern "C" int aoti_torch_get_dimm(void*, long*);\n'
        "int f(void* t, long* d) { return aoti_torch_get_dimm(t, d); }",
        "aoti_torch_get_dimm",
    ),
    "Python": (
        'extern "C" void* PyLong_FromLongg(long);\nvoid* f() { return PyLong_FromLongg(1); }',
        "PyLong_FromLongg",
    ),
    "libSystem": (
        'extern "C" void dispatch_synch(dispatch_queue_t, dispatch_block_t);\n'
        "void f(dispatch_queue_t q, dispatch_block_t b) { dispatch_synch(q, b); }",
        "dispatch_synch",
    ),
    "libc++": (
        "namespace std { inline namespace __1 { struct no_such { no_such(); }; } }\n"
        "void f() { std::no_such n; (void)n; }",
        "std::__1::no_such::no_such()",
    ),
    "Metal": (
        'extern "C" id<MTLDevice> MTLCreateDefaultDevice();\n'
        "id f() { return MTLCreateDefaultDevice(); }",
        "MTLCreateDefaultDevice",
    ),
    "Objective-C class": (
        "@interface MTLCompileOption : NSObject\n@end\nid f() { return [MTLCompileOption new]; }",
        "OBJC_CLASS_$_MTLCompileOption",
    ),
    "run time": (
        'extern "C" id objc_retian(id);\nid f(id x) { return objc_retian(x); }',
        "objc_retian",
    ),
}


@pytest.fixture
def plant(wheel, tmp_path):
    """Compiles a source as csrc/mps/encode.mm is compiled."""
    from cross import compile_like

    def compile_source(text: str, *flags: str):
        source = tmp_path / "planted.mm"
        source.write_text(HEAD + text + "\n")
        return compile_like("mps/encode.mm", source, *flags), source.with_suffix(".o")

    return compile_source


def test_a_source_without_mistakes_compiles_and_links(plant, tmp_path):
    from cross import link_with

    done, planted = plant('std::string f() { return [@"x" UTF8String]; }')
    assert done.returncode == 0, done.stderr
    done = link_with(tmp_path / "out.so", planted)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mistake", NOT_COMPILED)
def test_does_not_compile(plant, mistake):
    source, message = NOT_COMPILED[mistake]
    done, _ = plant(source)
    assert done.returncode != 0
    assert message in done.stderr


def test_what_is_newer_compiles_under_available(plant):
    done, _ = plant(
        "void f(MTLCompileOptions* o) {\n"
        "  if (@available(macOS 15.0, *)) o.mathMode = MTLMathModeSafe;\n"
        "}"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mistake", NOT_LINKED)
def test_does_not_link(plant, mistake, tmp_path):
    from cross import link_with

    source, symbol = NOT_LINKED[mistake]
    done, planted = plant(source)
    assert done.returncode == 0, done.stderr
    done = link_with(tmp_path / "out.so", planted)
    assert done.returncode != 0
    assert f"undefined symbol: {symbol}" in done.stderr


def test_every_objective_c_file_is_type_correct_as_arc(wheel, tmp_path):
    from cross import compile_commands, compile_like
    from macos.paths import ROOT

    files = [name for name in compile_commands() if name.endswith(".mm")]
    assert files
    for name in files:
        command = compile_commands()[name]
        assert "-fno-objc-arc" in command
        done = compile_like(name, ROOT / "csrc" / name, "-fobjc-arc", "-fsyntax-only")
        assert done.returncode == 0, f"{name}:\n{done.stderr}"


def test_manual_ownership_is_an_error_as_arc(plant):
    source = "void f(id<MTLBuffer> b) { [b retain]; }"
    done, _ = plant(source)
    assert done.returncode == 0, done.stderr
    done, _ = plant(source, "-fobjc-arc", "-fsyntax-only")
    assert "ARC forbids explicit message send of 'retain'" in done.stderr
