#!/usr/bin/env python3
"""Grammars of schemas against the jsonschema package: what is generated validates, what is valid is taken.

The package is installed from PyPI into build/test-venv; where that is not possible, the test is skipped.
"""
import json
import pathlib
import random
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from venv_python import python_with  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROBE = None


def judge_python():
    return python_with(["jsonschema", "rfc3339_validator", "fqdn", "rfc3987"],
                       ["jsonschema", "rfc3339-validator", "fqdn", "rfc3987"])


JUDGE = '''
import json, sys
from jsonschema import Draft202012Validator
for line in sys.stdin:
    schema, texts = json.loads(line)
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    verdicts = []
    for text in texts:
        try:
            verdicts.append(validator.is_valid(json.loads(text)))
        except ValueError:
            verdicts.append(None)
    print(json.dumps(verdicts), flush=True)
'''


class Lines:
    """A program that answers each line with a line of JSON."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def ask(self, question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


NAMES = ["a", "b", "name", "na", "nam\u00e9", 'q"t', "x-y", "", "\\", "kind"]
WORDS = ["", "a", "ab", "abc", "\u00e9", 'say "hi"', "line\nbreak", "\U0001F600", "null", "</tool_call>", "0"]
PATTERNS = ["^a+$", "^[a-c]{1,3}$", "b", "^(foo|bar)?$", r"^\d{2}-\d{2}$", "^[^a]*$", "^.{2}$", r"\w\s", '^"', "^\u00e9?x*?$"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email", "hostname", "uri"]


class Schemas:
    """Random schemas of the keywords that are enforced, and values that often satisfy them."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def maybe(self, schema, **fields):
        for name, value in fields.items():
            if self.random.random() < 0.4:
                schema[name] = value
        return schema

    def schema(self, depth=0):
        r = self.random
        kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "pattern", "types", "any"]
        if depth < 3:
            kinds += ["object", "array", "tuple", "anyOf", "allOf", "ref", "map"] * 2
        kind = r.choice(kinds)
        low, size = r.randint(-30, 30), r.choice([0, 1, 5, 1000])
        if kind == "string":
            least = r.randint(0, 3)
            return self.maybe({"type": "string"}, minLength=least, maxLength=least + r.randint(0, 4))
        if kind == "integer":
            return self.maybe({"type": "integer"}, minimum=low, exclusiveMaximum=low + size + 1)
        if kind == "number":
            return self.maybe({"type": "number"}, minimum=low / 4, maximum=low / 4 + size, exclusiveMinimum=low / 4 - 0.125)
        if kind in ("boolean", "null"):
            return {"type": kind}
        if kind == "enum":
            return {"enum": r.sample([1, "1", None, True, "a\u00e9", [1, 2], {"k": "v"}, 2.5, -7], 3)}
        if kind == "const":
            return {"const": r.choice(WORDS + [0, 1.5, [], {}])}
        if kind == "pattern":
            return self.maybe({"type": "string", "pattern": r.choice(PATTERNS)}, minLength=1, maxLength=6)
        if kind == "types":
            return {"type": r.sample(["string", "integer", "null", "boolean", "number"], 2)}
        if kind == "any":
            return {}
        if kind == "array":
            least = r.randint(0, 2)
            schema = {"type": "array", "items": self.schema(depth + 1)}
            return self.maybe(schema, minItems=least, maxItems=least + r.randint(0, 2))
        if kind == "tuple":
            schema = {"type": "array", "prefixItems": [self.schema(depth + 1) for _ in range(r.randint(1, 2))]}
            return self.maybe(schema, items=r.choice([False, {"type": "null"}]), minItems=r.randint(0, 2), maxItems=3)
        if kind == "anyOf":
            return {"anyOf": [self.schema(depth + 1) for _ in range(2)]}
        if kind == "allOf":
            return {"allOf": [self.object(depth + 1)], "title": "x"}
        if kind == "ref":
            return {"$ref": "#/$defs/" + r.choice(["tree", "list"])}
        if kind == "map":
            return {"type": "object", "additionalProperties": self.schema(depth + 1)}
        return self.object(depth)

    def object(self, depth):
        r = self.random
        names = r.sample(NAMES, r.randint(0, 4))
        schema = {"type": "object", "properties": {name: self.schema(depth + 1) for name in names}}
        schema["required"] = [name for name in names if r.random() < 0.5]
        return self.maybe(schema, additionalProperties=r.choice([False, True, {"type": "integer"}]))

    def root(self):
        schema = self.schema()
        schema["$defs"] = {
            "tree": {"type": "object", "properties": {"v": self.schema(3), "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
                     "required": ["v"], "additionalProperties": False},
            "list": {"anyOf": [{"type": "null"}, {"type": "array", "prefixItems": [{"type": "integer"}, {"$ref": "#/$defs/list"}],
                                                  "items": False, "minItems": 2}]}}
        return schema

    def mutated(self, text):
        """The document with one change, often no longer valid."""
        r = self.random
        value = json.loads(text)

        def change(value):
            if r.random() < 0.3 or not isinstance(value, (list, dict)) or not value:
                return r.choice([None, True, 0, -1, 7, 10**6, 1.5, "", "zz", [], {}, [value], {"a": value}, "abcdefghij"])
            if isinstance(value, list):
                at = r.randrange(len(value))
                how = r.random()
                if how < 0.2:
                    return value[:at] + value[at + 1:]
                if how < 0.4:
                    return value[:at] + [value[at]] + value[at:]
                return value[:at] + [change(value[at])] + value[at + 1:]
            name = r.choice(list(value))
            how = r.random()
            if how < 0.3:
                return {k: v for k, v in value.items() if k != name}
            if how < 0.5:
                return {**value, r.choice(NAMES): 1}
            return {k: change(v) if k == name else v for k, v in value.items()}

        return json.dumps(change(value), ensure_ascii=r.random() < 0.3, separators=r.choice([(",", ":"), (", ", ": ")]))


def plain(value):
    """Whether weir writes the value's numbers so: integers without a point, and not too many digits."""
    if isinstance(value, float):
        return "e" not in repr(value) and value != int(value)
    if isinstance(value, int):
        return abs(value) < 10**15
    if isinstance(value, dict):
        return all(map(plain, value.values()))
    return all(map(plain, value)) if isinstance(value, list) else True


class Schema(unittest.TestCase):
    def setUp(self):
        self.judge = Lines([str(judge_python()), "-c", JUDGE])
        self.addCleanup(self.judge.close)
        self.probe = Lines([PROBE])
        self.addCleanup(self.probe.close)

    def ask(self, schema, texts=(), walks=0, seed=0):
        return self.probe.ask({"schema": schema, "texts": list(texts), "walks": walks, "seed": seed})

    def test_whatever_is_generated_validates_and_mutations_are_taken_only_if_valid(self):
        generated = mutations = refused = taken = 0
        for seed in range(400):
            schemas = Schemas(seed)
            schema = schemas.root()
            found = self.ask(schema, walks=6, seed=seed)
            if "error" in found:
                # A pattern and a length, or bounds, may leave nothing.
                self.assertIn("no value", found["error"], schema)
                refused += 1
                continue
            texts = [text for text, complete in found["walks"] if complete]
            verdicts = self.judge.ask([schema, texts])
            self.assertEqual(verdicts, [True] * len(texts), f"{schema}\n{texts}")
            generated += len(texts)
            changed = [schemas.mutated(text) for text in texts for _ in range(6)]
            verdicts = self.judge.ask([schema, changed])
            for text, takes, valid in zip(changed, self.ask(schema, changed)["takes"], verdicts):
                mutations += 1
                taken += takes
                if takes:
                    self.assertTrue(valid, f"{schema}\n{text}")
        self.assertGreater(generated, 1200)
        self.assertGreater(mutations, 7000)
        self.assertGreater(taken, 1000)
        self.assertLess(refused, 40)
        print(f"{generated} generated, {mutations} mutations of which {taken} taken, {refused} schemas without a value")

    def test_valid_documents_of_closed_schemas_are_taken(self):
        missed = valid = 0
        for seed in range(400):
            schemas = Schemas(seed + 1000)
            schema = schemas.root()
            found = self.ask(schema, walks=4, seed=seed)
            if "error" in found:
                continue
            texts = [text for text, complete in found["walks"] if complete]
            changed = [schemas.mutated(text) for text in texts for _ in range(8)]
            changed = [text for text in changed if plain(json.loads(text))]
            verdicts = self.judge.ask([schema, changed])
            for text, takes, is_valid in zip(changed, self.ask(schema, changed)["takes"], verdicts):
                # The order of properties and properties that are not listed are left out by choice, and escapes
                # beside a pattern.
                if is_valid and "{" not in text and "\\" not in text:
                    valid += 1
                    if not takes:
                        missed += 1
                        self.fail(f"{schema}\n{text}")
        self.assertGreater(valid, 500)

    def test_objects_in_the_order_of_the_schema_are_taken(self):
        r = random.Random(5)
        taken = 0
        for _ in range(300):
            names = r.sample(NAMES, r.randint(1, 6))
            required = [name for name in names if r.random() < 0.4]
            schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": required}
            more = r.random() < 0.5
            if more:
                schema["additionalProperties"] = {"type": "boolean"}
            texts = []
            for _ in range(10):
                value = {name: r.randint(-99, 99) for name in names if r.random() < 0.7}
                if r.random() < 0.3:
                    value[r.choice(["zz", "n", "names", "\u00e9"])] = True
                texts.append(json.dumps(value, ensure_ascii=False))
            verdicts = self.judge.ask([schema, texts])
            for text, takes, valid in zip(texts, self.ask(schema, texts)["takes"], verdicts):
                listed = all(name in names for name in json.loads(text))
                self.assertEqual(takes, valid and (more or listed), f"{schema}\n{text}")
                taken += takes
        self.assertGreater(taken, 300)

    def test_formats_are_those_of_other_programs(self):
        for name in FORMATS:
            schema = {"type": "string", "format": name}
            found = self.ask(schema, walks=60, seed=3)
            texts = [text for text, complete in found["walks"] if complete]
            self.assertGreater(len(texts), 20, name)
            self.assertEqual(self.judge.ask([schema, texts]), [True] * len(texts), f"{name} {texts}")
        given = {"date": ["2024-02-29", "1999-12-31"], "date-time": ["2024-05-06T07:08:09Z", "2024-05-06T07:08:09.25+02:00"],
                 "uuid": ["123e4567-e89b-12d3-a456-426614174000"], "email": ["jane.doe+x@mail.example.com"], "ipv4": ["192.168.0.1"],
                 "hostname": ["www.example.com"], "uri": ["https://example.com/a?b=c#d", "http://localhost:8080"], "time": ["23:59:59Z"]}
        for name, texts in given.items():
            found = self.ask({"type": "string", "format": name}, [json.dumps(text) for text in texts])
            self.assertEqual(found["takes"], [True] * len(texts), name)
        wrong = {"date": ["2023-02-29", "2024-13-01", "2024-1-1"], "ipv4": ["256.1.1.1", "1.1.1"], "time": ["24:00:00Z"], "uuid": ["123"]}
        for name, texts in wrong.items():
            found = self.ask({"type": "string", "format": name}, [json.dumps(text) for text in texts])
            self.assertEqual(found["takes"], [False] * len(texts), name)

    def test_patterns_are_those_of_python(self):
        alphabet = ["a", "b", "c", "-", "0", "1", "x", " ", "\u00e9", '"', "\\", "foo", "bar", "\n"]
        r = random.Random(11)
        found = 0
        for pattern in PATTERNS + ["a|b", "^a|b$", "(a|b)+c", "^(?:ab?){2,3}$", r"^[\w-]+$", r"^\S+$", "a{0}b", "^[\"\\\\]+$", r"^\u0061\x62$"]:
            schema = {"type": "string", "pattern": pattern}
            texts = [json.dumps("".join(r.choices(alphabet, k=r.randint(0, 5))), ensure_ascii=False) for _ in range(300)]
            verdicts = self.judge.ask([schema, texts])
            for text, takes, valid in zip(texts, self.ask(schema, texts)["takes"], verdicts):
                if "\u00e9" in text and "\\" in pattern:
                    self.assertLessEqual(takes, valid)  # what letters are beyond ASCII
                elif text.endswith('\\n"') and "$" in pattern:
                    self.assertLessEqual(takes, valid)  # Python's $ overlooks a last line break
                else:
                    self.assertEqual(takes, valid, f"{pattern} {text}")
                found += takes
        self.assertGreater(found, 300)


if __name__ == "__main__":
    PROBE = sys.argv.pop(1)
    unittest.main(verbosity=1)
