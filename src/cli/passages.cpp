#include "cli/passages.h"

#include <algorithm>
#include <utility>

#include "base/mapped_file.h"
#include "chat/prompt_tokens.h"
#include "cli/answer.h"
#include "cli/gsm8k.h"

namespace weir::cli {
namespace {

Result<Passage> passage_of(const Problem& problem, const Tokenizer& tokenizer, ChatLayout layout) {
  WEIR_TRY(const Prompt prompt, render_prompt(layout, ask("", problem.question), {.enable_thinking = false}));
  Passage passage;
  WEIR_TRY(passage.tokens, prompt_tokens(prompt, tokenizer));
  passage.scored_from = passage.tokens.size();
  WEIR_TRY(const auto answer, tokenizer.encode(problem.answer, AddedTokens::kAsText));
  passage.tokens.insert(passage.tokens.end(), answer.begin(), answer.end());
  const auto end = tokenizer.find(layout == ChatLayout::kQwen ? "<|im_end|>" : "<turn|>");
  if (end) passage.tokens.push_back(*end);
  return passage;
}

Result<std::vector<Passage>> windows_of(const std::string& path, const Tokenizer& tokenizer, size_t window) {
  WEIR_TRY(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  WEIR_TRY(const auto tokens, tokenizer.encode({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                               AddedTokens::kAsText));
  std::vector<Passage> passages;
  for (size_t i = 0; i + 1 < tokens.size(); i += window) {
    const size_t end = std::min(tokens.size(), i + window);
    if (end - i < 2) break;
    passages.push_back(
        {{tokens.begin() + static_cast<int64_t>(i), tokens.begin() + static_cast<int64_t>(end)}, 1});
  }
  return passages;
}

}  // namespace

Result<std::vector<Passage>> read_passages(const std::string& path, const Tokenizer& tokenizer,
                                           ChatLayout layout, size_t window, size_t limit) {
  std::vector<Passage> passages;
  if (path.ends_with(".jsonl")) {
    WEIR_TRY(const ProblemSet set, read_problems(path));
    for (const Problem& problem : set.problems) {
      if (limit > 0 && passages.size() == limit) break;
      WEIR_TRY(Passage passage, passage_of(problem, tokenizer, layout));
      passages.push_back(std::move(passage));
    }
  } else {
    WEIR_TRY(passages, windows_of(path, tokenizer, window));
    if (limit > 0 && passages.size() > limit) passages.resize(limit);
  }
  if (!passages.empty()) return passages;
  return Error{Code::kCorrupt, path + " has no two tokens to predict one from the other", ""};
}

}  // namespace weir::cli
