"""The macOS build, made and checked on Linux.

fetch          download the parts (build/macos)
sdk            lay out an SDK from them
wheel          both, then build the wheel into dist/ and check it
declarations   compare our declarations of Metal and Foundation with their sources
record FILE    write third_party/macos/introduced.txt anew from PyObjC's description of Metal
"""

import argparse
import sys
from pathlib import Path

from . import fetch, sdk, wheel
from .conformance import availability, compare, declarations
from .paths import MissingTool


def compare_declarations() -> None:
    """Fail if any of our declarations differs from its sources."""
    ours = declarations.read()
    problems = compare.compare(ours, compare.sources()) + availability.compare(ours)
    if problems:
        sys.exit("\n".join(problems))
    methods = sum(len(container.methods) for container in ours.containers)
    values = sum(len(enum.values) for enum in ours.enums)
    print(f"{methods} methods, {values} enum values, {len(ours.structs)} structs: as published")


COMMANDS = {
    "fetch": fetch.fetch,
    "sdk": sdk.make,
    "wheel": wheel.make,
    "declarations": compare_declarations,
}


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(
        prog="python -m macos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=[*COMMANDS, "record"])
    parser.add_argument("file", nargs="?", type=Path)
    args = parser.parse_args()
    try:
        if args.command == "record":
            availability.record(declarations.read(), args.file)
        else:
            COMMANDS[args.command]()
    except MissingTool as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
