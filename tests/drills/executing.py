"""A process that executes programs: `python -m tests.drills.executing run|map`.

Prints the process ids of its sandbox once its programs run, and then what came of each program, should one end.
"""

from __future__ import annotations

import os
import sys
import time

from tasks.sandbox import Limits, Program, Sandbox
from tests.sandbox.attacking import wait_for_name

WORKERS = 2
STAYS = """
import ctypes, os, signal, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        break
ctypes.CDLL(None).prctl(15, b'trivet-stays', 0, 0, 0)
while True: time.sleep(60)
"""
"""Nothing but a kill ends it: it ignores signals, and so do children that have left it."""
PROGRAM = Program(STAYS, limits=Limits(wall_s=600))


def main(how: str) -> None:
    """Execute programs that never end, many more than there are workers."""
    import threading

    with Sandbox(WORKERS) as sandbox:
        threading.Thread(target=tell, args=(sandbox,), daemon=True).start()
        if how == "map":
            for done in sandbox.map(sandbox.run, [PROGRAM] * 40):
                print(done.status, flush=True)
        else:
            print(sandbox.run(PROGRAM).status, flush=True)


def tell(sandbox: Sandbox) -> None:
    """The process ids, when all that can run does."""
    while not sandbox.pids():
        time.sleep(0.01)
    wait_for_name(sandbox, "trivet-stays")
    print(os.getpid(), *sandbox.pids(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
