#include "server/access_log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace weir::server {
namespace {

// Targets come from outside; a line stays a line.
std::string printable(std::string text) {
  constexpr size_t kLongest = 200;
  if (text.size() > kLongest) text.resize(kLongest);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c <= ' ' || c >= 127; }, '?');
  return text.empty() ? "-" : text;
}

}  // namespace

AccessLog::AccessLog(bool enabled) {
  if (!enabled) return;
  logger_ = std::make_shared<spdlog::logger>("access", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger_->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %v");
}

void AccessLog::record(const AccessRecord& record) {
  if (!logger_) return;
  logger_->info("{} {} {} {} {} {} B {:.3f} s{}", record.id, record.client, printable(record.method),
                printable(record.target), record.status, record.bytes, record.seconds,
                record.gone ? " client gone" : "");
}

}  // namespace weir::server
