// The small part of a tokenizer.json, as a flat list: everything but the vocabulary, merges and added tokens.
#pragma once

#include <simdjson.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace weir::text {

// {"decoder": {"decoders": [{"type": "Fuse"}]}} is the one setting decoder.decoders.0.type = "Fuse".
struct Setting {
  std::string path;
  std::string value;  // a JSON scalar, strings unescaped and in quotes; [] or {} where empty
};

// Of post_processor only the type is read. Messages name the fault only; the caller knows the file.
// Errors: kCorrupt for what is not JSON, repeated keys, absurd nesting and absurd numbers of settings.
Result<std::vector<Setting>> read_settings(simdjson::ondemand::document& document);

}  // namespace weir::text
