#!/usr/bin/env python3
"""Checks that every file and every GoogleTest named in docs/faults.md and docs/testing.md, or in the given files, exists.
Usage: check-tests-doc.py [FILE...]."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
documents = [pathlib.Path(name) for name in sys.argv[1:]] or [root / "docs" / "faults.md", root / "docs" / "testing.md"]
missing = []
names = 0
for document in documents:
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
