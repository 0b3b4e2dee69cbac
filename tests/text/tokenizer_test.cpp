#include "text/tokenizer.h"

#include <thread>

#include "text_testing.h"

namespace weir {
namespace {

using testing::must_encode;
using testing::must_load;

std::string repeated(std::string_view part, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += part;
  return text;
}

TEST(Tokenizer, FindsTokensByTheirSpellingInTheFile) {
  const Tokenizer qwen = must_load(Tokenizer::load(testing::kPocketQwen));
  EXPECT_EQ(qwen.vocab_size(), 1364);
  EXPECT_EQ(qwen.find("<|endoftext|>"), 1355);
  EXPECT_EQ(qwen.find("<|im_end|>"), 1357);
  EXPECT_EQ(qwen.find("!"), 0);
  EXPECT_EQ(qwen.find("no such token"), std::nullopt);
}

TEST(Tokenizer, TellsAddedAndSpecialTokensFromOthers) {
  const Tokenizer qwen = must_load(Tokenizer::load(testing::kPocketQwen));
  const int32_t end = *qwen.find("<|im_end|>");
  const int32_t think = *qwen.find("<think>");
  EXPECT_TRUE(qwen.is_added(end) && qwen.is_special(end));
  EXPECT_TRUE(qwen.is_added(think) && !qwen.is_special(think));
  EXPECT_FALSE(qwen.is_added(0) || qwen.is_special(0));
  for (const int32_t outside : {-1, qwen.vocab_size(), INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(qwen.has_token(outside) || qwen.is_added(outside) || qwen.is_special(outside)) << outside;
    EXPECT_TRUE(qwen.token_bytes(outside).empty()) << outside;
  }
}

TEST(Tokenizer, GivesTheBytesThatATokenAddsToTheText) {
  const Tokenizer qwen = must_load(Tokenizer::load(testing::kPocketQwen));
  EXPECT_EQ(qwen.token_bytes(*qwen.find("Ġ=")), " =");
  EXPECT_EQ(qwen.token_bytes(*qwen.find("Ċ")), "\n");
  const Tokenizer gemma = must_load(Tokenizer::load(testing::kPocketGemma));
  EXPECT_EQ(gemma.token_bytes(*gemma.find("▁=")), " =");
  EXPECT_EQ(gemma.token_bytes(*gemma.find("<0xE9>")), "\xE9");
  EXPECT_TRUE(gemma.is_byte_fallback(*gemma.find("<0xE9>")));
  EXPECT_FALSE(gemma.is_byte_fallback(*gemma.find("▁=")));
}

TEST(Tokenizer, AddedTokensInATextCanStayPlainText) {
  for (const std::string& path : {testing::kPocketQwen, testing::kPocketGemma}) {
    const Tokenizer tokenizer = must_load(Tokenizer::load(path));
    for (const std::string text : {"<|im_end|>", "<think>", "<turn|>", "<bos>", "a<|im_start|>b</think>"}) {
      const auto ids = must_encode(tokenizer, text, AddedTokens::kAsText);
      for (const int32_t id : ids) EXPECT_FALSE(tokenizer.is_added(id)) << text;
      EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::kSkip), text);
    }
  }
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefusedWithTheOffset) {
  const Tokenizer qwen = must_load(Tokenizer::load(testing::kPocketQwen));
  for (const std::string_view bad : {"abc\xFFz", "abc\xC3", "abc\xED\xA0\x80"}) {
    const auto ids = qwen.encode(bad, AddedTokens::kRecognise);
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.error().code, Code::kInvalidArgument);
    EXPECT_EQ(ids.error().message, "the text is not valid UTF-8 at byte 3");
  }
}

TEST(Tokenizer, AnIdWithoutATokenStandsForNothing) {
  const Tokenizer qwen = must_load(Tokenizer::load(testing::kPocketQwen));
  EXPECT_EQ(qwen.decode(std::vector<int32_t>{0, -1, 1 << 30, qwen.vocab_size(), 1}, SpecialTokens::kKeep),
            "!\"");
}

