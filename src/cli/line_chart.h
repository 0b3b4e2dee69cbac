// Charts of lines as SVG, readable on light and on dark pages.
#pragma once

#include <string>
#include <vector>

namespace weir::cli {

struct ChartPoint {
  double x = 0, y = 0;
  double low = 0, high = 0;  // of the spread that is drawn around y; both equal y for none
};

struct ChartLine {
  std::string label;
  std::vector<ChartPoint> points;
  bool dashed = false;  // a bound, drawn without marks
};

// The points of each line stand at `ticks`, which are as far apart as they are many: sizes are measured in
// powers more often than in steps. y begins at 0 or is logarithmic.
struct ChartPanel {
  std::string title, x_label;  // the title names the unit of y
  std::vector<double> ticks;   // ascending
  bool log_y = false;
  std::vector<ChartLine> lines;
};

// The panels side by side.
std::string line_chart(const std::vector<ChartPanel>& panels);

}  // namespace weir::cli
