// From the text of an argument to its value, by the JSON schema of the tool.
#pragma once

#include <string_view>
#include <vector>

#include "chat/message.h"

namespace weir {

// JSON types that a parameter's schema admits; none when the schema does not say.
struct ArgumentTypes {
  bool text = false;
  bool null = false;
  bool integer = false;
  bool number = false;
  bool boolean = false;
  bool structured = false;  // an object or an array

  bool known() const { return text || null || integer || number || boolean || structured; }
};

// Reads type (one or a list) and, without one, what other keywords imply; enum, const, anyOf, oneOf, allOf,
// $ref and nullable. Nothing is admitted by a schema that is missing, says nothing or is malformed.
ArgumentTypes argument_types(const std::vector<Tool>& tools, std::string_view tool,
                             std::string_view parameter);

// Whether a value of its type is admitted; an integer is where numbers are.
bool admits(const ArgumentTypes& types, const Json& value);

// The value of an argument that a model wrote as `text` (valid UTF-8):
// - where text is admitted, the text itself, except that "null" is null where null is admitted too;
// - otherwise null for "null", the JSON value if its type is admitted, true or false where booleans are
// admitted
//   ("true" in any case is true, all else false), and the text itself when none of these fits.
Json convert_argument(std::string_view text, const ArgumentTypes& types);

}  // namespace weir
