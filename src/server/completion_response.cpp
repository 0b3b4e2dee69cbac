#include "server/completion_response.h"

#include <map>
#include <string>
#include <utility>
#include <variant>

#include "server/openai_json.h"

namespace weir::server {
namespace {

std::string text_of(const AnswerDelta& delta) {
  std::string text;
  for (const OutputEvent& event : delta.events) {
    if (const auto* content = std::get_if<ContentDelta>(&event)) text += content->text;
  }
  return text;
}

// The legacy shape: one array for each property. `offset` is where the next token stands in the text, in
// characters, and moves on.
Json logprobs_json(const std::vector<Logprobs>& all, const Tokenizer& tokenizer, int64_t& offset) {
  Json tokens = Json::array(), values = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const Logprobs& logprobs : all) {
    const Json entry = openai_logprob(logprobs, tokenizer);
    tokens.push_back(entry["token"]);
    values.push_back(entry["logprob"]);
    Json top = Json::object();
    for (const Json& other : entry["top_logprobs"]) {
      top[other["token"].get_ref<const std::string&>()] = other["logprob"];
    }
    tops.push_back(std::move(top));
    offsets.push_back(offset);
    for (const char c : entry["token"].get_ref<const std::string&>()) {
      offset += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;  // not a continuation byte
    }
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

Json head_json(const ResponseInfo& info) {
  return {{"id", "cmpl-" + info.id},
          {"object", "text_completion"},
          {"created", info.created},
          {"model", info.model->id},
          {"system_fingerprint", system_fingerprint()}};
}

class CompletionBody : public ResponseWriter {
 public:
  explicit CompletionBody(ResponseInfo info) : info_(std::move(info)) {}

  std::string delta(int64_t choice, const AnswerDelta& delta) override {
    texts_[choice] += text_of(delta);
    auto& logprobs = logprobs_[choice];
    logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    return {};
  }

  std::string finish(int64_t choice, const ChoiceEnd& end) override {
    reasons_[choice] = openai_finish_reason(end);
    return {};
  }

  std::string end(const Usage& usage) override {
    Json choices = Json::array();
    for (const auto& [choice, reason] : reasons_) {
      int64_t offset = 0;
      const auto& logprobs = logprobs_[choice];
      choices.push_back(
          {{"index", choice},
           {"text", texts_[choice]},
           {"logprobs", logprobs.empty() ? Json() : logprobs_json(logprobs, *info_.model->tokenizer, offset)},
           {"finish_reason", reason}});
    }
    Json body = head_json(info_);
    body["choices"] = std::move(choices);
    body["usage"] = openai_usage(usage);
    return json_bytes(body);
  }

  std::string fail(const Error&) override { return {}; }

 private:
  ResponseInfo info_;
  std::map<int64_t, std::string> texts_, reasons_;
  std::map<int64_t, std::vector<Logprobs>> logprobs_;
};

class CompletionStream : public ResponseWriter {
 public:
  explicit CompletionStream(ResponseInfo info) : info_(std::move(info)) {}

  std::string delta(int64_t choice, const AnswerDelta& delta) override {
    Json logprobs;
    if (!delta.logprobs.empty()) {
      logprobs = logprobs_json(delta.logprobs, *info_.model->tokenizer, offsets_[choice]);
    }
    return chunk(choice, text_of(delta), std::move(logprobs), nullptr);
  }

  std::string finish(int64_t choice, const ChoiceEnd& end) override {
    return chunk(choice, "", nullptr, openai_finish_reason(end));
  }

  std::string end(const Usage& usage) override { return openai_stream_end(head_json(info_), info_, usage); }

  std::string fail(const Error& error) override { return openai_stream_failure(error); }

 private:
  std::string chunk(int64_t choice, std::string text, Json logprobs, Json reason) const {
    Json out = head_json(info_);
    out["choices"] = Json::array({{{"index", choice},
                                   {"text", std::move(text)},
                                   {"logprobs", std::move(logprobs)},
                                   {"finish_reason", std::move(reason)}}});
    if (info_.include_usage) out["usage"] = nullptr;
    return sse_data(out);
  }

  ResponseInfo info_;
  std::map<int64_t, int64_t> offsets_;
};

}  // namespace

std::unique_ptr<ResponseWriter> make_completion_body(ResponseInfo info) {
  return std::make_unique<CompletionBody>(std::move(info));
}

std::unique_ptr<ResponseWriter> make_completion_stream(ResponseInfo info) {
  return std::make_unique<CompletionStream>(std::move(info));
}

}  // namespace weir::server
