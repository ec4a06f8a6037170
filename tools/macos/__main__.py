"""The macOS build, made and checked on Linux.

fetch   download the parts (build/macos)
sdk     lay out an SDK from them
wheel   both, then build the wheel into dist/ and check it
"""

import argparse
import sys

from . import fetch, sdk, wheel
from .paths import MissingTool

COMMANDS = {"fetch": fetch.fetch, "sdk": sdk.make, "wheel": wheel.make}


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(
        prog="python -m macos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS)
    try:
        COMMANDS[parser.parse_args().command]()
    except MissingTool as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
