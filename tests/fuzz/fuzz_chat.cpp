// Two promises of the chat folder for any bytes: what the output parser finds does not depend on how the text
// is cut, and reading and rendering messages never crashes.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "chat/qwen_output.h"
#include "chat/qwen_prompt.h"

namespace weir {
namespace {

// Control bytes stand for these, so that the fuzzer finds tags as easily as letters.
constexpr std::array<std::string_view, 30> kWords = {
    "<think>",     "</think>",     "<tool_call>", "</tool_call>", "<function=", "</function>",
    "<parameter=", "</parameter>", "f>",          "s>",           "\n",         "sn>",
    "i>",          "b>",           "o>",          "a>",           "null",       "True",
    "-1e5",        "{\"a\": 1}",   "[1, [2]]",    "</",           "<",          ">",
    "\xC3\xA9",    "\xE2\x82",     "\xF0\x9F",    "<|im_end|>",   "\n\n",       "<tool_response>"};

std::string expanded(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto word = static_cast<unsigned char>(c);
    if (word < kWords.size()) {
      text += kWords[word];
    } else {
      text += c;
    }
  }
  return text;
}

const std::vector<Tool>& tools() {
  static const std::vector<Tool> all = {
      {"f", *parse_json(R"({"function": {"name": "f", "parameters": {"properties": {
      "s": {"type": "string"}, "sn": {"type": ["string", "null"]}, "i": {"type": "integer"}, "b": {"type": "boolean"},
      "o": {"type": "object"}, "a": {"anyOf": [{"type": "array"}, {"type": "number"}]}}}}})")}};
  return all;
}

void add_merged(std::vector<OutputEvent>& all, std::vector<OutputEvent> more) {
  for (OutputEvent& event : more) {
    std::visit(
        [&all](auto& e) {
          if constexpr (requires { e.text; }) {
            add_delta(all, std::move(e));
          } else {
            all.emplace_back(std::move(e));
          }
        },
        event);
  }
}

void check_split(FuzzedDataProvider& data) {
  const QwenOutputOptions options{.thinking_open = data.ConsumeBool(), .tools = tools()};
  const bool cut_off = data.ConsumeBool();
  const std::string sizes = data.ConsumeRandomLengthString(64);
  const std::string text = expanded(data.ConsumeRemainingBytesAsString());

  QwenOutputParser whole(options);
  std::vector<OutputEvent> expected = whole.feed(text);
  add_merged(expected, whole.finish(cut_off));

  QwenOutputParser parser(options);
  std::vector<OutputEvent> found;
  std::string_view rest = text;
  for (const char size : sizes) {
    const size_t count = std::min<size_t>(static_cast<unsigned char>(size), rest.size());
    add_merged(found, parser.feed(rest.substr(0, count)));
    rest.remove_prefix(count);
  }
  add_merged(found, parser.feed(rest));
  add_merged(found, parser.finish(cut_off));
  WEIR_CHECK(found == expected);
  for (const OutputEvent& event : found) {
    const auto* call = std::get_if<ToolCallFinished>(&event);
    WEIR_CHECK(call == nullptr || check_json(call->arguments, "arguments").ok());
  }
}

void check_messages(FuzzedDataProvider& data) {
  const PromptOptions options{.add_generation_prompt = data.ConsumeBool(),
                              .enable_thinking = data.ConsumeBool(),
                              .preserve_thinking = data.ConsumeBool()};
  const Result<Json> json = parse_json(data.ConsumeRemainingBytesAsString());
  if (!json.ok()) return;
  const Result<Json> again = parse_json(python_json(*json));
  WEIR_CHECK(again.ok() && *again == *json);
  const Result<Conversation> conversation =
      json->is_object() && json->contains("messages")
          ? parse_messages((*json)["messages"], json->contains("tools") ? (*json)["tools"] : Json())
          : parse_messages(*json);
  if (!conversation.ok()) return;
  const Result<Prompt> prompt = qwen_prompt(*conversation, options);
  WEIR_CHECK(!prompt.ok() || flatten(*prompt) == *render_qwen_prompt(*conversation, options));
}

}  // namespace
}  // namespace weir

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  if (data.ConsumeBool()) {
    weir::check_split(data);
  } else {
    weir::check_messages(data);
  }
  return 0;
}
