// Sequences as bytes, to be written to files.
//
// Full pages of keys and values are stored apart, so that sequences with a common beginning share them on
// disk as they do in memory. A column is what one page's positions have in all layers; layers that have let
// go of the page are left out. A sequence is stored as its tokens, its recurrent states, which layers each
// full column has, and the page that it has begun.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "generate/generation.h"
#include "generate/generator.h"

namespace weir {

using PageColumn = std::vector<Buffer>;  // [layers]; no memory where a layer has no page

PageColumn column_of(const SequenceState& state, size_t page);
std::vector<uint8_t> layers_of(const PageColumn& column);  // 1 where a layer has its page

class StateCodec {
 public:
  // `identity` tells models, and backends, apart: what one has stored no other will read. The generator must
  // outlive the codec.
  StateCodec(Generator& generator, std::string identity)
      : generator_(generator), identity_(std::move(identity)) {}

  // A file but for its checksum, which seal() computes: that needs no device, so another thread can do it.
  // Errors: kDevice.
  Result<std::string> encode(std::span<const int32_t> tokens, const SequenceState& state);
  Result<std::string> encode(std::span<const int32_t> tokens, const PageColumn& column);
  static void seal(std::string& file);

  // The column behind the last of `tokens` that has these layers.
  using FindColumn =
      std::function<Result<PageColumn>(std::span<const int32_t> tokens, std::span<const uint8_t> layers)>;

  // Errors: kCorrupt for anything that was not encoded and sealed so, kUnsupported for another version or
  // identity, kOutOfMemory, and those of `find`. Messages do not name the file.
  Result<HeldSequence> decode_sequence(std::span<const std::byte> file, const FindColumn& find);
  // The same, when it does not belong to these tokens and layers too.
  Result<PageColumn> decode_column(std::span<const std::byte> file, std::span<const int32_t> tokens,
                                   std::span<const uint8_t> layers);

 private:
  Result<SequenceState> decode_recurrent(class FieldReader& fields);
  Result<PageColumn> decode_pages(class FieldReader& fields, std::span<const uint8_t> layers);
  Status check_tokens(std::span<const int32_t> tokens) const;

  Generator& generator_;
  std::string identity_;
};

}  // namespace weir
