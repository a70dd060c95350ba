"""`python -m examples.sentiment`."""

import os
import sys

if __name__ == "__main__":
    # Of such a small model a second thread gains nothing. NumPy reads this when it is imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from examples.sentiment.command import main

    sys.exit(main())
