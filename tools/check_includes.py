#!/usr/bin/env python3
"""Fails when a file of src/ includes a folder that the architecture does not let it see.

Usage: check_includes.py [SRC]
"""
import pathlib
import re
import sys

# A folder may include the folders named here and, through them, all that those may include.
DIRECT = {
    "cli": ["server", "chat", "sessions"],
    "server": ["chat", "sessions"],
    "chat": ["grammar"],
    "sessions": ["generate"],
    "generate": ["models", "grammar"],
    "models": ["kernels"],
    "kernels": ["checkpoint"],
    "checkpoint": ["base"],
    "grammar": ["text"],
    "text": ["base"],
    "base": [],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def visible(folder):
    """`folder` itself and everything below it."""
    return {folder}.union(*(visible(below) for below in DIRECT[folder]))


def violations(src):
    for path in sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cpp", ".cu", ".cuh")):
        folder = path.relative_to(src).parts[0]
        if folder not in DIRECT:
            yield f"{path}: src/{folder} is not a folder of the architecture"
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            target = found.group(1)
            if not (src / target).is_file():
                yield f'{path}:{number}: "{target}" is not a path below src/'
            elif target.split("/")[0] not in visible(folder):
                yield f'{path}:{number}: {folder} must not include "{target}"'


def main():
    src = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1] / "src"
    found = list(violations(src))
    for line in found:
        print(line)
    print(f"{len(found)} forbidden includes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
