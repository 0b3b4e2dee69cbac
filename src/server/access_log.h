// One line on stderr for each request.
#pragma once

#include <memory>

#include "server/http.h"

namespace spdlog {
class logger;
}

namespace weir::server {

class AccessLog {
 public:
  explicit AccessLog(bool enabled);
  void record(const AccessRecord& record);

 private:
  std::shared_ptr<spdlog::logger> logger_;  // null when there is no log
};

}  // namespace weir::server
