"""Runs a command and fails if it takes more than SECONDS or MEBIBYTES of resident memory:
limits.py [--processor] SECONDS MEBIBYTES CMD... With --processor, seconds are of processor time."""
import resource
import subprocess
import sys
import time

arguments = sys.argv[1:]
processor = arguments[0] == "--processor"
if processor:
    arguments.pop(0)
seconds, mebibytes = float(arguments[0]), int(arguments[1])
start = time.monotonic()
code = subprocess.run(arguments[2:], timeout=60 + 4 * seconds).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
took = usage.ru_utime + usage.ru_stime if processor else time.monotonic() - start
peak = usage.ru_maxrss / 1024
print(f"{took:.1f} s, {peak:.0f} MiB", file=sys.stderr)
if took > seconds or peak > mebibytes:
    sys.exit(f"expected at most {seconds:g} s and {mebibytes} MiB")
sys.exit(code)
