"""The site builds without a warning, and what is special about it is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
pytest.importorskip("furo")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site. Sphinx makes an error of every warning."""
    output = tmp_path_factory.mktemp("docs") / "site"
    built = subprocess.run(
        [sys.executable, "-m", "docsite", "--output", str(output)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tools"), *sys.path])},
        cwd=output.parent,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return output


def test_every_page_is_in_the_navigation(site):
    start = (site / "docs" / "index.html").read_text("utf-8")
    assert 'href="adam.html"' in start
    assert 'href="reference/ops.html"' in start
    assert 'href="../README.html"' in start


def test_the_root_leads_to_the_start_page(site):
    assert "docs/index.html" in (site / "index.html").read_text("utf-8")


def test_docstrings_are_the_reference(site):
    text = (site / "docs" / "reference" / "ops.html").read_text("utf-8")
    assert 'id="mps_ds.ops.adam_"' in text
    assert 'id="mps_ds.ops.cpu_adam.cpu_adam_"' in text
    assert 'href="../norms.html"' in text  # "docs/norms.md" in a docstring


def test_a_link_to_a_source_file_shows_it(site):
    text = (site / "docs" / "how_it_works.html").read_text("utf-8")
    assert 'href="../source/csrc/mps/encode.mm.html"' in text
    assert "endEncoding" in (site / "source" / "csrc" / "mps" / "encode.mm.html").read_text("utf-8")


def test_formulas_need_no_script_from_elsewhere(site):
    for page in site.rglob("*.html"):
        assert 'src="http' not in page.read_text("utf-8"), page
    assert "<math" in (site / "docs" / "numerics.html").read_text("utf-8")
