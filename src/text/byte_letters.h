// Byte-level vocabularies spell each byte as one printable letter: printable Latin-1 bytes as themselves, the
// 68 others as U+0100, U+0101, ... in order (Radford et al., GPT-2, 2019: bytes_to_unicode).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::text {

// The letter for `byte`, in UTF-8.
std::string_view letter_of(uint8_t byte);

// The letters for all of `bytes`, in UTF-8.
std::string letters_of(std::string_view bytes);

// The bytes that `letters` (valid UTF-8) spells; `letters` itself when a character in it stands for no byte.
std::string bytes_of(std::string_view letters);

}  // namespace weir::text
