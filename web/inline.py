"""Makes the chat page one document: index.html with its style sheets and modules inside.

Usage: inline.py INDEX.html OUT.cpp

Modules are joined into one scope, those that are imported first: `import {...} from "./name.js";` lines go and
`export` words are dropped. So top-level names must be unique, and no other form of import or export is taken.
OUT.cpp also gets the Content-Security-Policy that lets exactly these styles and this script run, and a tag that
changes with the page.
"""
import base64
import hashlib
import pathlib
import re
import sys

STYLE = re.compile(r'<link rel="stylesheet" href="([^"]+)">\n?')
SCRIPT = re.compile(r'<script type="module" src="([^"]+)"></script>')
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class)\b)", re.MULTILINE)
NAME = re.compile(r"^(?:export )?(?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)


def fail(where, what):
    sys.exit(f"{where}: {what}")


def add_module(path, order, open_paths=()):
    """Appends (path, source) for a module and, before it, for those that it imports."""
    if path in open_paths:
        fail(path, "imports itself, through " + ", ".join(p.name for p in open_paths))
    if path in (known for known, _ in order):
        return
    source = path.read_text(encoding="utf-8")
    for names, imported in IMPORT.findall(source):
        other = path.parent / imported
        add_module(other, order, (*open_paths, path))
        exported = set(re.findall(r"^export (?:async )?(?:function\*?|const|let|class) (\w+)",
                                  other.read_text(encoding="utf-8"), re.MULTILINE))
        for name in filter(None, (name.strip() for name in names.split(","))):
            if name not in exported:
                fail(path, f"{imported} does not export {name}")
    order.append((path, source))


def joined_modules(entry):
    order, owner, parts = [], {}, []
    add_module(entry, order)
    for path, source in order:
        for name in NAME.findall(source):
            if owner.setdefault(name, path) != path:
                fail(path, f"{name} is also a name of {owner[name].name}")
        source = EXPORT.sub("", IMPORT.sub("", source))
        left = re.search(r"^(?:import|export)\b.*|</script", source, re.MULTILINE)
        if left:
            fail(path, f"cannot be joined: {left.group()}")
        parts.append(source.strip() + "\n")
    return "\n".join(parts)


def source_hash(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def policy_of(style, script):
    return "; ".join([
        "default-src 'none'", f"script-src {source_hash(script)}", f"style-src {source_hash(style)}",
        "connect-src 'self'", "img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
        "require-trusted-types-for 'script'", "trusted-types 'none'"])


def page_of(index):
    html = index.read_text(encoding="utf-8")
    style = "".join((index.parent / sheet).read_text(encoding="utf-8") for sheet in STYLE.findall(html))
    script = joined_modules(index.parent / SCRIPT.search(html).group(1))
    first = STYLE.search(html).start()
    html = STYLE.sub("", html)
    html = html[:first] + f"<style>{style}</style>\n" + html[first:]
    html = SCRIPT.sub(lambda _: f'<script type="module">{script}</script>', html)
    return html, policy_of(style, script)


def cpp_of(html, policy):
    content = html.encode()
    tag = hashlib.sha256(content).hexdigest()[:16]
    lines = [", ".join(str(byte) for byte in content[at:at + 32]) for at in range(0, len(content), 32)]
    return "\n".join([
        '#include "server/web_page.h"', "", "namespace weir::server {", "namespace {", "",
        f"constexpr unsigned char kHtml[{len(content)}] = {{", ",\n".join(lines), "};", "", "}  // namespace", "",
        "const WebPage& web_page() {",
        f"  static const WebPage kPage{{{{reinterpret_cast<const char*>(kHtml), sizeof(kHtml)}},",
        f'                             "{policy}",', f'                             "\\"{tag}\\""}};',
        "  return kPage;", "}", "", "}  // namespace weir::server", ""])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    pathlib.Path(sys.argv[2]).write_text(cpp_of(*page_of(pathlib.Path(sys.argv[1]))), encoding="utf-8")
