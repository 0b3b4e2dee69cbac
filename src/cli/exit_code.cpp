#include "cli/exit_code.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/terminal.h"

namespace weir::cli {
namespace {

// What helps with most errors of a kind, where the error itself says nothing better.
std::string_view usual_hint(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kTooLong:
      return "`weir --help` and `weir VERB --help` list what there is";
    case Code::kNotFound:
    case Code::kCorrupt:
      return "the file is damaged or of another kind; check its name, or make or download it again";
    case Code::kUnsupported:
      return "weir does not do this yet; docs/ says what it does";
    case Code::kDevice:
      return "`weir doctor` shows what this machine has";
    case Code::kOutOfMemory:
      return "fewer --threads, a smaller --chunk or a smaller model take less";
    case Code::kBusy:
      return "ask again later";
    case Code::kInternal:
      return "check the path, its permissions and the space on its disk, where the message names one";
    case Code::kCancelled:
      return "";
  }
  return "";
}

}  // namespace

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
  const std::string_view hint = error.hint.empty() ? usual_hint(error.code) : error.hint;
  tell(fmt::format("weir: {}\n", printable(error.message)));
  if (!hint.empty()) tell(fmt::format("  {}\n", printable(hint)));
  return exit_code(error.code);
}

int print_answer(std::string_view text) {
  if (write(stdout, text)) return kDone;
  return report({Code::kInternal, fmt::format("cannot write to stdout: {}", std::strerror(errno)), ""});
}

}  // namespace weir::cli
