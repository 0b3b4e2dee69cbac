// The other half of a protocol: from what happens to an answer to bytes for the client.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chat/output_event.h"
#include "generate/canvas_frame.h"
#include "generate/generation.h"
#include "generate/sampler.h"
#include "server/served_model.h"

namespace weir::server {

// What identifies a response.
struct ResponseInfo {
  std::string id;       // letters and digits; protocols put their prefix before it
  int64_t created = 0;  // seconds since 1970
  const ServedModel* model = nullptr;
  bool include_usage = false;  // of a stream
  int64_t prompt_tokens = 0;   // of all prompts
};

struct AnswerDelta {
  std::vector<OutputEvent> events;
  std::vector<Logprobs>
      logprobs;  // of tokens, thinking included; before the text that they complete or with it
};

struct ChoiceEnd {
  FinishReason finish = FinishReason::kStop;
  bool called = false;      // it holds a well-formed tool call
  std::string stop_string;  // with FinishReason::kStopString
};

struct Usage {
  int64_t prompt = 0;
  int64_t cached = 0;  // of the prompt
  int64_t completion = 0;
  int64_t reasoning = 0;  // of the completion
};

// Writes one response. A stream's functions return events to be sent at once; those of a body return nothing
// until end(), which returns all of it. Choices are numbered from 0 and come interleaved.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  virtual std::string begin() { return {}; }
  virtual std::string delta(int64_t choice, const AnswerDelta& delta) = 0;
  virtual std::string frame(int64_t, const CanvasFrame&) { return {}; }
  virtual std::string finish(int64_t choice, const ChoiceEnd& end) = 0;
  virtual std::string end(const Usage& usage) = 0;
  // Of a stream: the answer failed.
  virtual std::string fail(const Error& error) = 0;
};

std::string json_bytes(const Json& value);  // compact; never fails
std::string sse_data(const Json& value);    // "data: ..." and an empty line
std::string sse_event(const std::string& name, const Json& value);
std::string sse_comment(const std::string& text);

}  // namespace weir::server