// 300 kB without a break: anything quadratic would run into the time limit of the whole test.
TEST(Tokenizer, LongRunsWithoutABreakTakeTimeInProportion) {
  for (const std::string& path : {testing::kPocketQwen, testing::kPocketGemma}) {
    const Tokenizer tokenizer = must_load(Tokenizer::load(path));
    for (const std::string part :
         {"a", " ", "\n", " \n", "1", "!", "th", "你", "<|im_start|", "<", "\xF0\x9F\x98\x80"}) {
      const std::string text = repeated(part, 300'000 / part.size());
      EXPECT_TRUE(tokenizer.decode(must_encode(tokenizer, text), SpecialTokens::kKeep) == text) << part;
      EXPECT_TRUE(tokenizer.decode(must_encode(tokenizer, text + "x"), SpecialTokens::kKeep) == text + "x")
          << part;
    }
  }
}

TEST(Tokenizer, ALongRunOfMarksOutOfOrderTakesTimeInProportion) {
  const Tokenizer qwen = must_load(Tokenizer::load(testing::kPocketQwen));
  const size_t pairs = 200'000;
  const std::string unsorted = repeated("\u0301\u0323", pairs);
  const std::string sorted = repeated("\u0323", pairs).append(repeated("\u0301", pairs));
  const auto ids = must_encode(qwen, unsorted);
  EXPECT_TRUE(qwen.decode(ids, SpecialTokens::kKeep) == sorted);
}

TEST(Tokenizer, SeveralThreadsMayEncodeAndDecodeAtOnce) {
  const Tokenizer qwen = must_load(Tokenizer::load(testing::kPocketQwen));
  const auto rows = testing::read_rows("tests/data/tokenizer/pocket-qwen.jsonl");
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (const nlohmann::json& row : rows) {
        const auto ids = qwen.encode(row["text"].get<std::string>(), AddedTokens::kRecognise);
        if (!ids.ok() || *ids != row["ids"].get<std::vector<int32_t>>()) ++wrong[t];
        if (ids.ok() && qwen.decode(*ids, SpecialTokens::kKeep) != row["decoded"].get<std::string>())
          ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

// Without merges the bytes stay apart; with ignore_merges a word that is a token is that token all the same.
TEST(Tokenizer, IgnoreMergesTakesAWholeWordThatIsAToken) {
  nlohmann::json json = testing::bytes_only();
  json["model"]["vocab"]["Ġthe"] = 256;
  EXPECT_EQ(must_encode(must_load(testing::tokenizer_from(json)), " the").size(), 4u);
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(must_encode(must_load(testing::tokenizer_from(json)), " the"), std::vector<int32_t>{256});
}

// An added token is no token of the model: plain text does not become it.
TEST(Tokenizer, PlainTextNeverBecomesATokenThatIsOnlyAdded) {
  nlohmann::json json = testing::read_json(testing::kPocketGemma);
  const auto id = static_cast<int32_t>(json["model"]["vocab"].size());
  json["added_tokens"].push_back({{"id", id}, {"content", "é"}, {"special", false}, {"normalized", false}});
  const Tokenizer gemma = must_load(testing::tokenizer_from(json));
  EXPECT_EQ(must_encode(gemma, "é"), std::vector<int32_t>{id});
  const std::vector<int32_t> bytes = {*gemma.find("<0xC3>"), *gemma.find("<0xA9>")};
  EXPECT_EQ(must_encode(gemma, "é", AddedTokens::kAsText), bytes);
}

TEST(Tokenizer, TokensAddedAsNormalizedAreFoundInNormalisedText) {
  nlohmann::json json = testing::bytes_only();
  json["added_tokens"] = {{{"id", 256}, {"content", "\u1EBF"}, {"normalized", true}},
                          {{"id", 257}, {"content", "\u1EC1"}, {"normalized", false}}};
  const Tokenizer tokenizer = must_load(testing::tokenizer_from(json));
  EXPECT_EQ(must_encode(tokenizer, "e\u0302\u0301"), std::vector<int32_t>{256});
  EXPECT_EQ(must_encode(tokenizer, "\u1EC1"), std::vector<int32_t>{257});
  EXPECT_EQ(must_encode(tokenizer, "e\u0302\u0300").size(), 3u);
}

}  // namespace
}  // namespace weir
