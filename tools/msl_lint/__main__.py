"""`python tools/msl_lint [FILE.metal ...]`; without files, all kernels of csrc/mps/kernels."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "third_party" / "softmetal")]

from msl_lint.lint import main  # noqa: E402

sys.exit(main(sys.argv[1:], default=sorted((ROOT / "csrc" / "mps" / "kernels").glob("*.metal"))))
