#include "cli/progress_bar.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cli/quantity.h"
#include "cli/terminal.h"

namespace weir::cli {
namespace {

// Work shorter than this shows no bar, and a bar is redrawn no more often.
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr int kBarWidth = 24;
constexpr const char* kEraseLine = "\r\x1b[K";

}  // namespace

std::string progress_line(const std::string& label, uint64_t done, uint64_t total, double seconds,
                          int columns) {
  const double share = total == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const double left = rate > 0 ? static_cast<double>(total - std::min(done, total)) / rate : 0;
  const auto filled = static_cast<size_t>(share * kBarWidth);
  std::string line = fmt::format("{} [{:<{}}] {:3.0f}%  {} of {}  {}/s  {}", label, std::string(filled, '#'),
                                 kBarWidth, share * 100, size_text(done), size_text(total),
                                 size_text(static_cast<uint64_t>(rate)), duration_text(left));
  return line.substr(0, static_cast<size_t>(std::max(columns, 1)));
}

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), enabled_(is_terminal(stderr)) {}

ProgressBar::~ProgressBar() {
  if (shown_) tell(fmt::format("{}", kEraseLine));
}

void ProgressBar::update(uint64_t done, uint64_t total) {
  const Clock::time_point now = Clock::now();
  if (!enabled_ || now - drawn_ < kInterval) return;
  drawn_ = now;
  shown_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  tell(fmt::format("{}{}", kEraseLine,
                   progress_line(label_, done, total, seconds, terminal_size().columns - 1)));
}

}  // namespace weir::cli
