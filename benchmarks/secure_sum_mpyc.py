"""MPyC's sum of three parties' integers, for `secure_sum.py`.

    python benchmarks/secure_sum_mpyc.py 1000000 -M3

A field of 61 bits: no more than a sum of 32-bit integers needs, and the fastest type it has.
"""

import importlib.util
import sys
import time

import numpy as np

import figures


async def total(size: int) -> None:
    from mpyc.runtime import mpc

    field = mpc.SecFld(2**61 - 1)
    await mpc.start()
    own = np.arange(size) % 1000
    start = time.perf_counter()
    first, second, third = mpc.input(field.array(own))
    found = await mpc.output(first + second + third)
    seconds = time.perf_counter() - start
    assert [int(x) for x in found[:9]] == [3 * x for x in range(9)]
    if mpc.pid == 0:
        print("seconds", seconds, flush=True)
    await mpc.shutdown()


if __name__ == "__main__":
    if importlib.util.find_spec("mpyc") is None:
        figures.without_peer(__doc__, "mpyc", "`secure_sum.py --peer` names one that has")
    from mpyc.runtime import mpc

    mpc.run(total(int(next((one for one in sys.argv[1:] if one.isdigit()), "1000"))))
