"""Runs a command and fails if it takes more than SECONDS or MEBIBYTES of resident memory: limits.py SECONDS MEBIBYTES CMD..."""
import resource
import subprocess
import sys
import time

seconds, mebibytes = float(sys.argv[1]), int(sys.argv[2])
start = time.monotonic()
code = subprocess.run(sys.argv[3:], timeout=4 * seconds).returncode
took = time.monotonic() - start
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(f"{took:.1f} s, {peak:.0f} MiB", file=sys.stderr)
if took > seconds or peak > mebibytes:
    sys.exit(f"expected at most {seconds:.0f} s and {mebibytes} MiB")
sys.exit(code)
