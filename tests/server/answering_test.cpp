#include "server/answering.h"

#include <gtest/gtest.h>

#include "server/chat_request.h"
#include "server/chat_response.h"
#include "server_testing.h"

namespace weir::server {
namespace {

const std::string kTool =
    R"("tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}])";
const std::string kCall =
    "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>";

class AnsweringTest : public testing::Test {
 protected:
  void TearDown() override { reply_->gone = nullptr; }  // of answers that are left unfinished

  Status start(const std::string& more) {
    const std::string body =
        R"({"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "none")";
    auto request = parse_chat_request(json(body + (more.empty() ? "" : ", " + more) + "}"), model_);
    EXPECT_TRUE(request.ok()) << request.error().message;
    ResponseInfo info = test_info(model_);
    info.include_usage = request->include_usage;
    auto writer = request->stream ? make_chat_stream(info, false) : make_chat_body(info);
    return Answering::start({scheduler_, metrics_, model_, Protocol::kOpenAi, "abc", {}}, *std::move(request),
                            std::move(writer), reply_);
  }

  Json body() {
    EXPECT_EQ(reply_->answers.size(), 1u);
    return reply_->answers.empty() ? Json() : json(reply_->answers[0].body);
  }

  ServedModel model_ = pocket_qwen();
  FakeScheduler scheduler_;
  Metrics metrics_;
  std::shared_ptr<FakeReply> reply_ = std::make_shared<FakeReply>();
};

TEST_F(AnsweringTest, an_answer_is_sent_when_its_job_has_finished) {
  ASSERT_TRUE(start("").ok());
  scheduler_.say(0, "Hello there", *model_.tokenizer);
  EXPECT_TRUE(reply_->answers.empty());
  scheduler_.finish(0, FinishReason::kStop);
  EXPECT_EQ(body()["choices"][0]["message"]["content"], "Hello there");
  EXPECT_EQ(reply_->answers[0].status, 200);
}

TEST_F(AnsweringTest, a_stream_writes_as_the_answer_comes) {
  ASSERT_TRUE(start(R"("stream": true)").ok());
  EXPECT_TRUE(reply_->began);
  scheduler_.say(0, "Hello", *model_.tokenizer);
  EXPECT_NE(reply_->stream.find("\"content\":\""), std::string::npos);
  EXPECT_FALSE(reply_->ended);
  scheduler_.finish(0, FinishReason::kStop);
  EXPECT_TRUE(reply_->ended);
  EXPECT_EQ(sse_values(reply_->stream).back(), "[DONE]");
}

TEST_F(AnsweringTest, choices_have_sequences_of_their_own_and_share_the_cost_of_the_prompt) {
  ASSERT_TRUE(start(R"("n": 3, "seed": 1)").ok());
  ASSERT_EQ(scheduler_.jobs.size(), 3u);
  for (const size_t i : {2u, 0u, 1u}) {
    EXPECT_EQ(scheduler_.jobs[i].request.sequence, i);
    scheduler_.say(i, std::string(1, static_cast<char>('a' + i)), *model_.tokenizer);
    GenerationStatistics statistics;
    statistics.generated_tokens = 2;
    scheduler_.finish(i, FinishReason::kStop, statistics);
  }
  EXPECT_EQ(body()["choices"][1]["message"]["content"], "b");
  EXPECT_EQ(body()["usage"]["completion_tokens"], 6);
  EXPECT_EQ(body()["usage"]["prompt_tokens"], scheduler_.jobs[0].request.prompt.size());
}

TEST_F(AnsweringTest, when_one_choice_finds_no_place_none_runs) {
  scheduler_.room = 2;
  const auto started = start(R"("n": 3, "stream": true)");
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, Code::kBusy);
  EXPECT_TRUE(scheduler_.jobs[0].job->cancelled && scheduler_.jobs[1].job->cancelled);
  scheduler_.finish(0, FinishReason::kCancelled);
  EXPECT_FALSE(reply_->began);
  EXPECT_TRUE(reply_->answers.empty());
}

TEST_F(AnsweringTest, a_client_that_leaves_cancels_its_jobs) {
  ASSERT_TRUE(start(R"("n": 2, "stream": true)").ok());
  reply_->gone();
  EXPECT_TRUE(scheduler_.jobs[0].job->cancelled && scheduler_.jobs[1].job->cancelled);
  const std::string before = reply_->stream;
  scheduler_.say(0, "late", *model_.tokenizer);
  scheduler_.finish(0, FinishReason::kCancelled);
  EXPECT_EQ(reply_->stream, before);
}

