#include "text/tokenizer.h"

#include <utility>

#include "base/mapped_file.h"
#include "base/utf8.h"
#include "text/encoder.h"
#include "text/stream_decoder.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_tables.h"

namespace weir {
namespace {

constexpr size_t kLongestText = size_t{1} << 28;

Result<text::TokenizerTables> read_tables(std::span<const std::byte> json) {
  WEIR_TRY(text::TokenizerFile file, text::read_tokenizer_json(json));
  return text::make_tables(std::move(file));
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const text::TokenizerTables> tables) : tables_(std::move(tables)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  WEIR_TRY(const MappedFile file, MappedFile::open(path));
  return from_bytes(file.bytes(), path);
}

Result<Tokenizer> Tokenizer::from_bytes(std::span<const std::byte> json, const std::string& name) {
  auto tables = read_tables(json);
  if (!tables.ok()) {
    Error error = std::move(tables).error();
    error.message = name + ": " + error.message;
    return error;
  }
  return Tokenizer(std::make_unique<const text::TokenizerTables>(*std::move(tables)));
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, AddedTokens added) const {
  if (text.size() > kLongestText) {
    return Error{Code::kInvalidArgument,
                 "the text has " + std::to_string(text.size()) + " bytes, more than the " +
                     std::to_string(kLongestText) + " that can be tokenised at once",
                 ""};
  }
  if (const size_t valid = valid_utf8_prefix(text); valid < text.size()) {
    return Error{Code::kInvalidArgument, "the text is not valid UTF-8 at byte " + std::to_string(valid), ""};
  }
  return text::Encoder(*tables_).run(text, added);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, SpecialTokens special) const {
  StreamDecoder decoder(*this, special);
  std::string text;
  for (const int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  if (!has_token(id)) return {};
  const auto i = static_cast<size_t>(id);
  const size_t begin = tables_->byte_starts[i];
  return std::string_view(tables_->bytes).substr(begin, tables_->byte_starts[i + 1] - begin);
}

std::optional<int32_t> Tokenizer::find(std::string_view spelling) const {
  return tables_->vocabulary.find(spelling);
}

int32_t Tokenizer::vocab_size() const {
  return tables_->vocabulary.size();
}

bool Tokenizer::has_token(int32_t id) const {
  return id >= 0 && id < vocab_size() && tables_->flags[static_cast<size_t>(id)].exists;
}

bool Tokenizer::is_added(int32_t id) const {
  return has_token(id) && tables_->flags[static_cast<size_t>(id)].added;
}

bool Tokenizer::is_special(int32_t id) const {
  return has_token(id) && tables_->flags[static_cast<size_t>(id)].special;
}

bool Tokenizer::is_byte_fallback(int32_t id) const {
  return has_token(id) && tables_->flags[static_cast<size_t>(id)].byte_fallback;
}

bool Tokenizer::is_byte_level() const {
  return tables_->pipeline.byte_level;
}

}  // namespace weir
