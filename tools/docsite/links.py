"""Links of the Markdown files: python tools/docsite/links.py.

Checks, with nothing but Python, that every relative link leads to a file of the repository and
every anchor to a heading, by GitHub's rules, and that paths in code (`csrc/ops.cpp`) exist.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "csrc", "python", "tests", "tools", "third_party", "benchmarks", "examples")

FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^\s()<>]+)>?[^()]*\)")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)? *$", re.MULTILINE)
PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./*-]+")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


def _blank(match: re.Match[str]) -> str:
    """As many lines as before, so that line numbers stay."""
    return "\n" * match.group().count("\n")


def prose(text: str) -> str:
    """What is not code."""
    return CODE.sub(_blank, FENCE.sub(_blank, text))


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings."""
    found: dict[str, int] = {}
    for heading in HEADING.findall(FENCE.sub(_blank, text)):
        words = re.sub(r"\]\([^)]*\)", "", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
        if found[slug]:
            found[f"{slug}-{found[slug]}"] = 0
    return set(found)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _link_problem(root: Path, page: Path, target: str) -> str | None:
    path, _, anchor = target.partition("#")
    file = (page.parent / unquote(path)).resolve() if path else page
    if not file.is_relative_to(root):
        return f"{target} leads out of the repository"
    if not file.exists():
        return f"{target}: there is no such file or folder"
    if not anchor:
        return None
    if file.suffix != ".md":
        return f"{target}: an anchor in a file that has none"
    if unquote(anchor) not in anchors(file.read_text("utf-8")):
        return f"{target}: no heading of that file has this anchor"
    return None


def problems(root: Path, page: Path) -> Iterator[str]:
    """What is wrong in one page, as FILE:LINE: TEXT."""
    text = page.read_text("utf-8")
    where = page.relative_to(root)
    without_code = prose(text)
    for link in LINK.finditer(without_code):
        target = link.group(1)
        wrong = None if ELSEWHERE.match(target) else _link_problem(root, page, target)
        if wrong:
            yield f"{where}:{_line(without_code, link.start())}: {wrong}"
    without_blocks = FENCE.sub(_blank, text)
    for code in CODE.finditer(without_blocks):
        path = code.group(2).rstrip("/")
        if PATH.fullmatch(path) and not (any(root.glob(path)) or any(page.parent.glob(path))):
            line = _line(without_blocks, code.start())
            yield f"{where}:{line}: {path}: there is no such file or folder"


def pages(root: Path) -> list[Path]:
    """The Markdown files at the root and in the folders of the repository."""
    below = (page for folder in FOLDERS for page in (root / folder).rglob("*.md"))
    return sorted([*root.glob("*.md"), *below])


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    wrong = [problem for page in pages(ROOT) for problem in problems(ROOT, page)]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
