#!/usr/bin/env python3
"""Answers of a form in the layout of Qwen, drawn at random from what their grammar allows: contents and arguments of
calls, as weir's own parser reads them, against the jsonschema package."""
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "grammar"))
import jsonschema_test  # noqa: E402
from jsonschema_test import NAMES, Lines, Schemas, judge_python  # noqa: E402

PROBE = None


def tool(name, parameters, strict=True):
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": strict}}


class Form(unittest.TestCase):
    def setUp(self):
        self.judge = Lines([str(judge_python()), "-c", jsonschema_test.JUDGE])
        self.addCleanup(self.judge.close)
        self.probe = Lines([PROBE])
        self.addCleanup(self.probe.close)

    def ask(self, tools=(), schema=None, calls="required", one_call=False, think=False, walks=6, seed=1):
        return self.probe.ask({"tools": list(tools), "schema": schema, "calls": calls, "one_call": one_call,
                               "think": think, "walks": walks, "seed": seed})

    def check_calls(self, tools, answers):
        """All complete answers are calls whose arguments their tool's schema admits; returns how many calls."""
        schemas = {t["function"]["name"]: t["function"]["parameters"] for t in tools}
        count = 0
        for answer in answers:
            if not answer["complete"]:
                continue
            self.assertTrue(answer["calls"], answer)
            for name, arguments, malformed in answer["calls"]:
                self.assertFalse(malformed, answer)
                self.assertIn(name, schemas)
                verdict = self.judge.ask([schemas[name], [jsonschema_test.json.dumps(arguments)]])
                self.assertEqual(verdict, [True], f"{schemas[name]} {arguments}")
                count += 1
        return count

    def parameters(self, schemas):
        root = schemas.root()
        names = schemas.random.sample([n for n in NAMES if n not in ("", "\\")], 3)
        return {"type": "object", "properties": {n: schemas.schema(1) for n in names}, "$defs": root["$defs"],
                "required": [n for n in names if schemas.random.random() < 0.6], "additionalProperties": False}

    def test_arguments_of_required_calls_satisfy_the_schemas_of_their_tools(self):
        count = errors = 0
        for seed in range(250):
            schemas = Schemas(seed)
            tools = [tool("alpha", self.parameters(schemas)), tool("beta", self.parameters(schemas))]
            found = self.ask(tools, seed=seed, think=seed % 3 == 0, one_call=seed % 2 == 0)
            if "error" in found:
                # Constants that hold a tag, and schemas of which no value can be written as text.
                self.assertRegex(found["error"], "no value|call format", tools)
                errors += 1
                continue
            count += self.check_calls(tools, found["answers"])
            for answer in found["answers"]:
                if answer["complete"]:
                    self.assertEqual(answer["content"], "")
                    if seed % 2 == 0:
                        self.assertEqual(len(answer["calls"]), 1)
        self.assertGreater(count, 300)
        self.assertLess(errors, 60)
        print(f"{count} calls, {errors} schemas refused")

    def test_content_of_a_schema_keeps_what_looks_like_a_tag(self):
        schema = {"type": "object", "properties": {"a": {"enum": ["<tool_call>", "</think>", "<think>"]}, "b": {"type": "string"}},
                  "required": ["a"]}
        for think in (False, True):
            answers = self.ask(schema=schema, calls="none", think=think, walks=40)["answers"]
            contents = [a["content"] for a in answers if a["complete"]]
            self.assertGreater(len(contents), 20)
            self.assertEqual(self.judge.ask([schema, contents]), [True] * len(contents), contents)
            self.assertTrue(all(not a["calls"] for a in answers if a["complete"]))
            self.assertEqual(any(a["reasoning"] for a in answers), think)

    def test_with_tools_a_schema_leaves_the_choice_between_content_and_calls(self):
        schema = {"type": "integer"}
        tools = [tool("f", {"type": "object", "properties": {"x": {"type": "string"}}})]
        answers = [a for a in self.ask(tools, schema=schema, calls="allowed", walks=60)["answers"] if a["complete"]]
        called = [a for a in answers if a["calls"]]
        contents = [a["content"] for a in answers if not a["calls"]]
        self.assertTrue(called and contents)
        self.assertTrue(all(a["content"] == "" for a in called))
        self.assertEqual(self.judge.ask([schema, contents]), [True] * len(contents))

    def test_free_content_may_go_over_into_calls_that_are_strict(self):
        tools = [tool("f", {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]})]
        answers = [a for a in self.ask(tools, calls="allowed", walks=400)["answers"] if a["complete"]]
        self.assertTrue(any(not a["calls"] for a in answers))
        self.check_calls(tools, [a for a in answers if a["calls"]])

    def test_what_cannot_be_enforced_is_refused_of_strict_tools_and_named_of_others(self):
        odd = {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}}}
        found = self.ask([tool("f", odd)])
        self.assertIn("tools[0].parameters.properties.x: uniqueItems", found["error"])
        found = self.ask([tool("f", odd, strict=False)])
        self.assertIn("uniqueItems", found["notes"][0])
        for name in ("a>b", "a\nb", "a<b"):
            self.assertIn("cannot be written", self.ask([tool("f", {"properties": {name: {}}})])["error"])

    def test_a_tool_without_parameters_can_be_called(self):
        for parameters in ({}, {"type": "object"}, {"type": "object", "properties": {}}):
            answers = self.ask([tool("f", parameters)], one_call=True, walks=2)["answers"]
            self.assertEqual([a["calls"] for a in answers], [[["f", {}, False]]] * 2)


if __name__ == "__main__":
    PROBE = sys.argv.pop(1)
    unittest.main(verbosity=1)
