"""`python path/to/mslc ...`"""

import sys
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mslc.cli import main

sys.exit(main())
