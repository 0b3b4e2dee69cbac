#include "text/stream_decoder.h"

#include <random>

#include "base/utf8.h"
#include "text_testing.h"

namespace weir {
namespace {

using testing::must_encode;
using testing::must_load;

// The pieces of a stream put together; each must be whole characters.
std::string streamed(StreamDecoder& decoder, const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece = decoder.push(id);
    EXPECT_TRUE(is_valid_utf8(piece)) << ::testing::PrintToString(ids);
    text += piece;
  }
  const std::string rest = decoder.finish();
  EXPECT_TRUE(is_valid_utf8(rest)) << ::testing::PrintToString(ids);
  return text + rest;
}

TEST(StreamDecoder, PiecesMakeTheTextOfTheReference) {
  for (const std::string name : {"pocket-qwen", "pocket-gemma"}) {
    const Tokenizer tokenizer = must_load(Tokenizer::load("models/" + name + "/tokenizer.json"));
    StreamDecoder keep(tokenizer, SpecialTokens::kKeep);
    StreamDecoder skip(tokenizer, SpecialTokens::kSkip);
    for (const nlohmann::json& row : testing::read_rows("tests/data/tokenizer/" + name + "-decode.jsonl")) {
      const auto ids = row["ids"].get<std::vector<int32_t>>();
      EXPECT_EQ(streamed(keep, ids), row["decoded"].get<std::string>()) << row["ids"];
      EXPECT_EQ(streamed(skip, ids), row["skipped"].get<std::string>()) << row["ids"];
    }
  }
}

TEST(StreamDecoder, PiecesOfRandomIdsMakeTheDecodedText) {
  std::mt19937 random(1);
  for (const std::string& path : {testing::kPocketQwen, testing::kPocketGemma}) {
    const Tokenizer tokenizer = must_load(Tokenizer::load(path));
    std::uniform_int_distribution<int32_t> any_id(-2, tokenizer.vocab_size() + 2);
    for (int round = 0; round < 500; ++round) {
      std::vector<int32_t> ids(random() % 40);
      for (int32_t& id : ids) id = any_id(random);
      for (const SpecialTokens special : {SpecialTokens::kKeep, SpecialTokens::kSkip}) {
        StreamDecoder decoder(tokenizer, special);
        EXPECT_EQ(streamed(decoder, ids), tokenizer.decode(ids, special));
      }
    }
  }
}

TEST(StreamDecoder, ACharacterComesWithItsLastByte) {
  const Tokenizer qwen = must_load(testing::tokenizer_from(testing::bytes_only()));
  StreamDecoder decoder(qwen, SpecialTokens::kKeep);
  const auto ids = must_encode(qwen, "a😀");
  ASSERT_EQ(ids.size(), 5u);
  EXPECT_EQ(decoder.push(ids[0]), "a");
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(decoder.push(ids[i]), "");
  EXPECT_EQ(decoder.push(ids[4]), "😀");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, ABrokenCharacterIsReplacedAsSoonAsItIsCertain) {
  const Tokenizer qwen = must_load(testing::tokenizer_from(testing::bytes_only()));
  StreamDecoder decoder(qwen, SpecialTokens::kKeep);
  const auto ids = must_encode(qwen, "😀a");
  EXPECT_EQ(decoder.push(ids[0]), "");
  EXPECT_EQ(decoder.push(ids[1]), "");
  EXPECT_EQ(decoder.push(ids[4]), "\uFFFDa");
  EXPECT_EQ(decoder.push(ids[0]), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
}

TEST(StreamDecoder, ARunOfByteTokensIsATextOrItIsNot) {
  const Tokenizer gemma = must_load(Tokenizer::load(testing::kPocketGemma));
  StreamDecoder decoder(gemma, SpecialTokens::kKeep);
  const auto push = [&](const char* spelling) { return decoder.push(*gemma.find(spelling)); };
  for (const char* part : {"<0xC3>", "<0xA9>"}) EXPECT_EQ(push(part), "");
  EXPECT_EQ(push("a"), "éa");
  for (const char* part : {"<0xC3>", "<0xA9>", "<0xFF>"}) EXPECT_EQ(push(part), "");
  EXPECT_EQ(push("a"), "\uFFFD\uFFFD\uFFFDa");
}

TEST(StreamDecoder, IsReadyForAnotherTextOnceFinished) {
  const Tokenizer qwen = must_load(testing::tokenizer_from(testing::bytes_only()));
  StreamDecoder decoder(qwen, SpecialTokens::kKeep);
  (void)decoder.push(must_encode(qwen, "é")[0]);
  (void)decoder.finish();
  EXPECT_EQ(decoder.push(must_encode(qwen, "b")[0]), "b");
}

}  // namespace
}  // namespace weir
