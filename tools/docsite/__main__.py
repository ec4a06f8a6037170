"""Builds the documentation site: python -m docsite [linkcheck] [--output FOLDER].

Every warning is an error. `linkcheck` asks other sites whether what the pages link to is there.
"""

import argparse
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run Sphinx, anew each time: some seconds, and no trace of pages that are gone."""
    parser = argparse.ArgumentParser(prog="docsite", description=__doc__)
    parser.add_argument("builder", nargs="?", default="html", choices=["html", "linkcheck"])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "docs")
    options = parser.parse_args()
    output = options.output / ("." if options.builder == "html" else options.builder)
    doctrees = options.output.with_name(options.output.name + "-doctrees")
    sphinx = ["-b", options.builder, "-c", str(ROOT / "docs"), "-d", str(doctrees)]
    strict = ["--fresh-env", "--fail-on-warning", "--keep-going", "--quiet"]
    status = build_main([*sphinx, *strict, str(ROOT), str(output)])
    if status == 0 and options.builder == "html":
        print(f"{output.resolve() / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
