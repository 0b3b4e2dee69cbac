#include "generate/guide.h"

#include "generate/pocket_generation.h"

namespace weir {
namespace {

using test::Tokens;

class GuideTest : public test::PocketGeneration {
 protected:
  static Tokens text_tokens(const std::string& text) {
    return *tokenizer_->encode(text, AddedTokens::kRecognise);
  }

  // So hot that the model does not end its thinking in time.
  static GenerationRequest thinking_request(int64_t limit) {
    GenerationRequest request = sampled_request(0);
    request.sampling.top_k = 0;
    request.sampling.top_p = 1;
    request.sampling.temperature = 50;
    request.max_tokens = 26;
    if (limit > 0)
      request.thinking = ThinkingLimit{limit, "</think>", text_tokens("\nEnough.\n</think>\n\n")};
    return request;
  }

  static Tokens answer_of(GenerationRequest request) {
    auto generation = AutoregressiveGeneration::start(*model_, *tokenizer_, std::move(request));
    EXPECT_TRUE(generation.ok());
    EXPECT_TRUE((*generation)->run().ok());
    const auto answer = (*generation)->answer();
    EXPECT_EQ((*generation)->statistics().generated_tokens, static_cast<int64_t>(answer.size()));
    return {answer.begin(), answer.end()};
  }
};

TEST_F(GuideTest, thinking_takes_no_more_tokens_than_its_limit_and_then_its_end) {
  const Tokens end = text_tokens("\nEnough.\n</think>\n\n");
  const Tokens free = answer_of(thinking_request(0));
  for (const int64_t limit : {1, 6}) {
    const Tokens answer = answer_of(thinking_request(limit));
    const auto thought = static_cast<size_t>(limit);
    ASSERT_GT(answer.size(), thought + end.size());
    EXPECT_EQ(Tokens(answer.begin(), answer.begin() + limit), Tokens(free.begin(), free.begin() + limit));
    EXPECT_EQ(Tokens(answer.begin() + limit, answer.begin() + limit + static_cast<int64_t>(end.size())), end);
    // It goes on as behind a prompt that ends so.
    GenerationRequest whole = thinking_request(0);
    whole.prompt.insert(whole.prompt.end(), answer.begin(),
                        answer.begin() + limit + static_cast<int64_t>(end.size()));
    whole.max_tokens = 26 - limit - static_cast<int64_t>(end.size());
    const Tokens rest = answer_of(std::move(whole));
    EXPECT_EQ(Tokens(answer.begin() + limit + static_cast<int64_t>(end.size()), answer.end()), rest);
  }
}

TEST_F(GuideTest, a_cut_in_the_middle_of_the_end_is_a_cut) {
  GenerationRequest request = thinking_request(5);
  request.max_tokens = 7;
  EXPECT_EQ(answer_of(std::move(request)).size(), 7u);
}

TEST_F(GuideTest, a_limit_that_none_can_keep_is_refused) {
  GenerationRequest request = thinking_request(1);
  EXPECT_TRUE(validate(request, {1364, 64, 8}).ok());
  const ThinkingLimit good = *request.thinking;
  for (const ThinkingLimit& bad :
       {ThinkingLimit{0, good.end, good.forced}, ThinkingLimit{-1, good.end, good.forced},
        ThinkingLimit{1, "", good.forced}, ThinkingLimit{1, good.end, {}}, ThinkingLimit{1, good.end, {1364}},
        ThinkingLimit{1, good.end, {-1}}}) {
    request.thinking = bad;
    const Status status = validate(request, {1364, 64, 8});
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  }
}

TEST_F(GuideTest, thinking_that_ends_in_time_is_left_alone) {
  Guide guide(*tokenizer_, nullptr, ThinkingLimit{3, "</think>", {1, 2}}, {});
  guide.accept(*tokenizer_->find("a"));
  guide.accept(*tokenizer_->find("</think>"));
  guide.accept(*tokenizer_->find("a"));
  guide.accept(*tokenizer_->find("a"));
  EXPECT_TRUE(guide.take_forced().empty());
  // Spelled with other tokens it ends the thinking too, since that is how the text is read.
  Guide spelled(*tokenizer_, nullptr, ThinkingLimit{9, "</think>", {1, 2}}, {});
  const auto tokens = tokenizer_->encode("a</think>bbb bbb bbb", AddedTokens::kAsText);
  for (const int32_t token : *tokens) spelled.accept(token);
  EXPECT_TRUE(spelled.take_forced().empty());
}

}  // namespace
}  // namespace weir
