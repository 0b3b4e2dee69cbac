#include "cli/json_report.h"

#include <cstdio>

#include "cli/exit_code.h"
#include "cli/terminal.h"

namespace weir::cli {

int print_json(const Report& report, bool spread) {
  return print_answer(report.dump(spread ? 2 : -1, ' ', false, Report::error_handler_t::replace) + "\n");
}

}  // namespace weir::cli
