// What the CUDA backend says where there is no GPU. Its arithmetic is checked on a machine that has one, by
// bench/device.sh.
#include "kernels/cuda/cuda_steps.h"

#include <gtest/gtest.h>

#include "kernels/cuda/gpu_report.h"

namespace weir::test {
namespace {

TEST(CudaSteps, say_cleanly_that_they_are_not_built_or_that_no_gpu_is_there) {
  const auto steps = make_cuda_steps(0);
  if (steps.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(steps.error().code, Code::kDevice);
  EXPECT_NE(steps.error().message.find(has_cuda() ? "GPU" : "without CUDA"), std::string::npos)
      << steps.error().message;
  EXPECT_NE(steps.error().hint.find("--device cpu"), std::string::npos) << steps.error().hint;
}

TEST(CudaSteps, refuse_a_gpu_that_no_machine_has) {
  for (const int number : {-1, 1 << 20}) {
    const auto steps = make_cuda_steps(number);
    ASSERT_FALSE(steps.ok()) << number;
    EXPECT_EQ(steps.error().code, Code::kDevice);
    EXPECT_FALSE(steps.error().message.empty());
  }
}

TEST(GpuReport, fails_as_the_steps_do) {
  const auto steps = make_cuda_steps(0);
  if (steps.ok()) GTEST_SKIP() << "this machine has a GPU";
  const auto report = report_gpu(0);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::kDevice);
  EXPECT_EQ(report.error().message, steps.error().message);
}

}  // namespace
}  // namespace weir::test