TEST_F(AnsweringTest, a_failed_step_is_an_error_of_the_server) {
  ASSERT_TRUE(start("").ok());
  scheduler_.finish(0, FinishReason::kError);
  EXPECT_EQ(reply_->answers.at(0).status, 503);
  EXPECT_EQ(body()["error"]["message"], "the GPU fell off");
}

TEST_F(AnsweringTest, a_stream_that_fails_says_so_in_an_event) {
  ASSERT_TRUE(start(R"("stream": true, "n": 2)").ok());
  scheduler_.finish(0, FinishReason::kError);
  EXPECT_TRUE(reply_->ended);
  EXPECT_EQ(sse_values(reply_->stream).back()["error"]["message"], "the GPU fell off");
  EXPECT_TRUE(scheduler_.jobs[1].job->cancelled);
}

TEST_F(AnsweringTest, pieces_that_come_before_all_jobs_are_submitted_are_not_lost) {
  scheduler_.on_submit = [&](size_t index) {
    scheduler_.say(index, "early", *model_.tokenizer);
    scheduler_.finish(index, FinishReason::kStop);
  };
  ASSERT_TRUE(start(R"("stream": true)").ok());
  std::string content;
  for (const Json& value : sse_values(reply_->stream)) {
    if (value.is_object()) content += value["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(content, "early");
  EXPECT_TRUE(reply_->ended);
}

TEST_F(AnsweringTest, a_job_that_fails_at_once_gets_its_status_also_for_a_stream) {
  scheduler_.on_submit = [&](size_t index) { scheduler_.finish(index, FinishReason::kError); };
  ASSERT_TRUE(start(R"("stream": true)").ok());
  EXPECT_FALSE(reply_->began);
  EXPECT_EQ(reply_->answers.at(0).status, 503);
}

TEST_F(AnsweringTest, without_parallel_calls_the_answer_ends_behind_the_first_one) {
  ASSERT_TRUE(start(kTool + R"(, "parallel_tool_calls": false)").ok());
  scheduler_.say(0, kCall + "\n" + kCall, *model_.tokenizer);
  EXPECT_TRUE(scheduler_.jobs[0].job->cancelled);
  scheduler_.finish(0, FinishReason::kCancelled);
  EXPECT_EQ(body()["choices"][0]["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(body()["choices"][0]["finish_reason"], "tool_calls");
}

TEST_F(AnsweringTest, calls_are_calls_where_tools_were_offered_and_text_elsewhere) {
  ASSERT_TRUE(start(kTool).ok());
  scheduler_.say(0, kCall, *model_.tokenizer);
  scheduler_.finish(0, FinishReason::kStop);
  EXPECT_EQ(body()["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "add");

  reply_ = std::make_shared<FakeReply>();
  ASSERT_TRUE(start("").ok());
  scheduler_.say(1, kCall, *model_.tokenizer);
  scheduler_.finish(1, FinishReason::kStop);
  const Json message = body()["choices"][0]["message"];
  EXPECT_FALSE(message.contains("tool_calls"));
  EXPECT_NE(message["content"].get<std::string>().find("<function=add>"), std::string::npos);
}

TEST_F(AnsweringTest, a_call_that_is_cut_off_is_shown_as_text) {
  ASSERT_TRUE(start(kTool).ok());
  scheduler_.say(0, "<tool_call>\n<function=add>\n<parameter=a>\n1", *model_.tokenizer);
  scheduler_.finish(0, FinishReason::kLength);
  const Json choice = body()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_NE(choice["message"]["content"].get<std::string>().find("<function=add>"), std::string::npos);
}

TEST_F(AnsweringTest, the_metrics_count_what_happened) {
  ASSERT_TRUE(start("").ok());
  scheduler_.say(0, "Hello there", *model_.tokenizer);
  GenerationStatistics statistics;
  statistics.reused_tokens = 3;
  statistics.canvases = 2;
  statistics.denoising_passes = 24;
  scheduler_.finish(0, FinishReason::kStop, statistics);
  const std::string text = metrics_.text({.waiting = 4, .running = 2});
  for (const char* line : {"weir_time_to_first_token_seconds_count 1", "weir_prefix_cache_hits_total 3",
                           "weir_num_requests_waiting 4", "weir_num_requests_running 2",
                           "weir_denoising_passes_per_canvas_sum 12",
                           "weir_request_success_total{finished_reason=\"stop\"} 1"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

}  // namespace
}  // namespace weir::server
