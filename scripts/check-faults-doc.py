#!/usr/bin/env python3
"""Checks that every file and every GoogleTest named in docs/faults.md exists. Usage: check-faults-doc.py [FILE]."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
document = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "docs" / "faults.md"
missing = []
names = 0
for number, line in enumerate(document.read_text().split("\n"), 1):
    # A file holds the tests named after it, up to the next file.
    for path, rest in re.findall(r"`([\w./-]+\.(?:cpp|mlir|test))`([^`]*)", line):
        names += 1
        file = root / "test" / path.removeprefix("test/")
        if not file.is_file():
            missing.append(f"{document.name}:{number}: no file {path}")
            continue
        text = file.read_text()
        for suite, name in re.findall(r"\b([A-Z]\w+)\.([A-Z]\w+)", rest):
            names += 1
            if not re.search(rf"\bTEST(?:_F|_P)?\(\s*{suite}\s*,\s*{name}\s*\)", text):
                missing.append(f"{document.name}:{number}: no test {suite}.{name} in {path}")
print("\n".join(missing) or f"{names} names, none missing")
sys.exit(bool(missing))
