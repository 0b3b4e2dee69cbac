// What the tests of the chat folder share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "chat/gemma_output.h"
#include "chat/prompt.h"
#include "chat/qwen_output.h"

namespace weir {

inline Json read_json_file(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  return Json::parse(file, nullptr, false);
}

inline void add_merged(std::vector<OutputEvent>& all, const std::vector<OutputEvent>& more) {
  for (const OutputEvent& event : more) {
    if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
      add_delta(all, *reasoning);
    } else if (const auto* content = std::get_if<ContentDelta>(&event)) {
      add_delta(all, *content);
    } else if (const auto* arguments = std::get_if<ToolCallArguments>(&event)) {
      add_delta(all, *arguments);
    } else {
      all.push_back(event);
    }
  }
}

// All events of a text that arrives in `pieces`, adjacent deltas merged.
inline std::vector<OutputEvent> parse_pieces(const std::vector<std::string_view>& pieces,
                                             OutputParser& parser, bool cut_off) {
  std::vector<OutputEvent> all;
  for (const std::string_view piece : pieces) add_merged(all, parser.feed(piece));
  add_merged(all, parser.finish(cut_off));
  return all;
}

inline std::vector<OutputEvent> parse_pieces(const std::vector<std::string_view>& pieces,
                                             const QwenOutputOptions& options, bool cut_off = false) {
  QwenOutputParser parser(options);
  return parse_pieces(pieces, parser, cut_off);
}

// Each byte of `text` by itself.
inline std::vector<std::string_view> bytes_of(const std::string& text) {
  std::vector<std::string_view> bytes;
  for (const char& c : text) bytes.emplace_back(&c, 1);
  return bytes;
}

// `text` cut at random places; some pieces are empty.
inline std::vector<std::string_view> random_pieces(std::string_view text, std::mt19937& random) {
  std::vector<std::string_view> pieces;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t size = std::min<size_t>(random() % 9, rest.size());
    pieces.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return pieces;
}

// The streamed pieces of every well-formed call are the JSON text of its arguments. Counts these calls.
inline int expect_streamed_arguments(const std::vector<OutputEvent>& events, const std::string& text) {
  std::string streamed;
  int finished_calls = 0;
  for (const OutputEvent& event : events) {
    if (std::holds_alternative<ToolCallBegun>(event)) streamed.clear();
    if (const auto* arguments = std::get_if<ToolCallArguments>(&event)) streamed += arguments->text;
    const auto* finished = std::get_if<ToolCallFinished>(&event);
    if (finished == nullptr || finished->malformed) continue;
    const Result<Json> parsed = parse_json(streamed);
    EXPECT_TRUE(parsed.ok()) << streamed;
    if (parsed.ok()) {
      EXPECT_EQ(*parsed, finished->arguments) << text;
    }
    ++finished_calls;
  }
  return finished_calls;
}

// Adjacent pieces must be cut at markers only: a tokenizer merges across every other place.
inline void expect_cut_at_markers(const Prompt& prompt) {
  for (size_t i = 0; i < prompt.size(); ++i) {
    const PromptPiece& piece = prompt[i];
    EXPECT_FALSE(piece.text.empty());
    EXPECT_TRUE(piece.control || i == 0 || prompt[i - 1].control);
    if (piece.control) {
      EXPECT_EQ(piece.text.find('>'), piece.text.size() - 1);
    }
  }
}

// Pieces in one string, control pieces in brackets.
inline std::string marked(const Prompt& prompt) {
  std::string out;
  for (const PromptPiece& piece : prompt) out += piece.control ? "[" + piece.text + "]" : piece.text;
  return out;
}

// Events as text, one a line, for comparison and for messages.
inline std::string listed(const std::vector<OutputEvent>& events) {
  std::string out;
  for (const OutputEvent& event : events) {
    if (const auto* r = std::get_if<ReasoningDelta>(&event)) {
      out += "reasoning " + json_escaped(r->text) + "\n";
    } else if (const auto* c = std::get_if<ContentDelta>(&event)) {
      out += "content " + json_escaped(c->text) + "\n";
    } else if (const auto* b = std::get_if<ToolCallBegun>(&event)) {
      out += "begun " + std::to_string(b->index) + " " + b->name + "\n";
    } else if (const auto* a = std::get_if<ToolCallArguments>(&event)) {
      out += "arguments " + std::to_string(a->index) + " " + a->text + "\n";
    } else if (const auto* f = std::get_if<ToolCallFinished>(&event)) {
      out += (f->malformed ? "malformed " : "finished ") + std::to_string(f->index) + " " + f->name + " " +
             python_json(f->arguments) + " " + json_escaped(f->raw) + "\n";
    }
  }
  return out;
}

// Tools whose parameters are of every type.
inline std::vector<Tool> test_tools() {
  const Json definition = Json::parse(R"({"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {
      "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"},
      "o": {"type": "object"}, "a": {"type": "array"}, "sn": {"type": ["string", "null"]}, "u": {}}}}})");
  return {{"f", definition}};
}

inline std::vector<OutputEvent> parse_gemma(const std::vector<std::string_view>& pieces,
                                            bool cut_off = false) {
  GemmaOutputParser parser(test_tools());
  return parse_pieces(pieces, parser, cut_off);
}

}  // namespace weir
