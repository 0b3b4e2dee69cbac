#include "cli/canvas_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace weir::cli {
namespace {

class CanvasText : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = Tokenizer::load("models/pocket-gemma/tokenizer.json");
    ASSERT_TRUE(loaded.ok());
    tokenizer_.emplace(std::move(*loaded));
  }

  void write(const std::string& text) {
    best_ = *tokenizer_->encode(text, AddedTokens::kRecognise);
    confidence_.assign(best_.size(), 0.5f);
    frame_.best = best_;
    frame_.confidence = confidence_;
    frame_.answer_length = static_cast<int64_t>(best_.size());
  }

  std::string shown(TerminalSize size, bool colour = false) {
    return canvas_text(frame_, *tokenizer_, size, colour);
  }

  std::optional<Tokenizer> tokenizer_;
  std::vector<int32_t> best_;
  std::vector<float> confidence_;
  CanvasFrame frame_;
};

TEST_F(CanvasText, shows_figures_and_the_text_wrapped_to_the_terminal) {
  write("Mia has 12 apples.");
  frame_.step = 3;
  frame_.rows = 64;
  EXPECT_EQ(shown({10, 24}), "canvas 1, \nMia has 12\n apples.\n");
  EXPECT_EQ(shown({60, 24}), "canvas 1, pass 3, 64 rows, 50 % sure\nMia has 12 apples.\n");
}

TEST_F(CanvasText, shows_line_breaks_as_signs_and_what_follows_the_answer_as_dots) {
  write("a\nb<turn|><eos><eos>");
  frame_.answer_length = static_cast<int64_t>(best_.size()) - 2;
  EXPECT_EQ(shown({60, 24}), "canvas 1, pass 0, 0 rows, 50 % sure\na\u23ceb<turn|>\u00b7\u00b7\n");
}

TEST_F(CanvasText, never_has_more_lines_than_the_terminal_and_counts_what_it_hides) {
  write(std::string(400, 'x'));
  for (int rows = 1; rows < 12; ++rows) {
    const std::string text = shown({20, rows});
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), std::max(rows - 1, 2)) << rows;
  }
  EXPECT_NE(shown({20, 6}).find("... 17 more lines\n"), std::string::npos) << shown({20, 6});
}

TEST_F(CanvasText, surer_tokens_are_brighter) {
  write("12");
  confidence_ = {0.0f, 1.0f};
  frame_.confidence = confidence_;
  ASSERT_EQ(best_.size(), 2u);
  EXPECT_NE(shown({60, 24}, true).find("\x1b[38;5;238m1\x1b[38;5;255m2\x1b[0m\n"), std::string::npos);
}

}  // namespace
}  // namespace weir::cli
