#include "checkpoint/shard_index.h"

#include <simdjson.h>

#include <algorithm>

#include "checkpoint/quote.h"

namespace weir {
namespace {

namespace json = simdjson::dom;

Error corrupt(std::string_view where, const std::string& what) {
  return Error{Code::kCorrupt, std::string(where) + ": " + what,
               "the index is damaged; download or convert the model again"};
}

bool is_plain_shard_name(std::string_view shard) {
  const auto is_odd = [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20; };
  return shard.ends_with(".safetensors") && !shard.starts_with('.') &&
         std::none_of(shard.begin(), shard.end(), is_odd);
}

}  // namespace

std::set<std::string> ShardIndex::shards() const {
  std::set<std::string> names;
  for (const auto& [tensor, shard] : shard_of) names.insert(shard);
  return names;
}

Result<ShardIndex> parse_shard_index(std::string_view text, std::string_view where) {
  json::parser parser;
  json::object root;
  json::object weight_map;
  if (parser.parse(text.data(), text.size()).get(root)) return corrupt(where, "not a JSON object");
  if (root["weight_map"].get(weight_map)) return corrupt(where, "has no object 'weight_map'");

  ShardIndex index;
  for (const auto [tensor, value] : weight_map) {
    std::string_view shard;
    if (value.get(shard)) return corrupt(where, "the shard of tensor " + quote(tensor) + " is not a string");
    if (!is_plain_shard_name(shard)) {
      return corrupt(where, "tensor " + quote(tensor) + " is in " + quote(shard) +
                                ", which is not the plain name of a .safetensors file");
    }
    if (!index.shard_of.emplace(tensor, shard).second) {
      return corrupt(where, "tensor " + quote(tensor) + " is listed twice");
    }
  }
  if (index.shard_of.empty()) return corrupt(where, "'weight_map' is empty");
  return index;
}

}  // namespace weir
