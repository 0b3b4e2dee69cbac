// CHECK is for programming errors only: a broken promise between two pieces of weir. It prints the place and
// aborts. Nothing that a file, a flag or a request contains may reach one.
#pragma once

namespace weir {

[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace weir

#define WEIR_CHECK(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::weir::check_failed(__FILE__, __LINE__, #condition))
