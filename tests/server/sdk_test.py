"""The official Python clients of OpenAI and Anthropic against weir serve, on both pocket models.

They are installed from PyPI into build/test-venv; where that is not possible, the test is skipped.
"""
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
from serve_test import QUESTION, ServeTest, support  # noqa: E402
from venv_python import python_with  # noqa: E402

PACKAGES = ["openai", "anthropic"]
ADD = {"name": "add", "description": "Adds two numbers",
       "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}


def client_python():
    return python_with(PACKAGES, PACKAGES)


SCRIPT = '''
import json, sys, typing
import anthropic, openai, pydantic
port, question, add = json.loads(sys.argv[1])
out = {}
claude = anthropic.Anthropic(base_url=f"http://127.0.0.1:{port}", api_key="unused", max_retries=0)
client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused", max_retries=0)
out["models"] = [m.id for m in client.models.list()]
model = out["models"][0]
chat = lambda **more: client.chat.completions.create(model=model, messages=question, seed=1, **more)
whole = chat(max_tokens=64)
out["chat"] = whole.choices[0].message.content
out["usage"] = whole.usage.total_tokens
parts = list(chat(max_tokens=64, stream=True, stream_options={"include_usage": True}))
out["streamed"] = "".join(p.choices[0].delta.content or "" for p in parts if p.choices)
out["stream_usage"] = parts[-1].usage.total_tokens
tools = [{"type": "function", "function": add}]

class Fruit(pydantic.BaseModel):
    name: typing.Annotated[str, pydantic.Field(max_length=12)]
    kind: typing.Literal["apple", "pear"]
    count: typing.Annotated[int, pydantic.Field(ge=0, le=50)]
    near: typing.Optional[bool]

def forms():
    """Hot, so that nothing but the grammar makes an answer of the form."""
    hot = {"temperature": 20, "extra_body": {"top_k": 0, "top_p": 1}}
    found = {}
    parse = lambda **more: client.chat.completions.parse(model=model, messages=question, response_format=Fruit, seed=3, **hot, **more)
    found["chat"] = parse(reasoning_effort="none").choices[0].message.parsed.kind
    hot["extra_body"]["thinking_budget"] = 9
    thought = parse()
    found["thought"] = [thought.choices[0].message.parsed.kind, "limited time" in thought.choices[0].message.reasoning_content]
    cut = client.chat.completions.create(model=model, messages=question, reasoning_effort="none", max_tokens=3,
                                         response_format={"type": "json_object"}, temperature=20)
    found["cut"] = cut.choices[0].finish_reason
    response = client.responses.parse(model=model, input="1 + 1?", text_format=Fruit, temperature=20, reasoning={"effort": "none"})
    found["responses"] = response.output_parsed.kind
    call = lambda choice, **more: chat(tools=other, tool_choice=choice, max_tokens=600, **hot, **more)
    exact = {**add, "parameters": {**add["parameters"], "required": ["a", "b"]}}
    other = [{"type": "function", "function": exact}, {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]
    required = call("required", parallel_tool_calls=False).choices[0]
    found["required"] = [required.finish_reason, required.message.tool_calls[0].function.name in ("add", "now")]
    named = call({"type": "function", "function": {"name": "add"}}).choices[0].message.tool_calls
    found["named"] = [[c.function.name, sorted(json.loads(c.function.arguments))] for c in named]
    pieces = list(call({"type": "function", "function": {"name": "add"}}, stream=True))
    text = "".join(t.function.arguments or "" for p in pieces if p.choices for t in p.choices[0].delta.tool_calls or [])
    found["streamed"] = sorted(json.loads(text))
    use = claude.messages.create(model=model, max_tokens=600, messages=question, tools=[{"name": "add", "input_schema": exact["parameters"]}],
                                 tool_choice={"type": "tool", "name": "add"}, extra_body={"temperature": 1})
    found["claude"] = [use.stop_reason, [[b.type, sorted(b.input)] for b in use.content]]
    return found

out["tools"] = chat(tools=tools, max_tokens=8).choices[0].finish_reason
history = question + [{"role": "assistant", "content": None, "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 3, "b": 4}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "7"}]
out["tool_result"] = client.chat.completions.create(model=model, messages=history, tools=tools, max_tokens=8).usage.prompt_tokens
try:
    chat(max_tokens=8, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}})
except openai.BadRequestError as error:
    out["openai_error"] = str(error)
out["completion"] = client.completions.create(model=model, prompt="1 + 1 =", max_tokens=4).choices[0].finish_reason
response = client.responses.create(model=model, input="1 + 1?", max_output_tokens=300)
out["response"] = [response.status, response.output_text]
with client.responses.stream(model=model, input="1 + 1?", max_output_tokens=300) as stream:
    for event in stream:
        pass
    out["response_stream"] = stream.get_final_response().status
if sys.argv[2] == "pocket-qwen":
    logprobs = chat(max_tokens=5, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    out["forms"] = forms()
    out["logprobs"] = [[len(entry.top_logprobs), entry.logprob <= 0] for entry in logprobs]

message = claude.messages.create(model=model, max_tokens=64, messages=question)
out["message"] = [message.stop_reason, message.content[0].type, message.usage.output_tokens > 0]
thinking = {"type": "enabled", "budget_tokens": 1024}
with claude.messages.stream(model=model, max_tokens=2048, messages=question, thinking=thinking) as stream:
    for event in stream:
        pass
    final = stream.get_final_message()
out["message_stream"] = [[block.type for block in final.content], final.stop_reason]
claude_tools = [{"name": add["name"], "description": add["description"], "input_schema": add["parameters"]}]
out["count"] = claude.messages.count_tokens(model=model, messages=question, tools=claude_tools).input_tokens
again = question + [{"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 3, "b": 4}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "7"}]}]
out["claude_tools"] = claude.messages.create(model=model, max_tokens=8, messages=again, tools=claude_tools).stop_reason
try:
    claude.messages.create(model=model, max_tokens=8, messages=question, tool_choice={"type": "tool", "name": "sub"}, tools=claude_tools)
except anthropic.BadRequestError as error:
    out["claude_error"] = error.body["error"]["message"]
print(json.dumps(out))
'''


class Clients(ServeTest):
    def run_clients(self):
        python = client_python()
        _, port = self.serve()
        done = subprocess.run([str(python), "-c", SCRIPT, json.dumps([port, QUESTION, ADD]), self.model],
                              capture_output=True, text=True, timeout=support.TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_both_clients_are_answered(self):
        out = self.run_clients()
        self.assertEqual(out["models"], [self.model])
        self.assertEqual(out["chat"], out["streamed"])
        self.assertEqual(out["usage"], out["stream_usage"])
        self.assertIn(out["tools"], ("stop", "length", "tool_calls"))
        self.assertGreater(out["tool_result"], 20)
        self.assertIn("response_format", out["openai_error"])
        self.assertIn(out["completion"], ("stop", "length"))
        self.assertEqual(out["response"][0], out["response_stream"])
        self.assertIn(out["message"][0], ("end_turn", "max_tokens"))
        self.assertTrue(out["message"][2])
        self.assertTrue(set(out["message_stream"][0]) <= {"thinking", "text"})
        self.assertGreater(out["count"], 20)
        self.assertIn("tool_choice", out["claude_error"])
        if self.model == "pocket-qwen":
            forms = out["forms"]
            self.assertIn(forms["chat"], ("apple", "pear"))
            self.assertIn(forms["responses"], ("apple", "pear"))
            self.assertIn(forms["thought"], (["apple", True], ["pear", True]))
            self.assertEqual(forms["cut"], "length")
            self.assertEqual(forms["required"], ["tool_calls", True])
            self.assertEqual(forms["named"], [["add", ["a", "b"]]])
            self.assertEqual(forms["streamed"], ["a", "b"])
            self.assertEqual(forms["claude"], ["tool_use", [["tool_use", ["a", "b"]]]])
            self.assertEqual(out["logprobs"], [[2, True]] * 5)


class ClientsOfGemma(Clients):
    model = "pocket-gemma"


del ServeTest  # its own tests are elsewhere

if __name__ == "__main__":
    support.main()
