// A tool as Gemma 4's system turn declares it.
#pragma once

#include "chat/message.h"
#include "chat/prompt.h"

namespace weir::gemma {

// declaration:NAME{description:...,parameters:{...},response:{...}}
//
// The layout keeps descriptions, types, enums of strings, items of arrays, members of objects, what is
// required, and nullable; all else in a schema is left out, and so is what is not of the type that JSON
// schema gives it. As in the model's own template, the brace that closes the parameters comes with their type
// only.
void add_declaration(const Tool& tool, PromptBuilder& out);

}  // namespace weir::gemma
