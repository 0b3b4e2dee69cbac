// What the tests of the server folder share: the pocket model's tokenizer without the model, a scheduler that
// does what the test says, and a reply that remembers.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/answer_request.h"
#include "server/http.h"
#include "server/response_writer.h"
#include "server/served_model.h"
#include "sessions/scheduler.h"

namespace weir::server {

inline const Tokenizer& pocket_tokenizer(const std::string& name) {
  static auto qwen = Tokenizer::load("models/pocket-qwen/tokenizer.json");
  static auto gemma = Tokenizer::load("models/pocket-gemma/tokenizer.json");
  auto& loaded = name == "pocket-gemma" ? gemma : qwen;
  EXPECT_TRUE(loaded.ok());
  return *loaded;
}

inline ServedModel pocket_qwen() {
  ServedModel model;
  model.id = "pocket-qwen";
  model.aliases = {"gpt-4"};
  model.tokenizer = &pocket_tokenizer(model.id);
  model.vocabulary = std::make_shared<grammar::TokenTrie>(*model.tokenizer);
  model.defaults.sampling.temperature = 0.5f;
  model.defaults.sampling.top_k = 20;
  model.defaults.end_tokens = {1355, 1357};
  model.context = 32768;
  return model;
}

inline ServedModel pocket_gemma() {
  ServedModel model;
  model.id = "pocket-gemma";
  model.layout = ChatLayout::kGemma;
  model.tokenizer = &pocket_tokenizer(model.id);
  model.is_diffusion = true;
  model.defaults.end_tokens = {1};
  model.context = 32768;
  return model;
}

inline Json json(const std::string& text) {
  auto parsed = parse_json(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : Json();
}

// The prompt as the model sees it.
inline std::string prompt_text(const AnswerRequest& request, const ServedModel& model, size_t index = 0) {
  return model.tokenizer->decode(request.prompts.at(index), SpecialTokens::kKeep);
}

class FakeJob : public Job {
 public:
  void cancel() override { cancelled = true; }
  bool cancelled = false;
};

// Keeps what is submitted; the test plays the scheduler's thread.
class FakeScheduler : public Scheduler {
 public:
  struct Submitted {
    GenerationRequest request;
    JobCallbacks callbacks;
    std::shared_ptr<FakeJob> job;
  };

  Result<std::shared_ptr<Job>> submit(GenerationRequest request, JobCallbacks callbacks) override {
    if (static_cast<int64_t>(jobs.size()) >= room) return Error{Code::kBusy, "the queue is full", ""};
    jobs.push_back({std::move(request), std::move(callbacks), std::make_shared<FakeJob>()});
    if (on_submit) on_submit(jobs.size() - 1);
    return std::shared_ptr<Job>(jobs.back().job);
  }
  SchedulerStatus status() const override { return {}; }
  void drain(double) override {}

  void say(size_t index, const std::string& text, const Tokenizer& tokenizer) {
    const auto tokens = tokenizer.encode(text, AddedTokens::kRecognise);
    ASSERT_TRUE(tokens.ok());
    for (const int32_t token : *tokens) {
      const std::string bytes(tokenizer.token_bytes(token));
      jobs[index].callbacks.piece({token, bytes, nullptr});
      ++generated_;
    }
  }

  void finish(size_t index, FinishReason reason, GenerationStatistics statistics = {}) {
    statistics.prompt_tokens = static_cast<int64_t>(jobs[index].request.prompt.size());
    if (statistics.generated_tokens == 0) statistics.generated_tokens = generated_;
    JobResult result;
    result.finish = reason;
    result.statistics = statistics;
    if (reason == FinishReason::kError) result.error = Error{Code::kDevice, "the GPU fell off", ""};
    jobs[index].callbacks.finished(result);
  }

  int64_t room = 100;
  std::vector<Submitted> jobs;
  std::function<void(size_t)> on_submit;

 private:
  int64_t generated_ = 0;
};

// As a connection does, it lets go of who waits for the client to leave once the response is over.
class FakeReply : public Reply {
 public:
  void send(HttpAnswer answer) override {
    answers.push_back(std::move(answer));
    gone = nullptr;
  }
  void begin_stream(Headers headers) override {
    began = true;
    stream_headers = std::move(headers);
  }
  void write(std::string bytes) override {
    EXPECT_TRUE(began);
    EXPECT_FALSE(ended);
    stream += bytes;
  }
  void end() override {
    ended = true;
    gone = nullptr;
  }
  void on_gone(std::function<void()> callback) override {
    if (!ended && answers.empty()) gone = std::move(callback);
  }

  std::vector<HttpAnswer> answers;
  Headers stream_headers;
  std::string stream;
  bool began = false, ended = false;
  std::function<void()> gone;
};

// The JSON values of a stream's data lines; "[DONE]" as a string.
inline std::vector<Json> sse_values(const std::string& stream) {
  std::vector<Json> values;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find('\n', at);
    const std::string line = stream.substr(at, end - at);
    at = end == std::string::npos ? stream.size() : end + 1;
    if (!line.starts_with("data: ")) continue;
    const std::string data = line.substr(6);
    values.push_back(data == "[DONE]" ? Json(data) : json(data));
  }
  return values;
}

inline ResponseInfo test_info(const ServedModel& model) {
  ResponseInfo info;
  info.id = "abc";
  info.created = 1700000000;
  info.model = &model;
  return info;
}

}  // namespace weir::server
