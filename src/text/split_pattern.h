// The regular expression that cuts text into words, before any merge.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

struct pcre2_real_code_8;

namespace weir::text {

// Runs on PCRE2, compiled to machine code where possible; Unicode categories are those of the installed
// PCRE2.
class SplitPattern {
 public:
  // Errors: kUnsupported for syntax that weir does not know (pattern_syntax.h) and for a pattern that can
  // match nothing, kCorrupt for one that does not compile. Messages name the fault only; the caller knows the
  // file.
  static Result<SplitPattern> compile(std::string_view pattern);

  // Appends the pieces of `text` (valid UTF-8): every match, and every stretch between matches.
  // Errors: kUnsupported when the pattern backtracks without end on this text.
  Status split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };

  explicit SplitPattern(pcre2_real_code_8* code) : code_(code) {}

  std::unique_ptr<pcre2_real_code_8, Free> code_;
};

}  // namespace weir::text
