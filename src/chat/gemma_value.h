// JSON values in the syntax of Gemma 4: {key:<|"|>text<|"|>,other:[1,true,null]}.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "chat/json_text.h"
#include "chat/prompt.h"

namespace weir::gemma {

enum class Keys { kBare, kQuoted };

// The members of an object in the order in which the layout writes them: by key, ignoring the case of ASCII
// letters. The references live as long as `object`.
std::vector<std::pair<std::string_view, const Json*>> sorted_members(const Json& object);

void add_quoted(std::string_view text, PromptBuilder& out);

void add_value(const Json& value, Keys keys, PromptBuilder& out);

// The members of an object with bare keys, without the braces: "key:value,key:value".
void add_members(const Json& object, PromptBuilder& out);

}  // namespace weir::gemma
