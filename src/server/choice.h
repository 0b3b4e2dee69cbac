// One answer of a request while it is being written: from pieces of text to the events of the protocols.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "chat/output_parser.h"
#include "generate/generation.h"
#include "server/answer_request.h"
#include "server/response_writer.h"
#include "sessions/scheduler.h"

namespace weir::server {

// The rules that every protocol shares: a call is a call only where tools were offered, and otherwise the
// text that the model wrote; so is a malformed call, whose beginning a stream may have shown.
class Choice {
 public:
  Choice(const AnswerRequest& request, const ServedModel& model);

  AnswerDelta piece(const Piece& piece);

  // The rest. Afterwards end() is known.
  AnswerDelta finish(const JobResult& result);

  // The one call that was allowed has ended, and so has the answer; what follows is left out.
  bool complete() const { return one_call_ && called_; }

  int64_t reasoning_tokens() const { return reasoning_tokens_; }
  const ChoiceEnd& end() const { return end_; }

 private:
  void add(std::vector<OutputEvent>&& events, AnswerDelta& delta);
  void add_call_end(ToolCallFinished&& call, AnswerDelta& delta);
  std::string matched_stop(const JobResult& result) const;

  std::unique_ptr<OutputParser> parser_;  // null where the output is plain text
  const Tokenizer* tokenizer_;
  std::vector<std::string> stop_strings_;
  bool tools_offered_ = false;
  bool one_call_ = false;
  bool called_ = false;
  bool thinking_ = false;
  int64_t reasoning_tokens_ = 0;
  ChoiceEnd end_;
};

}  // namespace weir::server
