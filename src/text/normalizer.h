// What happens to text before it is split into words.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::text {

enum class Normalizer {
  kNfc,               // Unicode normalisation form C (UAX #15)
  kSpacesToLowBlock,  // every U+0020 becomes U+2581, SentencePiece's mark of a space
};

// `text` is valid UTF-8. Errors: kInternal when utf8proc fails.
Result<std::string> normalize(Normalizer normalizer, std::string_view text);

// The way back from kSpacesToLowBlock.
std::string low_blocks_to_spaces(std::string_view text);

}  // namespace weir::text
