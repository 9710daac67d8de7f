"""Starts a program that ends when the process that wanted it ends, however that happens.

    python child_process.py PARENT PROGRAM ARGUMENTS...

Linux tells a process when its parent dies (PR_SET_PDEATHSIG); elsewhere the program simply runs.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died meanwhile
            raise SystemExit(1)
    os.execv(program[0], program)
