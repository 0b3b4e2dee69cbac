#include "cli/exit_code.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/terminal.h"

namespace weir::cli {

int exit_code(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kTooLong:
      return kUsage;
    case Code::kNotFound:
    case Code::kCorrupt:
    case Code::kUnsupported:
      return kModelOrFile;
    case Code::kDevice:
      return kDevice;
    case Code::kCancelled:
      return kInterrupted;
    case Code::kOutOfMemory:
    case Code::kBusy:
    case Code::kInternal:
      return kFailed;
  }
  return kFailed;
}

int report(const Error& error) {
  tell(fmt::format("weir: {}\n", error.message));
  if (!error.hint.empty()) tell(fmt::format("  {}\n", error.hint));
  return exit_code(error.code);
}

int print_answer(std::string_view text) {
  if (write(stdout, text)) return kDone;
  return report({Code::kInternal, fmt::format("cannot write to stdout: {}", std::strerror(errno)), ""});
}

}  // namespace weir::cli
