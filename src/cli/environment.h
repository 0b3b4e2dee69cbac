// The environment of the process; the command line is the only part of weir that reads it.
#pragma once

#include <string>

namespace weir::cli {

std::string environment(const char* name);  // empty when unset

// The name of the variable that stands for a flag: "--top-k" is WEIR_TOP_K.
std::string variable_of(const std::string& flag);

// $XDG_STATE_HOME/weir, or ~/.local/state/weir; empty without a home.
std::string state_folder();

}  // namespace weir::cli
