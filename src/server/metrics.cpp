#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace weir::server {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

const Buckets& wait_buckets() {
  static const Buckets seconds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                  0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80,   160};
  return seconds;
}

const Buckets& token_buckets() {
  static const Buckets seconds = {0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025,
                                  0.05,  0.075,  0.1,   0.15,   0.2,  0.3,   0.5,  1};
  return seconds;
}

const Buckets& pass_buckets() {
  static const Buckets passes = {2, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96};
  return passes;
}

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;

  Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
  }
  Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
  }
  Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
  }

  Histogram& first_token =
      histogram("weir_time_to_first_token_seconds", "From request to first token", wait_buckets());
  Histogram& next_token =
      histogram("weir_inter_token_latency_seconds", "Between two tokens of an answer", token_buckets());
  Histogram& queued =
      histogram("weir_request_queue_time_seconds", "Spent waiting for a turn", wait_buckets());
  Histogram& whole =
      histogram("weir_e2e_request_latency_seconds", "From request to the end of its answer", wait_buckets());
  Histogram& passes =
      histogram("weir_denoising_passes_per_canvas", "Mean over the canvases of an answer", pass_buckets());
  Counter& prompt_tokens = counter("weir_prompt_tokens_total", "Tokens of prompts");
  Counter& cached_tokens =
      counter("weir_prefix_cache_hits_total", "Tokens of prompts that the prefix cache held");
  Counter& generated_tokens = counter("weir_generation_tokens_total", "Tokens of answers");
  Counter& canvases = counter("weir_canvases_total", "Canvases begun");
  Gauge& running = gauge("weir_num_requests_running", "Answers that take turns");
  Gauge& waiting = gauge("weir_num_requests_waiting", "Answers in the queue");
  Gauge& cache_bytes = gauge("weir_prefix_cache_bytes", "Bytes that cached prefixes hold");
  Gauge& cached_prefixes = gauge("weir_prefix_cache_entries", "Cached prefixes");
  prometheus::Family<Counter>& finished = prometheus::BuildCounter()
                                              .Name("weir_request_success_total")
                                              .Help("Answers, by why they ended")
                                              .Register(registry);
  prometheus::Family<Counter>& responses = prometheus::BuildCounter()
                                               .Name("weir_http_responses_total")
                                               .Help("Responses, by status")
                                               .Register(registry);
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::first_token(double seconds) {
  families_->first_token.Observe(seconds);
}

void Metrics::next_token(double seconds) {
  families_->next_token.Observe(seconds);
}

void Metrics::answered(const JobResult& result, double seconds) {
  const GenerationStatistics& statistics = result.statistics;
  families_->queued.Observe(result.queued_seconds);
  families_->whole.Observe(seconds);
  families_->prompt_tokens.Increment(static_cast<double>(statistics.prompt_tokens));
  families_->cached_tokens.Increment(static_cast<double>(statistics.reused_tokens));
  families_->generated_tokens.Increment(static_cast<double>(statistics.generated_tokens));
  families_->finished.Add({{"finished_reason", std::string(finish_reason_name(result.finish))}}).Increment();
  if (statistics.canvases == 0) return;
  families_->canvases.Increment(static_cast<double>(statistics.canvases));
  families_->passes.Observe(static_cast<double>(statistics.denoising_passes) /
                            static_cast<double>(statistics.canvases));
}

void Metrics::responded(int status) {
  families_->responses.Add({{"status", std::to_string(status)}}).Increment();
}

std::string Metrics::text(const SchedulerStatus& status) {
  families_->running.Set(static_cast<double>(status.running));
  families_->waiting.Set(static_cast<double>(status.waiting));
  families_->cache_bytes.Set(static_cast<double>(status.cache_bytes));
  families_->cached_prefixes.Set(static_cast<double>(status.cached_prefixes));
  return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace weir::server
