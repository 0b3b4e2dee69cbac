// One answer from the server, written into a turn of the conversation as it comes.
import {ServerError} from "./server.js";
import {TraceWriter, newTrace} from "./trace.js";

function seconds(since) {
  return (performance.now() - since) / 1000;
}

class AnswerWriter {
  constructor(node) {
    this.node = node;
    this.begin = performance.now();
    this.trace = null;
  }

  open(response) {
    const warning = response.headers.get("x-weir-warning");
    if (warning) this.node.warning = warning;
  }

  take(event) {
    if (event.comment !== undefined) return this.comment(event.comment);
    const value = JSON.parse(event.data);
    if (value.error) throw new ServerError(value.error.message, value.error.code === "server_error" ? 500 : 0);
    if (event.event === "canvas") return this.frame(value);
    if (value.usage) this.usage(value.usage);
    for (const choice of value.choices ?? []) this.choice(choice);
  }

  // "prompt 25 of 30 tokens"
  comment(comment) {
    const match = /^prompt (\d+) of (\d+) tokens$/.exec(comment);
    if (match) this.node.reading = {done: Number(match[1]), all: Number(match[2])};
  }

  frame(frame) {
    this.started();
    if (!this.trace) this.trace = new TraceWriter(this.node.trace = newTrace());
    this.trace.add(frame);
  }

  usage(usage) {
    this.node.usage = {prompt: usage.prompt_tokens, completion: usage.completion_tokens,
                       cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
                       reasoning: usage.completion_tokens_details?.reasoning_tokens ?? 0};
  }

  choice(choice) {
    const delta = choice.delta ?? {};
    if (choice.finish_reason) this.node.finish = choice.finish_reason;
    if (delta.reasoning_content) {
      this.started();
      this.node.thinking += delta.reasoning_content;
      this.node.thoughtSeconds = seconds(this.begin) - this.node.firstSeconds;
    }
    if (delta.content) {
      this.started();
      this.node.text += delta.content;
    }
    for (const call of delta.tool_calls ?? []) this.call(call);
  }

  call(change) {
    this.started();
    const calls = this.node.calls;
    calls[change.index] ??= {id: "", name: "", arguments: ""};
    const call = calls[change.index];
    if (change.id) call.id = change.id;
    if (change.function?.name) call.name += change.function.name;
    if (change.function?.arguments) call.arguments += change.function.arguments;
  }

  started() {
    delete this.node.reading;
    this.node.firstSeconds ??= seconds(this.begin);
  }

  end() {
    this.node.seconds = seconds(this.begin);
    delete this.node.reading;
    this.node.time = Date.now();
  }
}

export function emptyAnswer(model) {
  return {role: "assistant", text: "", thinking: "", calls: [], finish: "", model};
}

// Fills `node` until the answer ends, is stopped or fails; node.finish and node.error say which. `changed` is called
// after each event.
export async function writeAnswer(server, path, body, node, signal, changed) {
  const writer = new AnswerWriter(node);
  try {
    for await (const event of server.answer(path, body, signal, (response) => writer.open(response))) {
      writer.take(event);
      changed();
    }
  } catch (error) {
    if (signal.aborted) {
      node.finish = "stopped";
    } else {
      node.finish = "failed";
      node.error = {message: error.message, status: error.status ?? 0};
    }
  }
  writer.end();
  node.finish ||= "stop";
}
