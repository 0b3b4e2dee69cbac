// Two promises of the chat folder for any bytes and both layouts: what the output parser finds does not
// depend on how the text is cut, and reading and rendering messages never crashes.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "chat/layout.h"

namespace weir {
namespace {

// Control bytes stand for these, so that the fuzzer finds tags as easily as letters.
constexpr std::array<std::string_view, 30> kQwenWords = {
    "<think>",     "</think>",     "<tool_call>", "</tool_call>", "<function=", "</function>",
    "<parameter=", "</parameter>", "f>",          "s>",           "\n",         "sn>",
    "i>",          "b>",           "o>",          "a>",           "null",       "True",
    "-1e5",        "{\"a\": 1}",   "[1, [2]]",    "</",           "<",          ">",
    "\xC3\xA9",    "\xE2\x82",     "\xF0\x9F",    "<|im_end|>",   "\n\n",       "<tool_response>"};

constexpr std::array<std::string_view, 30> kGemmaWords = {"<|channel>",
                                                          "<channel|>",
                                                          "<|tool_call>",
                                                          "<tool_call|>",
                                                          "<|\"|>",
                                                          "call:f{",
                                                          "<turn|>",
                                                          "thought",
                                                          "s:",
                                                          "sn:",
                                                          "\n",
                                                          "i:",
                                                          "b:",
                                                          "o:",
                                                          "a:",
                                                          "{",
                                                          "}",
                                                          "[",
                                                          "]",
                                                          ",",
                                                          "null",
                                                          "True",
                                                          "-1e5",
                                                          "<|",
                                                          "<",
                                                          "|>",
                                                          "\xC3\xA9",
                                                          "\xE2\x82",
                                                          "\xF0\x9F",
                                                          "<|tool_response>"};

std::string expanded(std::string_view bytes, std::span<const std::string_view> words) {
  std::string text;
  for (const char c : bytes) {
    const auto word = static_cast<unsigned char>(c);
    if (word < words.size()) {
      text += words[word];
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

ChatLayout consume_layout(FuzzedDataProvider& data) {
  return data.ConsumeBool() ? ChatLayout::kGemma : ChatLayout::kQwen;
}

// The pieces of a well-formed call's arguments are their JSON text.
void check_calls(const std::vector<OutputEvent>& events) {
  std::string streamed;
  for (const OutputEvent& event : events) {
    if (std::holds_alternative<ToolCallBegun>(event)) streamed.clear();
    if (const auto* piece = std::get_if<ToolCallArguments>(&event)) streamed += piece->text;
    const auto* call = std::get_if<ToolCallFinished>(&event);
    if (call == nullptr) continue;
    WEIR_CHECK(check_json(call->arguments, "arguments").ok());
    if (call->malformed) continue;
    const Result<Json> read = parse_json(streamed);
    WEIR_CHECK(read.ok() && *read == call->arguments);
  }
}

void check_split(FuzzedDataProvider& data) {
  const ChatLayout layout = consume_layout(data);
  const bool thinking = data.ConsumeBool();
  const bool cut_off = data.ConsumeBool();
  const std::string sizes = data.ConsumeRandomLengthString(64);
  const bool gemma = layout == ChatLayout::kGemma;
  const std::string text = expanded(data.ConsumeRemainingBytesAsString(), gemma ? kGemmaWords : kQwenWords);

  const std::unique_ptr<OutputParser> whole = make_output_parser(layout, thinking, tools());
  std::vector<OutputEvent> expected = whole->feed(text);
  add_merged(expected, whole->finish(cut_off));

  const std::unique_ptr<OutputParser> parser = make_output_parser(layout, thinking, tools());
  std::vector<OutputEvent> found;
  std::string_view rest = text;
  for (const char size : sizes) {
    const size_t count = std::min<size_t>(static_cast<unsigned char>(size), rest.size());
    add_merged(found, parser->feed(rest.substr(0, count)));
    rest.remove_prefix(count);
  }
  add_merged(found, parser->feed(rest));
  add_merged(found, parser->finish(cut_off));
  WEIR_CHECK(found == expected);
  check_calls(found);
}

void check_messages(FuzzedDataProvider& data) {
  const ChatLayout layout = consume_layout(data);
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
  const Result<Prompt> prompt = render_prompt(layout, *conversation, options);
  if (!prompt.ok()) return;
  for (size_t i = 0; i < prompt->size(); ++i) {
    WEIR_CHECK(!(*prompt)[i].text.empty());
    WEIR_CHECK((*prompt)[i].control || i == 0 || (*prompt)[i - 1].control);
  }
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
