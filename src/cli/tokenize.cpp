// weir tokenize: text to token ids and back.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cctype>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "cli/exit_code.h"
#include "cli/json_report.h"
#include "cli/model_folder.h"
#include "cli/options.h"
#include "cli/standard_input.h"
#include "cli/verbs.h"
#include "text/tokenizer.h"

namespace weir::cli {
namespace {

struct Options {
  std::string text;
  std::vector<int32_t> decode;
  ModelOptions model;
  bool plain = false;
  bool json = false;
};

// What a token adds to the text, in quotes; line breaks and the like, and bytes that are no text, as escapes.
std::string shown(std::string_view bytes) {
  const bool is_text = is_valid_utf8(bytes);
  std::string out = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !is_text)) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

Result<int> encode(const Options& options, const Tokenizer& tokenizer) {
  WEIR_TRY(const std::string text, text_or_input(options.text));
  const AddedTokens added = options.plain ? AddedTokens::kAsText : AddedTokens::kRecognise;
  WEIR_TRY(const std::vector<int32_t> ids, tokenizer.encode(text, added));
  if (options.json) {
    Report out{{"count", ids.size()}, {"tokens", Report::array()}};
    for (const int32_t id : ids) {
      out["tokens"].push_back(
          {{"id", id}, {"piece", tokenizer.token_bytes(id)}, {"added", tokenizer.is_added(id)}});
    }
    return print_json(out, false);
  }
  std::string out;
  for (const int32_t id : ids) {
    fmt::format_to(std::back_inserter(out), "{:>7}  {}\n", id, shown(tokenizer.token_bytes(id)));
  }
  return print_answer(out);
}

Result<int> decode(const Options& options, const Tokenizer& tokenizer) {
  for (const int32_t id : options.decode) {
    if (tokenizer.has_token(id)) continue;
    return Error{Code::kInvalidArgument, fmt::format("no token has the id {}", id),
                 fmt::format("ids lie in [0, {})", tokenizer.vocab_size())};
  }
  const std::string text = tokenizer.decode(options.decode, SpecialTokens::kKeep);
  if (options.json) return print_json({{"ids", options.decode}, {"text", text}}, false);
  return print_answer(text + "\n");
}

Result<int> tokenize(const Options& options) {
  if (options.decode.empty() == options.text.empty()) {
    return Error{Code::kInvalidArgument, "weir tokenize needs either a text or --decode with ids",
                 "such as `weir tokenize \"two words\"` or `weir tokenize --decode 40,41`"};
  }
  WEIR_TRY(const std::string folder, model_folder(options.model.model));
  WEIR_TRY(const Tokenizer tokenizer, Tokenizer::load(folder + "/tokenizer.json"));
  return options.decode.empty() ? encode(options, tokenizer) : decode(options, tokenizer);
}

}  // namespace

Verb add_tokenize(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("tokenize", "Show the tokens of a text, or the text of tokens");
  command->add_option("TEXT", options->text, "The text; - reads it from stdin")->type_name("");
  command->add_option("--decode", options->decode, "Token ids to turn into text, such as 40,41")
      ->type_name("IDS")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1, -1)
      ->delimiter(',');
  command->add_flag("--plain", options->plain, "Take special tokens spelled out in the text as plain text");
  command->add_flag("--json", options->json, "Report as JSON");
  options->model.add(*command);
  return {command, [options] {
            const auto code = tokenize(*options);
            return code.ok() ? *code : report(code.error());
          }};
}

}  // namespace weir::cli
