"""tools/check_includes.py finds what it is there for."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_includes.py"


class CheckIncludes(unittest.TestCase):
    def check(self, **files):
        """Output and exit code for a src/ with a.h in base, kernels and text, and the files given."""
        with tempfile.TemporaryDirectory() as folder:
            src = pathlib.Path(folder)
            lines = {"base/a.h": "", "kernels/a.h": "", "text/a.h": "", **{k.replace("__", "/"): v for k, v in files.items()}}
            for name, text in lines.items():
                path = src / (name if name.endswith(".h") else name + ".cpp")
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, CHECKER, src], capture_output=True, text=True)
            return done.stdout, done.returncode

    def test_edges_of_the_picture_are_allowed_also_through_folders_between(self):
        out, code = self.check(models__b='#include "kernels/a.h"\n', generate__b='#include "kernels/a.h"\n#include "text/a.h"\n',
                               cli__b='#include "base/a.h"\n', kernels__b='#include <vector>\n#include "kernels/a.h"\n')
        self.assertEqual(code, 0, out)

    def test_any_other_edge_fails_with_file_and_line(self):
        for name, line in (("base__b", '#include "kernels/a.h"'), ("kernels__b", '#include "text/a.h"'),
                           ("chat__b", ' # include "kernels/a.h"'), ("base__b", '#include "a.h"'), ("extra__b", "")):
            out, code = self.check(**{name: "\n" + line + "\n"})
            self.assertEqual(code, 1, (name, line))
            self.assertIn(name.replace("__", "/") + ".cpp", out)


if __name__ == "__main__":
    unittest.main()
