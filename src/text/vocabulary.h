// Spellings of tokens by id, and ids by spelling.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weir::text {

class Vocabulary {
 public:
  // `id` must not be negative, and neither `id` nor `spelling` may be taken.
  void insert(int32_t id, std::string_view spelling);

  std::optional<int32_t> find(std::string_view spelling) const;

  // Null where no token has this id.
  const std::string* spelling(int32_t id) const;

  // One more than the largest id.
  int32_t size() const { return static_cast<int32_t>(spellings_.size()); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };

  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> spellings_;  // keys of ids_
};

}  // namespace weir::text
