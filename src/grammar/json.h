// JSON as schemas come in; the same type as weir::Json.
#pragma once

#include <nlohmann/json.hpp>

namespace weir::grammar {

using Json = nlohmann::ordered_json;  // keys in the order in which they were given

}  // namespace weir::grammar
