"""Flatten a .metal file for the run-time compiler and embed it in a C++ header.

Metal's run-time compiler takes one string: it knows <metal_stdlib> but no file of ours. So local
includes are inlined (once each), with #line directives that keep diagnostics on the real file.

    python embed_metal.py adam.metal --source OUT.metal --header OUT.h --name k_adam_source
"""

import argparse
import re
from pathlib import Path

LOCAL_INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')


def flatten(path: Path, seen: set[Path]) -> list[str]:
    """Lines of `path` with its local includes inlined, each file at most once."""
    seen.add(path.resolve())
    lines = [f'#line 1 "{path.name}"']
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        include = LOCAL_INCLUDE.match(line)
        if include:
            target = path.parent / include[1]
            if target.resolve() not in seen:
                lines += flatten(target, seen)
            lines.append(f'#line {number + 1} "{path.name}"')
        elif line.strip() == "#pragma once":
            lines.append("")
        else:
            lines.append(line)
    return lines


def main() -> None:
    """Write the flattened source and the header that embeds it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("metal", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--header", type=Path, required=True)
    parser.add_argument("--name", required=True)
    args = parser.parse_args()
    source = "\n".join(flatten(args.metal, set())) + "\n"
    assert ')MSL"' not in source
    args.source.write_text(source)
    args.header.write_text(
        f"// Made from {args.metal.name}; do not edit.\n#pragma once\n"
        f'inline constexpr char {args.name}[] = R"MSL({source})MSL";\n'
    )


if __name__ == "__main__":
    main()
