#include "text/pipelines.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "text/quote.h"

namespace weir::text {
namespace {

// What a setting may be. No accepted values: it changes neither ids nor text, or it is read elsewhere.
struct Rule {
  std::string_view path;
  std::vector<std::string_view> accepted;
  bool required = true;
};

using Rules = std::vector<Rule>;

constexpr bool kOptional = false;
constexpr std::string_view kRegexPath = "pre_tokenizer.pretokenizers.0.pattern.Regex";

// A truncated or padded text has other ids; padding to the longest of a batch leaves a single text alone.
// The post-processor adds tokens around a prompt, which is the chat renderer's work here. The unknown token
// never occurs, because every byte must have a token.
const Rules& common_rules() {
  static const Rules rules = {
      {"version", {"\"1.0\""}, kOptional},
      {"truncation", {"null"}, kOptional},
      {"padding", {"null"}, kOptional},
      {"padding.strategy", {"\"BatchLongest\""}, kOptional},
      {"padding.pad_to_multiple_of", {"null"}, kOptional},
      {"padding.direction", {}, kOptional},
      {"padding.pad_id", {}, kOptional},
      {"padding.pad_type_id", {}, kOptional},
      {"padding.pad_token", {}, kOptional},
      {"post_processor", {"null"}, kOptional},
      {"post_processor.type", {"\"ByteLevel\"", "\"TemplateProcessing\""}, kOptional},
      {"model.type", {"\"BPE\""}},
      {"model.dropout", {"null", "0", "0.0"}, kOptional},
      {"model.unk_token", {}, kOptional},
      {"model.fuse_unk", {}, kOptional},
      {"model.continuing_subword_prefix", {"null", "\"\""}, kOptional},
      {"model.end_of_word_suffix", {"null", "\"\""}, kOptional},
      {"model.ignore_merges", {"false", "true"}, kOptional},
  };
  return rules;
}

const Rules& byte_level_rules() {
  static const Rules rules = {
      {"normalizer.type", {"\"NFC\""}},
      {"pre_tokenizer.type", {"\"Sequence\""}},
      {"pre_tokenizer.pretokenizers.0.type", {"\"Split\""}},
      {kRegexPath, {}},
      {"pre_tokenizer.pretokenizers.0.behavior", {"\"Isolated\""}},
      {"pre_tokenizer.pretokenizers.0.invert", {"false"}},
      {"pre_tokenizer.pretokenizers.1.type", {"\"ByteLevel\""}},
      {"pre_tokenizer.pretokenizers.1.add_prefix_space", {"false"}},
      {"pre_tokenizer.pretokenizers.1.trim_offsets", {}, kOptional},
      {"pre_tokenizer.pretokenizers.1.use_regex", {"false"}},
      {"decoder.type", {"\"ByteLevel\""}},
      {"decoder.add_prefix_space", {}, kOptional},
      {"decoder.trim_offsets", {}, kOptional},
      {"decoder.use_regex", {}, kOptional},
      {"model.byte_fallback", {"false"}, kOptional},
  };
  return rules;
}

// The split at spaces never finds one, since the normaliser has replaced them all.
const Rules& byte_fallback_rules() {
  static const Rules rules = {
      {"normalizer.type", {"\"Replace\""}},
      {"normalizer.pattern.String", {"\" \""}},
      {"normalizer.content", {"\"▁\""}},
      {"pre_tokenizer", {"null"}, kOptional},
      {"pre_tokenizer.type", {"\"Split\""}, kOptional},
      {"pre_tokenizer.pattern.String", {"\" \""}, kOptional},
      {"pre_tokenizer.behavior", {"\"MergedWithPrevious\""}, kOptional},
      {"pre_tokenizer.invert", {"false"}, kOptional},
      {"decoder.type", {"\"Sequence\""}},
      {"decoder.decoders.0.type", {"\"Replace\""}},
      {"decoder.decoders.0.pattern.String", {"\"▁\""}},
      {"decoder.decoders.0.content", {"\" \""}},
      {"decoder.decoders.1.type", {"\"ByteFallback\""}},
      {"decoder.decoders.2.type", {"\"Fuse\""}},
      {"model.byte_fallback", {"true"}},
  };
  return rules;
}

const std::string* value_of(const std::vector<Setting>& settings, std::string_view path) {
  const auto it =
      std::find_if(settings.begin(), settings.end(), [&](const Setting& s) { return s.path == path; });
  return it == settings.end() ? nullptr : &it->value;
}

Error unsupported(std::string message) {
  return {Code::kUnsupported, std::move(message),
          "weir reads the tokenizers of Qwen3.6 and DiffusionGemma and no others"};
}

std::string alternatives(const Rule& rule) {
  std::string text;
  for (const std::string_view value : rule.accepted) {
    text += text.empty() ? "" : " or ";
    text += value;
  }
  return text;
}

Status check_rule(const std::vector<Setting>& settings, const Rule& rule) {
  const std::string* value = value_of(settings, rule.path);
  if (value == nullptr) {
    if (!rule.required) return Ok{};
    const std::string expected = rule.accepted.empty() ? "" : " (expected " + alternatives(rule) + ")";
    return unsupported(std::string(rule.path) + " is missing" + expected);
  }
  if (rule.accepted.empty() || std::count(rule.accepted.begin(), rule.accepted.end(), *value)) return Ok{};
  return unsupported(std::string(rule.path) + " is " + printable(*value) + ", but weir supports only " +
                     alternatives(rule));
}

Status check_settings(const std::vector<Setting>& settings, const Rules& rules) {
  for (const Rule& rule : rules) WEIR_RETURN_IF_ERROR(check_rule(settings, rule));
  for (const Setting& setting : settings) {
    const auto about_it = [&](const Rule& rule) { return rule.path == setting.path; };
    if (std::any_of(rules.begin(), rules.end(), about_it)) continue;
    return unsupported(printable(setting.path) + " is " + printable(setting.value) +
                       ", a setting that weir does not support");
  }
  return Ok{};
}

}  // namespace

Result<Pipeline> recognise_pipeline(const std::vector<Setting>& settings) {
  const auto is_true = [&](std::string_view path) {
    const std::string* value = value_of(settings, path);
    return value != nullptr && *value == "true";
  };
  Pipeline pipeline;
  pipeline.byte_level = !is_true("model.byte_fallback");
  pipeline.ignore_merges = is_true("model.ignore_merges");
  Rules rules = common_rules();
  const Rules& own = pipeline.byte_level ? byte_level_rules() : byte_fallback_rules();
  rules.insert(rules.end(), own.begin(), own.end());
  WEIR_RETURN_IF_ERROR(check_settings(settings, rules));
  if (pipeline.byte_level) {
    const std::string& regex = *value_of(settings, kRegexPath);
    if (regex.size() < 2 || regex.front() != '"')
      return unsupported(std::string(kRegexPath) + " is not a string");
    pipeline.split_regex = regex.substr(1, regex.size() - 2);
  }
  return pipeline;
}

}  // namespace weir::text
