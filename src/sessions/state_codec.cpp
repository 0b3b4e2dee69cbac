#include "sessions/state_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "models/kv_pages.h"
#include "sessions/crc32.h"
#include "sessions/stored_fields.h"

namespace weir {
namespace {

// A file: the magic number, the version, the checksum of the payload, and the payload as a block.
constexpr uint64_t kMagic = 0x3174'7073'7269'6577;  // "weirspt1"
constexpr uint64_t kVersion = 1;
enum : uint64_t { kSequence = 1, kColumn = 2 };

Error corrupt(std::string message) {
  return {Code::kCorrupt, std::move(message), ""};
}

constexpr size_t kSumAt = 16, kLengthAt = 24, kPayloadAt = 32;

// A file up to its payload, with room for `bytes` of it. Checksum and length are still to be filled in.
FieldWriter begin_file(uint64_t kind, const std::string& identity, std::span<const int32_t> tokens,
                       size_t bytes) {
  FieldWriter fields;
  fields.reserve(bytes + identity.size() + tokens.size_bytes());
  for (const uint64_t number : {kMagic, kVersion, uint64_t{0}, uint64_t{0}, kind}) fields.number(number);
  fields.block(std::as_bytes(std::span(identity)));
  fields.block(std::as_bytes(tokens));
  return fields;
}

size_t bytes_of(const PageColumn& column) {
  size_t bytes = 0;
  for (const Buffer& page : column) bytes += page.bytes();
  return bytes;
}

size_t bytes_of(const std::vector<DeltaState>& layers) {
  size_t bytes = 0;
  for (const DeltaState& delta : layers) bytes += delta.recurrent.bytes() + delta.conv.bytes();
  return bytes;
}

Result<FieldReader> open_payload(std::span<const std::byte> file, uint64_t kind,
                                 const std::string& identity) {
  FieldReader outer(file);
  if (outer.number() != kMagic) return corrupt("it is no stored sequence");
  if (const uint64_t version = outer.number(); version != kVersion) {
    return Error{Code::kUnsupported, fmt::format("it has version {}, expected {}", version, kVersion), ""};
  }
  const uint64_t sum = outer.number();
  const auto payload = outer.block();
  if (!outer.at_end()) return corrupt("it is cut off, or something follows it");
  if (crc32(payload) != sum) return corrupt("its checksum is wrong");
  FieldReader fields(payload);
  if (fields.number() != kind) return corrupt("it holds something else than its name says");
  if (const std::string found = fields.text(); found != identity) {
    return Error{Code::kUnsupported, fmt::format("it belongs to another model: {}", found), ""};
  }
  return fields;
}

// The copy is complete before the next field may move the bytes.
Status write_memory(FieldWriter& fields, const Buffer& buffer, Steps& steps) {
  steps.copy_out(fields.block(buffer.bytes()), buffer.data(), buffer.bytes());
  return steps.finish();
}

Status write_pages(FieldWriter& fields, const PageColumn& column, Steps& steps) {
  for (const Buffer& page : column) {
    if (page.data() != nullptr) WEIR_RETURN_IF_ERROR(write_memory(fields, page, steps));
  }
  return {};
}

}  // namespace

PageColumn column_of(const SequenceState& state, size_t page) {
  PageColumn column;
  for (const KvCache& cache : state.kv) column.push_back(cache.pages[page].share());
  return column;
}

std::vector<uint8_t> layers_of(const PageColumn& column) {
  std::vector<uint8_t> layers;
  for (const Buffer& page : column) layers.push_back(page.data() != nullptr ? 1 : 0);
  return layers;
}

Result<std::string> StateCodec::encode(std::span<const int32_t> tokens, const SequenceState& state) {
  Steps& steps = generator_.steps();
  const PageColumn last =
      state.position > 0 ? column_of(state, page_count(state.position) - 1) : PageColumn{};
  FieldWriter fields = begin_file(kSequence, identity_, tokens, bytes_of(state.delta) + bytes_of(last));
  for (const DeltaState& delta : state.delta) {
    WEIR_RETURN_IF_ERROR(write_memory(fields, delta.recurrent, steps));
    WEIR_RETURN_IF_ERROR(write_memory(fields, delta.conv, steps));
  }
  for (size_t p = 0; p < page_count(state.position); ++p) {
    const PageColumn column = column_of(state, p);
    const std::vector<uint8_t> layers = layers_of(column);
    fields.block(std::as_bytes(std::span(layers)));
    const bool is_full = static_cast<int64_t>(p + 1) * kKvPage <= state.position;
    if (!is_full) WEIR_RETURN_IF_ERROR(write_pages(fields, column, steps));
  }
  return fields.take();
}

Result<std::string> StateCodec::encode(std::span<const int32_t> tokens, const PageColumn& column) {
  FieldWriter fields = begin_file(kColumn, identity_, tokens, bytes_of(column));
  const std::vector<uint8_t> layers = layers_of(column);
  fields.block(std::as_bytes(std::span(layers)));
  WEIR_RETURN_IF_ERROR(write_pages(fields, column, generator_.steps()));
  return fields.take();
}

void StateCodec::seal(std::string& file) {
  const auto payload = std::as_bytes(std::span(file)).subspan(kPayloadAt);
  const uint64_t sum = crc32(payload), length = payload.size();
  std::memcpy(file.data() + kSumAt, &sum, sizeof(sum));
  std::memcpy(file.data() + kLengthAt, &length, sizeof(length));
}

Result<HeldSequence> StateCodec::decode_sequence(std::span<const std::byte> file, const FindColumn& find) {
  WEIR_TRY(FieldReader fields, open_payload(file, kSequence, identity_));
  HeldSequence held;
  held.tokens = fields.tokens();
  WEIR_RETURN_IF_ERROR(check_tokens(held.tokens));
  WEIR_TRY(held.state, decode_recurrent(fields));
  const auto position = static_cast<int64_t>(held.tokens.size());
  const size_t caches = held.state.kv.size();
  for (size_t p = 0; p < page_count(position); ++p) {
    const auto block = fields.block(caches);
    if (!fields.ok()) return corrupt("its pages are not those of the model");
    std::vector<uint8_t> layers(caches);
    std::transform(block.begin(), block.end(), layers.begin(),
                   [](std::byte byte) { return static_cast<uint8_t>(byte); });
    const int64_t end = static_cast<int64_t>(p + 1) * kKvPage;
    const auto beginning = std::span(held.tokens).first(static_cast<size_t>(std::min(end, position)));
    WEIR_TRY(PageColumn column, end <= position ? find(beginning, layers) : decode_pages(fields, layers));
    for (size_t i = 0; i < caches; ++i) held.state.kv[i].pages.push_back(std::move(column[i]));
  }
  held.state.position = position;
  if (!fields.at_end()) return corrupt("something follows its pages");
  if (!generator_.can_resume(held.state, position)) return corrupt("pages that it needs are missing");
  WEIR_RETURN_IF_ERROR(generator_.steps().finish());
  return held;
}

Result<PageColumn> StateCodec::decode_column(std::span<const std::byte> file, std::span<const int32_t> tokens,
                                             std::span<const uint8_t> layers) {
  WEIR_TRY(FieldReader fields, open_payload(file, kColumn, identity_));
  const std::vector<int32_t> found_tokens = fields.tokens();
  const auto found_layers = fields.block(layers.size());
  const bool same = std::equal(tokens.begin(), tokens.end(), found_tokens.begin(), found_tokens.end()) &&
                    std::equal(layers.begin(), layers.end(), found_layers.begin(), found_layers.end(),
                               [](uint8_t a, std::byte b) { return a == static_cast<uint8_t>(b); });
  if (!fields.ok() || !same) return corrupt("it belongs to another sequence");
  WEIR_TRY(PageColumn column, decode_pages(fields, layers));
  if (!fields.at_end()) return corrupt("something follows its pages");
  WEIR_RETURN_IF_ERROR(generator_.steps().finish());
  return column;
}

// A new sequence with the recurrent states that come next.
Result<SequenceState> StateCodec::decode_recurrent(FieldReader& fields) {
  WEIR_TRY(SequenceState state, generator_.new_sequence());
  for (DeltaState& delta : state.delta) {
    for (Buffer* buffer : {&delta.recurrent, &delta.conv}) {
      const auto block = fields.block(buffer->bytes());
      if (!fields.ok()) return corrupt("its recurrent states are not those of the model");
      generator_.steps().copy_in(buffer->data(), block.data(), block.size());
    }
  }
  return state;
}

Result<PageColumn> StateCodec::decode_pages(FieldReader& fields, std::span<const uint8_t> layers) {
  const std::vector<size_t> sizes = generator_.page_bytes();
  PageColumn column(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] > 1) return corrupt("its pages are not those of the model");
    if (layers[i] == 0) continue;
    const auto block = fields.block(sizes[i]);
    if (!fields.ok()) return corrupt("its pages do not have the model's size");
    WEIR_TRY(column[i], generator_.steps().allocate(sizes[i]));
    generator_.steps().copy_in(column[i].data(), block.data(), block.size());
  }
  return column;
}

Status StateCodec::check_tokens(std::span<const int32_t> tokens) const {
  const bool known = std::all_of(tokens.begin(), tokens.end(), [&](int32_t token) {
    return token >= 0 && token < generator_.vocabulary();
  });
  if (known && !tokens.empty() && static_cast<int64_t>(tokens.size()) <= generator_.context()) return {};
  return corrupt("its tokens are not those of the model");
}

}  // namespace weir
