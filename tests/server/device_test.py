"""weir on another device beside weir on the CPU: device_test.py WEIR DEVICE PROBLEMS.

The tests run it with `reference`, which is slow, and few problems; bench/device.sh with `cuda` and many.
"""
import concurrent.futures
import json
import sys

from serve_test import QUESTION, ServeTest, support

HOT = {"temperature": 20, "top_k": 0, "top_p": 1}  # nothing but a grammar makes such an answer of a form
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "kind": {"enum": ["apple", "pear"]},
                                           "count": {"type": "integer", "minimum": 0, "maximum": 50}},
          "required": ["name", "kind", "count"], "additionalProperties": False}
ADD = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}}
PENALTIES = {"presence_penalty": 0.7, "frequency_penalty": 0.3, "repetition_penalty": 1.2}
device = None
asked = 0


def problems():
    lines = support.PROBLEMS.read_text().splitlines()[:asked]
    return [[{"role": "user", "content": json.loads(line)["question"]}] for line in lines]


class Device(ServeTest):
    def choices(self, port, messages, **more):
        return self.post(port, "/v1/chat/completions", {"messages": messages, **more})["choices"]

    def setUp(self):
        super().setUp()
        _, self.port = self.serve("--device", device)

    def on_cpu(self):
        _, port = self.serve()
        return port

    def agree(self, share, **more):
        """At least this share of the answers are the CPU's."""
        cpu = self.on_cpu()
        other = [m for m in problems() if self.choices(self.port, m, **more) != self.choices(cpu, m, **more)]
        self.assertLessEqual(len(other), (1 - share) * asked, other)

    def test_greedy_answers_are_those_of_the_cpu(self):
        self.agree(0.95, temperature=0, reasoning_effort="none")

    def test_thinking_too(self):
        self.agree(0.95, temperature=0)

    def test_sampled_answers_with_penalties_are_those_of_the_cpu(self):
        self.agree(0.9, seed=4, temperature=0.8, **PENALTIES)

    def test_a_seed_repeats_an_answer_and_its_choices_differ(self):
        for more in ({}, PENALTIES, {"top_k": 40, "min_p": 0.01}):
            ask = lambda: self.choices(self.port, QUESTION, n=4, seed=11, max_tokens=40, temperature=3, **more)  # noqa: E731
            first = ask()
            self.assertEqual(first, ask())
            self.assertEqual(len({json.dumps(choice["message"]) for choice in first}), 4)

    def test_answers_together_and_from_kept_prefixes_are_those_of_a_fresh_server(self):
        bodies = [{"messages": messages, "seed": 5, "max_tokens": 60} for messages in problems()]
        ask = lambda body: self.post(self.port, "/v1/chat/completions", body)  # noqa: E731
        cold = [ask(body)["choices"] for body in bodies]
        warm = [ask(body) for body in bodies]
        self.assertEqual([answer["choices"] for answer in warm], cold)
        for answer in warm:
            self.assertGreater(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        _, self.port = self.serve("--device", device)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            self.assertEqual([answer["choices"] for answer in pool.map(ask, bodies)], cold)

    def test_json_fits_its_schema_also_after_thinking_within_a_budget(self):
        form = {"type": "json_schema", "json_schema": {"name": "fruit", "schema": SCHEMA}}
        for seed in range(4):
            for more in ({"reasoning_effort": "none"}, {"thinking_budget": 9}):
                message = self.choices(self.port, QUESTION, response_format=form, seed=seed, max_tokens=600, **HOT,
                                       **more)[0]["message"]
                value = json.loads(message["content"])
                self.assertEqual(list(value), ["name", "kind", "count"])
                self.assertIn(value["kind"], ("apple", "pear"))
                self.assertTrue(0 <= value["count"] <= 50 and len(value["name"]) <= 12, value)
                self.assertEqual("limited time" in (message.get("reasoning_content") or ""), "thinking_budget" in more)

    def test_calls_have_their_parameters(self):
        for choice in ("required", {"type": "function", "function": {"name": "add"}}):
            answer = self.choices(self.port, QUESTION, tools=[ADD], tool_choice=choice, parallel_tool_calls=False,
                                  reasoning_effort="none", seed=3, max_tokens=600, **HOT)[0]
            self.assertEqual(answer["finish_reason"], "tool_calls")
            for call in answer["message"]["tool_calls"]:
                arguments = json.loads(call["function"]["arguments"])
                self.assertEqual((call["function"]["name"], sorted(arguments)), ("add", ["a", "b"]))

    def test_logprobs_are_those_of_the_cpu(self):
        ask = lambda port: self.choices(port, QUESTION, temperature=0, logprobs=True, top_logprobs=3)[0]["logprobs"]["content"]  # noqa: E731
        here, there = ask(self.port), ask(self.on_cpu())
        self.assertEqual([entry["token"] for entry in here], [entry["token"] for entry in there])
        for mine, other in zip(here, there):
            self.assertAlmostEqual(mine["logprob"], other["logprob"], delta=0.1)
            self.assertEqual(len(mine["top_logprobs"]), 3)


del ServeTest  # its own tests are elsewhere

if __name__ == "__main__":
    asked = int(sys.argv.pop())
    device = sys.argv.pop()
    support.main()
