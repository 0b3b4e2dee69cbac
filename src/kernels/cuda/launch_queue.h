// Kernel launches on one stream. A pass of few rows is kept back until it is complete and then runs as one
// recorded graph, the same graph whenever the same launches come again; other launches go out at once.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::cuda {

struct Shape {
  dim3 blocks;
  unsigned threads = 0;
  size_t shared = 0;     // bytes of dynamic shared memory
  unsigned cluster = 1;  // blocks of a cluster, along x
};

// A kernel that takes one struct by value. The struct must have no padding, because launches are compared
// byte by byte.
struct Launch {
  static constexpr size_t kMaxParameters = 256;

  const void* kernel;
  unsigned blocks[3];
  unsigned threads;
  size_t shared;
  unsigned cluster;
  unsigned parameter_bytes;
  std::array<std::byte, kMaxParameters> parameters;
};

class LaunchQueue {
 public:
  LaunchQueue() = default;
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;
  ~LaunchQueue();

  Status open();
  cudaStream_t stream() const { return stream_; }

  template <class P>
  void launch(void (*kernel)(P), const Shape& shape, const P& parameters) {
    static_assert(sizeof(P) <= Launch::kMaxParameters);
    add(reinterpret_cast<const void*>(kernel), shape, &parameters, sizeof(P));
  }

  void defer();  // from here on launches wait for `flush`
  void flush();  // runs what waits; ends deferring

  // Remembers the first error of any call.
  void check(cudaError_t result, const char* what);
  Status take_error();

  size_t graphs() const { return graphs_.size(); }
  size_t launches_of_last() const { return last_launches_; }

 private:
  struct Graph {
    std::vector<Launch> launches;
    cudaGraphExec_t executable = nullptr;
  };

  void add(const void* kernel, const Shape& shape, const void* parameters, size_t bytes);
  void run(const Launch& launch);
  void allow_shared(const Launch& launch);
  void allow_cluster(const Launch& launch);
  cudaGraphExec_t record();
  cudaGraphExec_t find() const;

  cudaStream_t stream_ = nullptr;
  bool deferring_ = false;
  std::vector<Launch> waiting_;
  std::vector<Graph> graphs_;
  std::vector<const void*> large_shared_, large_clusters_;  // kernels whose limit has been raised
  size_t last_launches_ = 0;
  cudaError_t error_ = cudaSuccess;
  std::string error_place_;
};

}  // namespace weir::cuda
