#include "server/canvas_json.h"

#include <cmath>

#include "server/openai_json.h"

namespace weir::server {

Json canvas_json(const CanvasFrame& frame, const Tokenizer& tokenizer) {
  Json tokens = Json::array(), confidence = Json::array(), accepted = Json::array();
  for (const int32_t token : frame.best) tokens.push_back(token_text(token, tokenizer));
  for (const float p : frame.confidence) {
    confidence.push_back(std::round(static_cast<double>(p) * 1000) / 1000);
  }
  for (const uint8_t kept : frame.accepted) accepted.push_back(kept != 0);
  return {{"canvas", frame.canvas},
          {"step", frame.step},
          {"last", frame.last},
          {"tokens", std::move(tokens)},
          {"confidence", std::move(confidence)},
          {"accepted", std::move(accepted)},
          {"answer_length", frame.answer_length},
          {"rows", frame.rows},
          {"seconds", frame.seconds}};
}

}  // namespace weir::server
