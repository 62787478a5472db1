"""``python -m catena`` is ``catena``."""

import sys

from catena.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
