#include "cli/environment.h"

#include <cctype>
#include <cstdlib>

namespace weir::cli {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string variable_of(const std::string& flag) {
  std::string name = "WEIR_";
  for (const char c : flag.substr(flag.find_first_not_of('-'))) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::string state_folder() {
  if (const std::string base = environment("XDG_STATE_HOME"); !base.empty()) return base + "/weir";
  if (const std::string home = environment("HOME"); !home.empty()) return home + "/.local/state/weir";
  return "";
}

}  // namespace weir::cli
