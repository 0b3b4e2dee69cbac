// Files that are broken, contradict themselves or ask for what weir does not do: one line that says which and
// what.
#include <functional>

#include "text_testing.h"

namespace weir {
namespace {

using testing::read_json;
using testing::tokenizer_from;
using testing::tokenizer_from_text;

void expect_refused(const Result<Tokenizer>& tokenizer, Code code, const std::string& part) {
  ASSERT_FALSE(tokenizer.ok()) << part;
  const std::string& message = tokenizer.error().message;
  EXPECT_EQ(tokenizer.error().code, code) << message;
  EXPECT_TRUE(message.starts_with("test.json: ")) << message;
  EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 400u) << message;
}

using Change = std::function<void(nlohmann::json&)>;

void expect_refused(const std::string& path, const Change& change, Code code, const std::string& part) {
  nlohmann::json json = read_json(path);
  change(json);
  expect_refused(tokenizer_from(json), code, part);
}

void expect_qwen_corrupt(const Change& change, const std::string& part) {
  expect_refused(testing::kPocketQwen, change, Code::kCorrupt, part);
}

TEST(HostileTokenizer, AMissingFileIsNotFound) {
  const auto tokenizer = Tokenizer::load("no/such/tokenizer.json");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, Code::kNotFound);
  EXPECT_NE(tokenizer.error().message.find("no/such/tokenizer.json"), std::string::npos);
}

TEST(HostileTokenizer, AFileCutOffAnywhereIsCorrupt) {
  for (const std::string& path : {testing::kPocketQwen, testing::kPocketGemma}) {
    std::string json = read_json(path).dump();
    for (size_t length = 0; length < json.size(); length += 1 + length / 50) {
      expect_refused(tokenizer_from_text(std::string_view(json).substr(0, length)), Code::kCorrupt,
                     "not valid JSON");
    }
  }
}

TEST(HostileTokenizer, WhatIsNotJsonIsCorrupt) {
  const std::string json = testing::bytes_only().dump();
  for (const std::string& text : {std::string("{"), std::string("\xFF\xFE"), std::string("null"),
                                  std::string("[]"), std::string("{]"), std::string("{\"a\" 1}"), json + "{}",
                                  json + "x", std::string(100, '\0'), json.substr(0, json.size() - 2)}) {
    expect_refused(tokenizer_from_text(text), Code::kCorrupt, "");
  }
}

TEST(HostileTokenizer, TextThatIsNotUtf8IsCorrupt) {
  std::string json = read_json(testing::kPocketQwen).dump();
  json[json.find("im_end")] = '\xC3';
  expect_refused(tokenizer_from_text(json), Code::kCorrupt, "UTF-8");
}

TEST(HostileTokenizer, HalfASurrogateIsCorrupt) {
  for (const char* escape : {R"(\ud800)", R"(\udc00)", R"(\ud800x)"}) {
    std::string json = testing::bytes_only().dump();
    json.replace(json.find("\"vocab\":{"), 9, "\"vocab\":{\"" + std::string(escape) + "\":300,");
    expect_refused(tokenizer_from_text(json), Code::kCorrupt, "");
  }
}

TEST(HostileTokenizer, AbsurdNestingIsCorrupt) {
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  expect_qwen_corrupt([&](auto& j) { j["normalizer"]["type"] = nlohmann::json::parse(deep); },
                      "nested deeper");
  expect_qwen_corrupt([&](auto& j) { j["model"]["merges"] = nlohmann::json::parse(deep); },
                      "model.merges[0]");
  expect_qwen_corrupt([&](auto& j) { j["model"]["vocab"]["!"] = nlohmann::json::parse(deep); },
                      "model.vocab");
  const std::string abyss = std::string(1'000'000, '[');
  expect_refused(tokenizer_from_text(abyss), Code::kCorrupt, "");
  expect_refused(tokenizer_from_text("{\"model\":" + abyss + "}"), Code::kCorrupt, "");
}

