#include "cli/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace weir::cli {
namespace {

// Of a panel, in user units.
constexpr double kWidth = 460, kHeight = 330;
constexpr double kLeft = 50, kRight = 28, kTop = 36, kBottom = 44;
constexpr double kLegendStep = 16;

// Colours with a contrast of at least 3 on white and on near-black.
constexpr const char* kStyle =
    "<style>\n"
    "svg { color-scheme: light dark; background: #ffffff; }\n"
    "text { font: 12px system-ui, sans-serif; fill: #333333; }\n"
    ".title { font-size: 13px; font-weight: 600; }\n"
    ".axis { stroke: #666666; } .grid { stroke: #dddddd; }\n"
    ".line { fill: none; stroke-width: 2; } .bound { stroke-dasharray: 5 4; stroke-width: 1.5; }\n"
    ".c0 { stroke: #1b6ac9; fill: #1b6ac9; } .c1 { stroke: #b8500a; fill: #b8500a; }\n"
    ".c2 { stroke: #2b7d4f; fill: #2b7d4f; } .c3 { stroke: #8a4fb0; fill: #8a4fb0; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "svg { background: #16181c; } text { fill: #d6d6d6; }\n"
    ".axis { stroke: #9a9a9a; } .grid { stroke: #34373d; }\n"
    ".c0 { stroke: #6aa9f7; fill: #6aa9f7; } .c1 { stroke: #f09a55; fill: #f09a55; }\n"
    ".c2 { stroke: #63c391; fill: #63c391; } .c3 { stroke: #c69ae6; fill: #c69ae6; }\n"
    "}\n"
    "</style>\n";
constexpr size_t kColours = 4;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

// A step of 1, 2 or 5 times a power of ten that divides [0, most] into at most six.
double tick_step(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 6)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (most / (factor * power) <= 6) return factor * power;
  }
  return 10 * power;
}

class Panel {
 public:
  Panel(const ChartPanel& panel, double left) : panel_(panel), left_(left) {
    for (const ChartLine& line : panel.lines) {
      for (const ChartPoint& p : line.points) {
        least_y_ = std::min(least_y_, p.low);
        most_y_ = std::max(most_y_, p.high);
      }
    }
    if (panel.log_y) {
      least_y_ = std::pow(10, std::floor(std::log10(least_y_)));
      most_y_ = std::pow(10, std::ceil(std::log10(most_y_)));
    } else {
      least_y_ = 0;
      most_y_ *= 1.05;
    }
  }

  std::string svg() {
    add_grid();
    for (size_t i = 0; i < panel_.lines.size(); ++i) add_line(panel_.lines[i], i % kColours);
    add_legend();
    add_text(left_ + kLeft, kTop - 16, "title", "start", panel_.title);
    add_text(left_ + (kLeft + kWidth - kRight) / 2, kHeight - 8, "", "middle", panel_.x_label);
    return std::move(out_);
  }

 private:
  double x(double value) const {
    const auto last = static_cast<double>(std::max<size_t>(panel_.ticks.size(), 2) - 1);
    const auto at = std::lower_bound(panel_.ticks.begin(), panel_.ticks.end(), value) - panel_.ticks.begin();
    return left_ + kLeft + static_cast<double>(at) / last * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    const double share = panel_.log_y ? std::log(value / least_y_) / std::log(most_y_ / least_y_)
                                      : (value - least_y_) / (most_y_ - least_y_);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }

  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
  }
  void add_text(double px, double py, const char* kind, const char* anchor, const std::string& text) {
    add("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n", px, py, kind, anchor,
        escaped(text));
  }
  void add_rule(const std::string& kind, double x1, double y1, double x2, double y2) {
    add("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1, y1, x2,
        y2);
  }

  std::vector<double> y_ticks() const {
    std::vector<double> ticks;
    if (panel_.log_y) {
      for (double tick = least_y_; tick <= most_y_ * 1.001; tick *= 10) ticks.push_back(tick);
    } else {
      const double step = tick_step(most_y_);
      for (double tick = 0; tick <= most_y_; tick += step) ticks.push_back(tick);
    }
    return ticks;
  }

  void add_grid() {
    const double left = left_ + kLeft, right = left_ + kWidth - kRight, bottom = kHeight - kBottom;
    for (const double tick : y_ticks()) {
      add_rule("grid", left, y(tick), right, y(tick));
      add_text(left - 6, y(tick) + 4, "", "end", fmt::format("{:g}", tick));
    }
    for (const double tick : panel_.ticks) {
      add_rule("axis", x(tick), bottom, x(tick), bottom + 4);
      add_text(x(tick), bottom + 18, "", "middle", fmt::format("{:.0f}", tick));
    }
    add_rule("axis", left, bottom, right, bottom);
  }

  static std::string class_of(const ChartLine& line, size_t colour) {
    return fmt::format("line{} c{}", line.dashed ? " bound" : "", colour);
  }

  void add_line(const ChartLine& line, size_t colour) {
    add("<polyline class=\"{}\" style=\"fill:none\" points=\"", class_of(line, colour));
    for (const ChartPoint& p : line.points) add("{:.1f},{:.1f} ", x(p.x), y(p.y));
    add("\"/>\n");
    if (line.dashed) return;
    for (const ChartPoint& p : line.points) {
      if (p.high > p.low) {
        add_rule(fmt::format("c{}", colour), x(p.x), y(p.low), x(p.x), y(p.high));
      }
      add("<circle class=\"c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", colour, x(p.x), y(p.y));
    }
  }

  // Above the axis, on the side where the first line ends or begins high.
  void add_legend() {
    const bool falls = y(panel_.lines.front().points.back().y) > (kTop + kHeight - kBottom) / 2;
    const double mark = falls ? left_ + kLeft + 8 : left_ + kWidth - kRight - 28;
    double row = kHeight - kBottom - 12 - kLegendStep * static_cast<double>(panel_.lines.size() - 1);
    for (size_t i = 0; i < panel_.lines.size(); ++i, row += kLegendStep) {
      add_rule(class_of(panel_.lines[i], i % kColours), mark, row - 4, mark + 20, row - 4);
      add_text(falls ? mark + 26 : mark - 6, row, "", falls ? "start" : "end", panel_.lines[i].label);
    }
  }

  const ChartPanel& panel_;
  double left_;
  double least_y_ = HUGE_VAL, most_y_ = -HUGE_VAL;
  std::string out_;
};

}  // namespace

std::string line_chart(const std::vector<ChartPanel>& panels) {
  const double width = kWidth * static_cast<double>(panels.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n{2}",
      width, kHeight, kStyle);
  for (size_t i = 0; i < panels.size(); ++i) out += Panel(panels[i], kWidth * static_cast<double>(i)).svg();
  return out + "</svg>\n";
}

}  // namespace weir::cli
