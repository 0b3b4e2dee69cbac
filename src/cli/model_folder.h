// From --model to the folder of the model.
#pragma once

#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace weir::cli {

// Looks for pocket models beside the installed program and in the source tree, and for repositories in the
// Hugging Face cache that the environment names.
Result<std::string> model_folder(const std::string& model);

// The checkpoint of such a folder, or a synthetic one ("synthetic:qwen3.6-35b-a3b,layers=2").
Result<Checkpoint> open_checkpoint(const std::string& model);

// Holds the pocket models: <prefix>/share/weir/models for a program in <prefix>/bin, else in the source tree
// that it was built from.
std::string pocket_folder();

std::string hub_cache();  // Hugging Face's; empty when the environment names none

}  // namespace weir::cli
