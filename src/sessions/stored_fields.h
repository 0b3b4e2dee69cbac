// The fields of a stored file: little-endian numbers of 64 bits, and blocks of bytes behind their length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weir {

class FieldWriter {
 public:
  // Makes room, so that what is there need not move while blocks of `bytes` together come behind it.
  void reserve(size_t bytes) { bytes_.reserve(bytes + kRoomForNumbers); }
  void number(uint64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void block(std::span<const std::byte> bytes) {
    number(bytes.size());
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  // A block to be filled in by the caller, before the next field is written.
  void* block(size_t bytes) {
    number(bytes);
    bytes_.append(bytes, '\0');
    return bytes_.data() + bytes_.size() - bytes;
  }

  std::string take() { return std::move(bytes_); }

 private:
  static constexpr size_t kRoomForNumbers = size_t{1} << 16;

  std::string bytes_;
};

// Once something is not as expected, ok() is false and all that follows is empty.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : left_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && left_.empty(); }

  uint64_t number() {
    uint64_t value = 0;
    if (const auto bytes = take(sizeof(value)); ok_) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  std::span<const std::byte> block() { return take(number()); }
  std::span<const std::byte> block(size_t expected) {
    const auto bytes = block();
    return bytes.size() == expected ? bytes : fail();
  }
  std::string text() {
    const auto bytes = block();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::vector<int32_t> tokens() {
    const auto bytes = block();
    if (bytes.size() % sizeof(int32_t) != 0) fail();
    std::vector<int32_t> values(ok_ ? bytes.size() / sizeof(int32_t) : 0);
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::span<const std::byte> fail() {
    ok_ = false;
    left_ = {};
    return {};
  }

 private:
  std::span<const std::byte> take(uint64_t count) {
    if (!ok_ || count > left_.size()) return fail();
    const auto bytes = left_.first(static_cast<size_t>(count));
    left_ = left_.subspan(static_cast<size_t>(count));
    return bytes;
  }

  std::span<const std::byte> left_;
  bool ok_ = true;
};

}  // namespace weir
