"""mslc: compiles Metal Shading Language to a kernel library of the software Metal device.

    .metal --clang -E--> preprocessed MSL --rewrite--> C++14 + trampolines --clang--> .so

Address spaces, attributes and [[host_name]] instantiations are handled on the token stream; nothing
of a kernel has to be written for it. Line markers are kept, so that diagnostics and faults name the
original file and line. Only the standard library is used.

    tokens.py         the token stream of a preprocessed file
    parser.py         finds kernels, functions, constants, threadgroup variables
    model.py          what the parser finds
    restrictions.py   refuses what C++ accepts and MSL does not
    rewrite.py        MSL -> C++
    swizzles.py       the same for assignments to components of vectors, in templates
    kernels.py        the kernels of a file and their arguments
    exports.py        the table of them in the library
    compile.py        runs clang
    identity.py       keys and digests: which compiled library belongs to which source
    opencl_check.py   a second reading of the source that checks address spaces
    cli.py            the command line
"""
