// model.safetensors.index.json: which shard holds which tensor.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weir {

struct ShardIndex {
  std::map<std::string, std::string, std::less<>> shard_of;  // file name by tensor name, both as written
  std::set<std::string> shards() const;
};

// Every shard must be a plain file name ending in ".safetensors", so that no index reads outside its folder
// or names another index. `where` is the index file's path, for messages. Errors: kCorrupt.
Result<ShardIndex> parse_shard_index(std::string_view text, std::string_view where);

}  // namespace weir
