"""Compares our declarations of Metal and Foundation with what Apple and PyObjC publish.

declarations.py reads ours from clang; metal_cpp.py and pyobjc.py read the sources; compare.py says
what differs; availability.py compares the macOS versions. encoding.py is the language in which
types are compared.
"""
