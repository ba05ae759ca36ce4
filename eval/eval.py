"""`python -m eval.eval …`, as scripts of evalchemy have it, runs `trivet eval run …`."""

import sys

from flows.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["eval", "run"]
    main()
