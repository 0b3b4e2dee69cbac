// Ids and text against what the Hugging Face `tokenizers` library gave for the same file.
#include <cstdio>
#include <filesystem>
#include <optional>

#include "text/stream_decoder.h"
#include "text_testing.h"

namespace weir {
namespace {

using testing::read_rows;

void expect_vectors(const Tokenizer& tokenizer, const std::string& path) {
  for (const nlohmann::json& row : read_rows(path)) {
    const auto text = row["text"].get<std::string>();
    const auto ids = row["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(testing::must_encode(tokenizer, text), ids) << row["text"];
    EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::kKeep), row["decoded"].get<std::string>());
  }
}

void expect_decoded(const Tokenizer& tokenizer, const std::string& path) {
  for (const nlohmann::json& row : read_rows(path)) {
    const auto ids = row["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::kKeep), row["decoded"].get<std::string>()) << row["ids"];
    EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::kSkip), row["skipped"].get<std::string>()) << row["ids"];
  }
}

// What `xz -dc` writes; nothing where the file or the program is missing.
std::optional<std::string> unpacked(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  std::FILE* pipe = popen(("xz -dc '" + path + "'").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::vector<char> buffer(1 << 20);
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), count);
  if (pclose(pipe) != 0) return std::nullopt;
  return text;
}

TEST(TokenizerVectors, PocketQwenEncodesAndDecodesAsTheReference) {
  expect_vectors(testing::must_load(Tokenizer::load(testing::kPocketQwen)),
                 "tests/data/tokenizer/pocket-qwen.jsonl");
}

TEST(TokenizerVectors, PocketGemmaEncodesAndDecodesAsTheReference) {
  expect_vectors(testing::must_load(Tokenizer::load(testing::kPocketGemma)),
                 "tests/data/tokenizer/pocket-gemma.jsonl");
}

TEST(TokenizerVectors, PocketQwenDecodesBrokenCharactersAsTheReference) {
  expect_decoded(testing::must_load(Tokenizer::load(testing::kPocketQwen)),
                 "tests/data/tokenizer/pocket-qwen-decode.jsonl");
}

TEST(TokenizerVectors, PocketGemmaDecodesBrokenCharactersAsTheReference) {
  expect_decoded(testing::must_load(Tokenizer::load(testing::kPocketGemma)),
                 "tests/data/tokenizer/pocket-gemma-decode.jsonl");
}

class RealVocabulary : public ::testing::TestWithParam<const char*> {};

TEST_P(RealVocabulary, EncodesAndDecodesAsTheReference) {
  const std::string name = GetParam();
  const auto json = unpacked("../shared/tokenizers/" + name + ".tokenizer.json.xz");
  if (!json) GTEST_SKIP() << "the vocabulary of " << name << " is not here, or xz is not installed";
  const std::string vectors = "../shared/goldens/tokenizer/" + name + ".jsonl";
  if (!std::filesystem::exists(vectors)) GTEST_SKIP() << "the vectors of " << name << " are not here";
  expect_vectors(testing::must_load(testing::tokenizer_from_text(*json)), vectors);
}

INSTANTIATE_TEST_SUITE_P(Published, RealVocabulary, ::testing::Values("qwen3", "qwen3.6", "gemma3"));

// The same file in the other ways that it may be written.

TEST(TokenizerVectors, MergesWrittenAsOneStringMeanTheSame) {
  nlohmann::json json = testing::read_json(testing::kPocketQwen);
  for (nlohmann::json& merge : json["model"]["merges"]) {
    merge = merge[0].get<std::string>() + ' ' + merge[1].get<std::string>();
  }
  expect_vectors(testing::must_load(testing::tokenizer_from(json)), "tests/data/tokenizer/pocket-qwen.jsonl");
}

// As Gemma 3's own file has it: no space is left to split at.
TEST(TokenizerVectors, ASplitAtReplacedSpacesChangesNothing) {
  nlohmann::json json = testing::read_json(testing::kPocketGemma);
  json["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"String", " "}}},
                           {"behavior", "MergedWithPrevious"},
                           {"invert", false}};
  expect_vectors(testing::must_load(testing::tokenizer_from(json)),
                 "tests/data/tokenizer/pocket-gemma.jsonl");
}

TEST(TokenizerVectors, TokensAddedAroundAPromptAreLeftToTheCaller) {
  nlohmann::json json = testing::read_json(testing::kPocketGemma);
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {{{"SpecialToken", {{"id", "<bos>"}, {"type_id", 0}}}}}}};
  expect_vectors(testing::must_load(testing::tokenizer_from(json)),
                 "tests/data/tokenizer/pocket-gemma.jsonl");
}

TEST(TokenizerVectors, PaddingToTheLongestOfABatchLeavesOneTextAlone) {
  nlohmann::json json = testing::read_json(testing::kPocketGemma);
  json["padding"] = {
      {"strategy", "BatchLongest"}, {"direction", "Left"}, {"pad_to_multiple_of", nullptr}, {"pad_id", 0},
      {"pad_type_id", 0},           {"pad_token", "<pad>"}};
  expect_vectors(testing::must_load(testing::tokenizer_from(json)),
                 "tests/data/tokenizer/pocket-gemma.jsonl");
}

}  // namespace
}  // namespace weir
