// What both models' weight loading is made of: matrices and vectors of a checkpoint, packed for a backend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "kernels/steps.h"

namespace weir {

// Everything passed in must outlive the reader.
class WeightReader {
 public:
  WeightReader(Checkpoint& checkpoint, Steps& steps, const Progress& progress)
      : checkpoint_(checkpoint), steps_(steps), progress_(progress) {}

  struct Part {
    std::string module;
    int64_t rows;
  };

  Checkpoint& checkpoint() { return checkpoint_; }
  Steps& steps() { return steps_; }

  // Checked as Checkpoint::matrix says; progress counts its bytes.
  Result<Matrix> matrix(const std::string& module, int64_t rows, int64_t cols);

  // The parts, stacked.
  Result<std::unique_ptr<Linear>> pack(const std::vector<Part>& parts, int64_t cols, Use use);

  Result<Vector> vector(const std::string& name, int64_t count);
  Result<Vector> upload(const std::vector<float>& values);

 private:
  Checkpoint& checkpoint_;
  Steps& steps_;
  const Progress& progress_;
  uint64_t done_ = 0, held_ = 0;
};

// The experts of a layer whose gate and up are one matrix, gate first: [E * 2 * wide, H], and down [E * H,
// wide].
std::vector<ExpertSource> split_experts(const Matrix& gate_up, const Matrix& down, int64_t count,
                                        int64_t wide);

}  // namespace weir