TEST(HostileTokenizer, AbsurdNumbersOfSettingsAreCorrupt) {
  expect_qwen_corrupt([](auto& j) { j["decoder"]["list"] = std::vector<int>(100'000, 1); },
                      "more than 256 settings");
}

TEST(HostileTokenizer, RepeatedSettingsAreCorrupt) {
  std::string json = testing::bytes_only().dump();
  json.insert(1, "\"decoder\":null,");
  expect_refused(tokenizer_from_text(json), Code::kCorrupt, "\"decoder\" is there twice");
}

TEST(HostileTokenizer, AKeyThatLooksLikeAPathIsCorrupt) {
  const auto change = [](auto& j) {
    j.erase("normalizer");
    j["normalizer.type"] = "NFC";
  };
  expect_qwen_corrupt(change, "there is a key \"normalizer.type\"");
}

TEST(HostileTokenizer, WrongTypesAreCorrupt) {
  expect_qwen_corrupt([](auto& j) { j["model"]["vocab"] = 1; }, "model.vocab");
  expect_qwen_corrupt([](auto& j) { j["model"]["vocab"]["!"] = "0"; }, "model.vocab.!");
  expect_qwen_corrupt([](auto& j) { j["model"]["vocab"]["!"] = 0.5; }, "model.vocab.!");
  expect_qwen_corrupt([](auto& j) { j["model"]["merges"] = "a b"; }, "model.merges");
  expect_qwen_corrupt([](auto& j) { j["model"]["merges"][3] = 5; }, "model.merges[3]");
  expect_qwen_corrupt([](auto& j) { j["model"]["merges"][3] = {"a", 1}; }, "model.merges[3]");
  expect_qwen_corrupt([](auto& j) { j["added_tokens"] = "x"; }, "added_tokens");
  expect_qwen_corrupt([](auto& j) { j["added_tokens"][2] = 1; }, "added_tokens[2]");
  expect_qwen_corrupt([](auto& j) { j["added_tokens"][2]["id"] = "1"; }, "added_tokens[2].id");
  expect_qwen_corrupt([](auto& j) { j["added_tokens"][2]["content"] = 1; }, "added_tokens[2].content");
  expect_qwen_corrupt([](auto& j) { j["added_tokens"][2]["special"] = 1; }, "added_tokens[2].special");
}

TEST(HostileTokenizer, MissingPartsAreCorrupt) {
  expect_qwen_corrupt([](auto& j) { j["model"].erase("vocab"); }, "model.vocab");
  expect_qwen_corrupt([](auto& j) { j["model"].erase("merges"); }, "model.merges");
  expect_qwen_corrupt([](auto& j) { j["added_tokens"][1].erase("id"); }, "added_tokens[1] has no id");
  expect_qwen_corrupt([](auto& j) { j["added_tokens"][1].erase("content"); },
                      "added_tokens[1].content has 0 bytes");
}

TEST(HostileTokenizer, IdsOutOfRangeAreCorrupt) {
  for (const int64_t id : {int64_t{-1}, int64_t{1} << 20, int64_t{1} << 32, INT64_MIN, INT64_MAX}) {
    expect_qwen_corrupt([&](auto& j) { j["model"]["vocab"]["!"] = id; },
                        "\"!\" has id " + std::to_string(id));
    expect_qwen_corrupt([&](auto& j) { j["added_tokens"][0]["id"] = id; }, "has id " + std::to_string(id));
  }
  expect_qwen_corrupt([](auto& j) { j["model"]["vocab"]["!"] = UINT64_MAX; }, "model.vocab.!");
}

TEST(HostileTokenizer, IdsAndTokensGivenTwiceAreCorrupt) {
  expect_qwen_corrupt([](auto& j) { j["model"]["vocab"]["!"] = 1; }, "have the same id 1");
  std::string json = testing::bytes_only().dump();
  json.replace(json.find("\"vocab\":{"), 9, "\"vocab\":{\"!\":300,");
  expect_refused(tokenizer_from_text(json), Code::kCorrupt, "\"!\" is in model.vocab twice");
  expect_qwen_corrupt([](auto& j) { j["added_tokens"][1]["id"] = 1355; }, "added_tokens[1] repeats");
  expect_qwen_corrupt([](auto& j) { j["added_tokens"][1]["content"] = "<|endoftext|>"; },
                      "added_tokens[1] repeats");
}

TEST(HostileTokenizer, AddedTokensThatContradictTheVocabularyAreCorrupt) {
  expect_qwen_corrupt([](auto& j) { j["added_tokens"][0]["id"] = 0; }, "which is \"!\" in model.vocab");
  expect_qwen_corrupt([](auto& j) { j["added_tokens"][0]["content"] = "!"; }, "but id 0 in model.vocab");
  expect_qwen_corrupt([](auto& j) { j["added_tokens"][0]["content"] = std::string(2000, 'x'); },
                      "has 2000 bytes");
  const auto twins = [](auto& j) {
    j["added_tokens"][3]["content"] = "\u1EBF";
    j["added_tokens"][4]["content"] = "e\u0302\u0301";
  };
  expect_qwen_corrupt(twins, "once normalised");
}

TEST(HostileTokenizer, MergesOfUnknownTokensAreCorrupt) {
  expect_qwen_corrupt(
      [](auto& j) {
        j["model"]["merges"][4] = {"qq\n", "a"};
      },
      "model.merges[4] needs token \"qq\\n\"");
  expect_qwen_corrupt(
      [](auto& j) {
        j["model"]["merges"][4] = {"a", "qq"};
      },
      "model.merges[4] needs token \"qq\"");
  expect_qwen_corrupt(
      [](auto& j) {
        j["model"]["merges"][4] = {"!", "!"};
      },
      "model.merges[4] needs token \"!!\"");
}

TEST(HostileTokenizer, MergesThatAreNotPairsAreCorrupt) {
  expect_qwen_corrupt([](auto& j) { j["model"]["merges"][4] = {"a"}; }, "model.merges[4] has fewer");
  expect_qwen_corrupt([](auto& j) { j["model"]["merges"][4] = {"a", "n", "d"}; }, "model.merges[4] has more");
  for (const char* text : {"an", "a n d", ""}) {
    expect_qwen_corrupt([&](auto& j) { j["model"]["merges"][4] = text; }, "model.merges[4] is \"");
  }
}

TEST(HostileTokenizer, ARegexThatDoesNotCompileIsCorrupt) {
  expect_qwen_corrupt([](auto& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a\n"; },
                      "does not compile");
}

TEST(HostileTokenizer, ARegexThatNeverEndsFailsTheTextAndNotTheProgram) {
  nlohmann::json json = testing::bytes_only();
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+[bc]";
  const auto tokenizer = tokenizer_from(json);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_FALSE(tokenizer->encode(std::string(100, 'a'), AddedTokens::kRecognise).ok());
}

TEST(HostileTokenizer, AByteThatHasNoTokenIsUnsupported) {
  expect_refused(
      testing::kPocketQwen, [](auto& j) { j["model"]["vocab"].erase("Ā"); }, Code::kUnsupported,
      "byte 0 has no token");
  const auto without_byte = [](auto& j) {
    j["model"]["vocab"].erase("<0xFF>");
    j["model"]["merges"] = nlohmann::json::array();
  };
  expect_refused(testing::kPocketGemma, without_byte, Code::kUnsupported, "\"<0xFF>\" is not in model.vocab");
}

struct Unsupported {
  std::string pointer;  // JSON pointer of the setting
  nlohmann::json value;
  std::string part;  // of the message
};

void expect_all_unsupported(const std::string& path, const std::vector<Unsupported>& cases) {
  for (const auto& c : cases) {
    expect_refused(
        path, [&](auto& j) { j[nlohmann::json::json_pointer(c.pointer)] = c.value; }, Code::kUnsupported,
        c.part);
  }
}

TEST(HostileTokenizer, SettingsThatWouldChangeResultsAreUnsupportedByName) {
  const nlohmann::json truncation = {{"max_length", 512}};
  const nlohmann::json fixed = {{"strategy", {{"Fixed", 8}}}};
  expect_all_unsupported(
      testing::kPocketQwen,
      {{"/version", "2.0", "version is \"2.0\""},
       {"/truncation", truncation, "truncation.max_length is 512"},
       {"/padding", fixed, "padding.strategy.Fixed is 8"},
       {"/new", 1, "new is 1, a setting that weir does not support"},
       {"/normalizer", nullptr, "normalizer.type is missing"},
       {"/normalizer/type", "NFKC", "normalizer.type is \"NFKC\", but weir supports only \"NFC\""},
       {"/normalizer/extra", true, "normalizer.extra is true"},
       {"/pre_tokenizer/type", "Whitespace", "pre_tokenizer.type"},
       {"/pre_tokenizer/pretokenizers/0/behavior", "Removed", "pretokenizers.0.behavior is \"Removed\""},
       {"/pre_tokenizer/pretokenizers/0/invert", true, "pretokenizers.0.invert is true"},
       {"/pre_tokenizer/pretokenizers/0/pattern", {{"String", " "}}, "pattern.Regex is missing"},
       {"/pre_tokenizer/pretokenizers/0/pattern/Regex", 3, "Regex is not a string"},
       {"/pre_tokenizer/pretokenizers/0/pattern/Regex", "a.*", "contains \".*\""},
       {"/pre_tokenizer/pretokenizers/1/add_prefix_space", true, "add_prefix_space is true"},
       {"/pre_tokenizer/pretokenizers/1/use_regex", true, "use_regex is true"},
       {"/pre_tokenizer/pretokenizers/2", {{"type", "Digits"}}, "pretokenizers.2.type is \"Digits\""},
       {"/post_processor", {{"type", "BertProcessing"}}, "post_processor.type is \"BertProcessing\""},
       {"/decoder/type", "WordPiece", "decoder.type is \"WordPiece\""},
       {"/model/type", "Unigram", "model.type is \"Unigram\""},
       {"/model/dropout", 0.1, "model.dropout is 0.1"},
       {"/model/continuing_subword_prefix", "##", "model.continuing_subword_prefix is \"##\""},
       {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix is \"</w>\""},
       {"/model/byte_fallback", true, "normalizer.type is \"NFC\""},
       {"/model/scores", 1, "model.scores is 1"},
       {"/added_tokens/0/lstrip", true, "added_tokens[0].lstrip is set"},
       {"/added_tokens/0/rstrip", true, "added_tokens[0].rstrip is set"},
       {"/added_tokens/0/single_word", true, "added_tokens[0].single_word is set"},
       {"/added_tokens/0/new", true, "added_tokens[0].new is set"}});
  expect_all_unsupported(
      testing::kPocketGemma,
      {{"/normalizer/content", "_", "normalizer.content is \"_\""},
       {"/normalizer/pattern/String", "a", "normalizer.pattern.String is \"a\""},
       {"/pre_tokenizer", {{"type", "Digits"}}, "pre_tokenizer.type is \"Digits\""},
       {"/decoder/decoders/1/type", "Strip", "decoder.decoders.1.type is \"Strip\""},
       {"/decoder/decoders/3", {{"type", "Strip"}}, "decoder.decoders.3.type is \"Strip\""},
       {"/model/byte_fallback", false, "normalizer"}});
}

TEST(HostileTokenizer, MissingSettingsAreUnsupportedByName) {
  expect_refused(
      testing::kPocketQwen, [](auto& j) { j.erase("normalizer"); }, Code::kUnsupported,
      "normalizer.type is missing (expected \"NFC\")");
  expect_refused(
      testing::kPocketQwen, [](auto& j) { j["pre_tokenizer"]["pretokenizers"].erase(1); }, Code::kUnsupported,
      "pretokenizers.1.type is missing");
  expect_refused(
      testing::kPocketGemma, [](auto& j) { j.erase("decoder"); }, Code::kUnsupported,
      "decoder.type is missing");
}

}  // namespace
}  // namespace weir
