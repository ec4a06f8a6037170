"""Prints requirements that pyproject.toml names, one a line: what the build needs, or an extra.

Usage: requirements.py build|test|lint|... [...]
Run by the environment's own Python; Python 3.10 has no tomllib, so pip's copy of it serves there.
"""

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def requirements(group: str) -> list[str]:
    """What `group` asks for: "build" is the build system's list, other names are extras."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    if group == "build":
        return [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    extras = project["project"]["optional-dependencies"]
    if group not in extras:
        raise SystemExit(f"pyproject.toml has no extra {group!r}; it has {', '.join(extras)}")
    return list(extras[group])


if __name__ == "__main__":
    print("\n".join(line for group in sys.argv[1:] for line in requirements(group)))
