#include "text/tokenizer_json.h"

#include <simdjson.h>

#include <optional>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "text/json_error.h"
#include "text/quote.h"
#include "text/settings.h"

namespace weir::text {
namespace {

using simdjson::ondemand::array;
using simdjson::ondemand::document;
using simdjson::ondemand::json_type;
using simdjson::ondemand::object;
using simdjson::ondemand::value;

constexpr size_t kLargestFile = size_t{1} << 29;
constexpr int64_t kIdLimit = int64_t{1} << 20;
constexpr size_t kLongestAdded = 1024;  // bytes; bounds the work of looking for added tokens

std::string numbered(const char* list, size_t index) {
  return list + ('[' + std::to_string(index) + ']');
}

Result<int32_t> checked_id(int64_t id, const std::string& token) {
  if (id >= 0 && id < kIdLimit) return static_cast<int32_t>(id);
  return corrupt("token " + in_quotes(token) + " has id " + std::to_string(id) + ", outside 0 to " +
                 std::to_string(kIdLimit - 1));
}

Status insert_token(Vocabulary& vocabulary, std::string_view spelling, int64_t raw_id) {
  const std::string name(spelling);
  if (!is_valid_utf8(spelling)) return corrupt("token " + in_quotes(name) + " is not valid UTF-8");
  WEIR_TRY(const int32_t id, checked_id(raw_id, name));
  if (const std::string* other = vocabulary.spelling(id)) {
    return corrupt("tokens " + in_quotes(*other) + " and " + in_quotes(name) + " have the same id " +
                   std::to_string(id));
  }
  if (vocabulary.find(spelling)) return corrupt("token " + in_quotes(name) + " is in model.vocab twice");
  vocabulary.insert(id, spelling);
  return Ok{};
}

Result<Vocabulary> read_vocabulary(document& json) {
  json.rewind();
  object entries;
  WEIR_JSON(json["model"]["vocab"].get_object().get(entries), "model.vocab");
  Vocabulary vocabulary;
  for (auto entry : entries) {
    std::string_view spelling;
    int64_t id = 0;
    WEIR_JSON(entry.unescaped_key().get(spelling), "model.vocab");
    WEIR_JSON(entry.value().get_int64().get(id), "model.vocab." + std::string(spelling));
    WEIR_RETURN_IF_ERROR(insert_token(vocabulary, spelling, id));
  }
  return vocabulary;
}

using Pair = std::pair<std::string_view, std::string_view>;

// A merge is ["a", "b"] or, in older files, "a b".
Result<Pair> read_pair(value merge, size_t index) {
  json_type type;
  WEIR_JSON(merge.type().get(type), numbered("model.merges", index));
  if (type == json_type::array) {
    array parts;
    WEIR_JSON(merge.get_array().get(parts), numbered("model.merges", index));
    std::string_view names[2];
    size_t count = 0;
    for (auto part : parts) {
      if (count == 2) return corrupt(numbered("model.merges", index) + " has more than two parts");
      WEIR_JSON(part.get_string().get(names[count++]), numbered("model.merges", index));
    }
    if (count < 2) return corrupt(numbered("model.merges", index) + " has fewer than two parts");
    return Pair(names[0], names[1]);
  }
  std::string_view both;
  WEIR_JSON(merge.get_string().get(both), numbered("model.merges", index));
  const size_t space = both.find(' ');
  if (space == std::string_view::npos || both.find(' ', space + 1) != std::string_view::npos) {
    return corrupt(numbered("model.merges", index) + " is " + in_quotes(both) +
                   ", not two tokens and a space between");
  }
  return Pair(both.substr(0, space), both.substr(space + 1));
}

Result<int32_t> token_of_merge(const Vocabulary& vocabulary, std::string_view spelling, size_t index) {
  if (const auto id = vocabulary.find(spelling)) return *id;
  return corrupt(numbered("model.merges", index) + " needs token " + in_quotes(spelling) +
                 ", which is not in model.vocab");
}

Result<Merges> read_merges(document& json, const Vocabulary& vocabulary) {
  json.rewind();
  array list;
  WEIR_JSON(json["model"]["merges"].get_array().get(list), "model.merges");
  Merges merges;
  uint32_t rank = 0;
  std::string joined;
  for (auto item : list) {
    value merge;
    WEIR_JSON(item.get(merge), numbered("model.merges", rank));
    WEIR_TRY(const Pair pair, read_pair(merge, rank));
    joined.assign(pair.first).append(pair.second);
    WEIR_TRY(const int32_t left, token_of_merge(vocabulary, pair.first, rank));
    WEIR_TRY(const int32_t right, token_of_merge(vocabulary, pair.second, rank));
    WEIR_TRY(const int32_t merged, token_of_merge(vocabulary, joined, rank));
    merges.insert({left, right, merged, rank});
    ++rank;
  }
  return merges;
}

Status read_added_field(std::string_view key, value v, const std::string& where, AddedToken& token,
                        std::optional<int64_t>& id) {
  if (key == "id") {
    int64_t number = 0;
    WEIR_JSON(v.get_int64().get(number), where + ".id");
    id = number;
    return Ok{};
  }
  if (key == "content") {
    std::string_view content;
    WEIR_JSON(v.get_string().get(content), where + ".content");
    token.content = content;
    return Ok{};
  }
  bool flag = false;
  WEIR_JSON(v.get_bool().get(flag), where + '.' + std::string(key));
  if (key == "normalized") {
    token.normalized = flag;
  } else if (key == "special") {
    token.special = flag;
  } else if ((key != "single_word" && key != "lstrip" && key != "rstrip") || flag) {
    return Error{Code::kUnsupported, where + '.' + printable(key) + " is set, which weir does not support",
                 ""};
  }
  return Ok{};
}

Result<AddedToken> read_added_token(object fields, size_t index) {
  const std::string where = numbered("added_tokens", index);
  AddedToken token;
  std::optional<int64_t> id;
  for (auto field : fields) {
    std::string_view key;
    value v;
    WEIR_JSON(field.unescaped_key().get(key), where);
    WEIR_JSON(field.value().get(v), where);
    WEIR_RETURN_IF_ERROR(read_added_field(key, v, where, token, id));
  }
  if (!id) return corrupt(where + " has no id");
  WEIR_TRY(token.id, checked_id(*id, token.content));
  if (token.content.empty() || token.content.size() > kLongestAdded) {
    return corrupt(where + ".content has " + std::to_string(token.content.size()) + " bytes, expected 1 to " +
                   std::to_string(kLongestAdded));
  }
  if (!is_valid_utf8(token.content)) return corrupt(where + ".content is not valid UTF-8");
  return token;
}

// An added token is a token of the model under the same id, or new in both id and spelling.
Status check_consistent(const AddedToken& token, const Vocabulary& vocabulary) {
  const std::string* spelling = vocabulary.spelling(token.id);
  const auto id = vocabulary.find(token.content);
  if (spelling != nullptr && *spelling != token.content) {
    return corrupt("added token " + in_quotes(token.content) + " has id " + std::to_string(token.id) +
                   ", which is " + in_quotes(*spelling) + " in model.vocab");
  }
  if (id && *id != token.id) {
    return corrupt("added token " + in_quotes(token.content) + " has id " + std::to_string(token.id) +
                   ", but id " + std::to_string(*id) + " in model.vocab");
  }
  return Ok{};
}

Result<std::vector<AddedToken>> read_added_tokens(document& json, const Vocabulary& vocabulary) {
  json.rewind();
  array list;
  std::vector<AddedToken> tokens;
  const auto code = json["added_tokens"].get_array().get(list);
  if (code == simdjson::NO_SUCH_FIELD) return tokens;
  WEIR_JSON(code, "added_tokens");
  Vocabulary added;
  for (auto item : list) {
    object fields;
    WEIR_JSON(item.get_object().get(fields), numbered("added_tokens", tokens.size()));
    WEIR_TRY(AddedToken token, read_added_token(fields, tokens.size()));
    if (added.spelling(token.id) != nullptr || added.find(token.content)) {
      return corrupt(numbered("added_tokens", tokens.size()) +
                     " repeats the id or content of an earlier one: " + in_quotes(token.content));
    }
    added.insert(token.id, token.content);
    WEIR_RETURN_IF_ERROR(check_consistent(token, vocabulary));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace

Result<TokenizerFile> read_tokenizer_json(std::span<const std::byte> json) {
  if (json.size() > kLargestFile) {
    return corrupt("it has " + std::to_string(json.size()) + " bytes, more than " +
                   std::to_string(kLargestFile));
  }
  const simdjson::padded_string padded(reinterpret_cast<const char*>(json.data()), json.size());
  simdjson::ondemand::parser parser;
  document document;
  WEIR_JSON(parser.iterate(padded).get(document), "");
  TokenizerFile file;
  // One pass for each part, because the parts may come in any order and merges need the vocabulary.
  WEIR_TRY(const std::vector<Setting> settings, read_settings(document));
  WEIR_TRY(file.pipeline, recognise_pipeline(settings));
  WEIR_TRY(file.vocabulary, read_vocabulary(document));
  WEIR_TRY(file.merges, read_merges(document, file.vocabulary));
  WEIR_TRY(file.added_tokens, read_added_tokens(document, file.vocabulary));
  return file;
}

}  // namespace weir::text
