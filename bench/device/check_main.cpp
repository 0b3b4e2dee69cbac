// weir_device_check [all|steps|choices|models] [small]: is the CUDA backend right? Exit code 1 when anything
// is off.
#include <cstdio>
#include <string>

#include "device/check.h"
#include "kernels/cuda/cuda_steps.h"

int main(int argc, char** argv) {
  using namespace weir;
  const std::string what = argc > 1 ? argv[1] : "all";
  auto steps = make_cuda_steps(0);
  if (!steps.ok()) {
    std::printf("%s\n", steps.error().message.c_str());
    return 4;
  }
  std::printf("%s\n", (*steps)->name().c_str());
  bench::Report report;
  const auto too_much = (*steps)->allocate(size_t{1} << 40);
  const bool says_what_is_free = !too_much.ok() && too_much.error().code == Code::kOutOfMemory &&
                                 too_much.error().message.find("are free") != std::string::npos;
  report.add("a terabyte is refused, with what is free", says_what_is_free ? 0 : 1, 0);
  const bool small = argc > 2 && argv[2] == std::string("small");
  const bench::CheckOptions options{.small_only = small, .seeds = small ? 1 : 2};
  const auto asks_for = [&](const char* part) { return what == "all" || what == part; };
  if (asks_for("steps")) bench::check_steps(report, **steps, options);
  if (asks_for("choices")) bench::check_choices(report, **steps, options);
  if (asks_for("models")) bench::check_models(report, options);
  std::printf("%d checks, %d failed\n", report.checks(), report.failures());
  return report.failures() == 0 ? 0 : 1;
}
