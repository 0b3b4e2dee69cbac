#include "text/vocabulary.h"

#include <algorithm>

#include "base/check.h"

namespace weir::text {

void Vocabulary::insert(int32_t id, std::string_view spelling) {
  const auto index = static_cast<size_t>(id);
  spellings_.resize(std::max(spellings_.size(), index + 1));
  const auto [entry, inserted] = ids_.try_emplace(std::string(spelling), id);
  WEIR_CHECK(id >= 0 && inserted && spellings_[index] == nullptr);
  spellings_[index] = &entry->first;
}

std::optional<int32_t> Vocabulary::find(std::string_view spelling) const {
  const auto entry = ids_.find(spelling);
  if (entry == ids_.end()) return std::nullopt;
  return entry->second;
}

const std::string* Vocabulary::spelling(int32_t id) const {
  if (id < 0 || id >= size()) return nullptr;
  return spellings_[static_cast<size_t>(id)];
}

}  // namespace weir::text
