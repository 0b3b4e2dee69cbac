#include "models/kv_pages.h"

#include <algorithm>
#include <string>
#include <utility>

namespace weir {

Status reserve_pages(Steps& steps, KvCache& cache, size_t page_bytes, int64_t begin, int64_t end) {
  std::vector<Buffer>& pages = cache.pages;
  const size_t count = page_count(end), present = std::min(pages.size(), count);
  for (auto p = static_cast<size_t>(begin / kKvPage); p < present; ++p) {
    if (!pages[p].is_shared()) continue;
    WEIR_TRY(Buffer own, steps.allocate(page_bytes));
    steps.copy(own.data(), pages[p].data(), page_bytes);
    pages[p] = std::move(own);
  }
  while (pages.size() < count) {
    auto page = steps.allocate(page_bytes);
    if (!page.ok()) {
      const std::string fits = std::to_string(static_cast<int64_t>(pages.size()) * kKvPage);
      return Error{page.error().code, page.error().message + "; " + fits + " tokens of this sequence fit",
                   page.error().hint};
    }
    pages.push_back(std::move(*page));
  }
  return {};
}

Status repeat_pages(Steps& steps, KvCache& cache, int64_t positions) {
  const size_t period = cache.pages.size();
  while (cache.pages.size() < page_count(positions)) {
    const Buffer& source = cache.pages[cache.pages.size() % period];
    WEIR_TRY(Buffer page, steps.allocate(source.bytes()));
    steps.copy(page.data(), source.data(), source.bytes());
    cache.pages.push_back(std::move(page));
  }
  return {};
}

std::vector<KvCache> share_pages(const std::vector<KvCache>& caches) {
  std::vector<KvCache> shared(caches.size());
  for (size_t i = 0; i < caches.size(); ++i) {
    for (const Buffer& page : caches[i].pages) shared[i].pages.push_back(page.share());
  }
  return shared;
}

}  // namespace weir
