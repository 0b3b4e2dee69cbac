"""Virtual environments for packages from PyPI that tests compare with."""
import pathlib
import subprocess
import sys
import unittest

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build"


def python_with(modules, packages, folder="test-venv"):
    """The interpreter of build/<folder>, in which `modules` can be imported: `packages` are installed where they
    cannot. Raises SkipTest where that is not possible."""
    python = BUILD / folder / "bin" / "python"
    ready = [str(python), "-c", f"import {', '.join(modules)}"]
    if python.exists() and subprocess.run(ready, capture_output=True).returncode == 0:
        return python
    made = subprocess.run([sys.executable, "-m", "venv", str(BUILD / folder)], capture_output=True, text=True)
    if made.returncode == 0:
        install = [str(python), "-m", "pip", "install", "-q", "--retries", "0", "--timeout", "15", *packages]
        made = subprocess.run(install, capture_output=True, text=True)
    if made.returncode != 0:
        raise unittest.SkipTest(f"{' and '.join(packages)} cannot be installed here: {(made.stderr or made.stdout)[-300:]}")
    return python
