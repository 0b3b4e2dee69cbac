#include "cli/speed.h"

#include <fmt/core.h>

#include "cli/quantity.h"

namespace weir::cli {
namespace {

double ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

}  // namespace

Speed speed_of(const GenerationStatistics& s, const Bandwidth& machine) {
  const auto decoded = static_cast<double>(s.generated_tokens > 0 ? s.generated_tokens - 1 : 0);
  const auto bytes = static_cast<double>(s.bytes_moved);
  Speed speed;
  speed.prefill_tokens_per_second =
      ratio(static_cast<double>(s.prompt_tokens - s.reused_tokens), s.prefill_seconds);
  speed.decode_tokens_per_second = ratio(decoded, s.decode_seconds);
  speed.first_token_ms = s.first_token_seconds * 1e3;
  speed.bytes_per_token = ratio(bytes, decoded);
  speed.gigabytes_per_second = ratio(bytes, s.decode_seconds) / 1e9;
  speed.measured_gigabytes_per_second = machine.gigabytes_per_second;
  speed.share = ratio(speed.gigabytes_per_second, machine.gigabytes_per_second);
  return speed;
}

std::string speed_text(const Speed& speed, const GenerationStatistics& s) {
  std::string reused = s.reused_tokens > 0 ? fmt::format(", {} of them reused", s.reused_tokens) : "";
  std::string text = fmt::format(
      "prompt {} tokens{}, {:.1f} tokens/s; first token after {:.0f} ms\n"
      "answer {} tokens, {:.1f} tokens/s; {} per token, {:.2f} GB/s",
      s.prompt_tokens, reused, speed.prefill_tokens_per_second, speed.first_token_ms, s.generated_tokens,
      speed.decode_tokens_per_second, size_text(static_cast<uint64_t>(speed.bytes_per_token)),
      speed.gigabytes_per_second);
  if (speed.measured_gigabytes_per_second > 0) {
    text += fmt::format(", {:.1f} % of the {:.1f} GB/s that this machine reads", speed.share * 100,
                        speed.measured_gigabytes_per_second);
  }
  text += "\n";
  if (s.canvases == 0) return text;
  return text +
         fmt::format("{} canvases, {:.1f} passes each; {:.1f} rows forwarded per token\n", s.canvases,
                     ratio(static_cast<double>(s.denoising_passes), static_cast<double>(s.canvases)),
                     ratio(static_cast<double>(s.canvas_rows), static_cast<double>(s.generated_tokens)));
}

Report speed_json(const Speed& speed) {
  Report out{{"prefill_tokens_per_second", speed.prefill_tokens_per_second},
             {"decode_tokens_per_second", speed.decode_tokens_per_second},
             {"first_token_ms", speed.first_token_ms},
             {"bytes_per_token", speed.bytes_per_token},
             {"gigabytes_per_second", speed.gigabytes_per_second}};
  if (speed.measured_gigabytes_per_second > 0) {
    out["measured_gigabytes_per_second"] = speed.measured_gigabytes_per_second;
    out["share_of_measured"] = speed.share;
  }
  return out;
}

}  // namespace weir::cli
