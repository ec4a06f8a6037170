"""No page of the repository has a link, an anchor or a path that leads nowhere."""

from pathlib import Path

import pytest
from docsite import links


def test_the_links_of_the_repository():
    wrong = [
        problem for page in links.pages(links.ROOT) for problem in links.problems(links.ROOT, page)
    ]
    assert wrong == []


def test_every_page_is_looked_at():
    found = {page.relative_to(links.ROOT).as_posix() for page in links.pages(links.ROOT)}
    assert {"README.md", "CONTRIBUTING.md", "docs/index.md", "docs/reference/ops.md"} <= found
    assert {"benchmarks/gpu/NOTES.md", "third_party/softmetal/README.md"} <= found


def problems_of(folder: Path, text: str) -> list[str]:
    """Of a page with this text, in a repository that has one other page and one source file."""
    (folder / "docs").mkdir()
    (folder / "csrc").mkdir()
    (folder / "csrc" / "ops.cpp").touch()
    (folder / "docs" / "other.md").write_text(
        "# Other page\n\n## One `code` & more\n\n## Twice\n## Twice\n"
    )
    page = folder / "docs" / "page.md"
    page.write_text(text)
    return list(links.problems(folder, page))


@pytest.mark.parametrize(
    "text",
    [
        "[a](other.md)",
        "[a](other.md#one-code--more)",
        "[a](other.md#twice-1)",
        "# My own\n[a](#my-own)",
        "[a](../csrc/ops.cpp)",
        "[a](../csrc)",
        "[a](https://example.org/x#y)",
        '[a](other.md "a title")',
        "`[a](nowhere.md)`",
        "```\n[a](nowhere.md)\n# no heading\n```",
        "`csrc/ops.cpp`, `csrc/*.cpp`, `csrc/`, `build/whatever`",
    ],
)
def test_what_is_right(tmp_path, text):
    assert problems_of(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[a](nowhere.md)", 1),
        ("\n[a](other.md#nothing)", 2),
        ("[a](other.md#twice-2)", 1),
        ("```\n# In code\n```\n[a](#in-code)", 4),
        ("[a](../csrc/ops.cpp#main)", 1),
        ("[a](../csrc#main)", 1),
        ("[a](../../secret.md)", 1),
        ("![a](picture.png)", 1),
        ("[![a](other.md)](nowhere.md)", 1),
        ("text\n\n`csrc/gone.cpp`", 3),
    ],
)
def test_what_is_wrong_is_found_where_it_stands(tmp_path, text, line):
    (problem,) = problems_of(tmp_path, text)
    assert problem.startswith(f"docs/page.md:{line}: ")
