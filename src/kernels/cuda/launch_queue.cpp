#include "kernels/cuda/launch_queue.h"

#include <algorithm>

namespace weir::cuda {
namespace {

// Below this many launches a graph does not pay for being recorded.
constexpr size_t kWorthRecording = 8;
constexpr size_t kMaxGraphs = 64;
constexpr size_t kDefaultShared = 48 << 10;
constexpr unsigned kPortableCluster = 8;

}  // namespace

LaunchQueue::~LaunchQueue() {
  for (const Graph& graph : graphs_) cudaGraphExecDestroy(graph.executable);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Status LaunchQueue::open() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  return take_error();
}

void LaunchQueue::check(cudaError_t result, const char* what) {
  if (result == cudaSuccess || error_ != cudaSuccess) return;
  error_ = result;
  error_place_ = what;
}

Status LaunchQueue::take_error() {
  if (error_ == cudaSuccess) return {};
  const Error error{error_ == cudaErrorMemoryAllocation ? Code::kOutOfMemory : Code::kDevice,
                    "the GPU failed at " + error_place_ + ": " + cudaGetErrorString(error_),
                    "if it repeats, try --device cpu and report it with the output of weir doctor"};
  error_ = cudaSuccess;
  return error;
}

void LaunchQueue::defer() {
  flush();
  deferring_ = true;
}

void LaunchQueue::add(const void* kernel, const Shape& shape, const void* parameters, size_t bytes) {
  Launch launch;
  std::memset(static_cast<void*>(&launch), 0, sizeof(launch));
  launch.kernel = kernel;
  launch.blocks[0] = shape.blocks.x;
  launch.blocks[1] = shape.blocks.y;
  launch.blocks[2] = shape.blocks.z;
  launch.threads = shape.threads;
  launch.shared = shape.shared;
  launch.cluster = shape.cluster;
  launch.parameter_bytes = static_cast<unsigned>(bytes);
  std::memcpy(launch.parameters.data(), parameters, bytes);
  allow_shared(launch);
  allow_cluster(launch);
  if (deferring_) {
    waiting_.push_back(launch);
  } else {
    run(launch);
  }
}

void LaunchQueue::allow_shared(const Launch& launch) {
  if (launch.shared <= kDefaultShared) return;
  if (std::find(large_shared_.begin(), large_shared_.end(), launch.kernel) != large_shared_.end()) return;
  int device = 0, most = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "asking for the shared memory limit");
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, launch.kernel), "asking for a kernel's shared memory");
  check(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             most - static_cast<int>(attributes.sharedSizeBytes)),
        "raising a kernel's shared memory limit");
  large_shared_.push_back(launch.kernel);
}

void LaunchQueue::allow_cluster(const Launch& launch) {
  if (launch.cluster <= kPortableCluster) return;
  if (std::find(large_clusters_.begin(), large_clusters_.end(), launch.kernel) != large_clusters_.end())
    return;
  check(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
        "raising a kernel's cluster size");
  large_clusters_.push_back(launch.kernel);
}

// Every launch may start early, up to its own wait for the one before (see ptx.cuh).
void LaunchQueue::run(const Launch& launch) {
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {launch.cluster, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(launch.blocks[0], launch.blocks[1], launch.blocks[2]);
  config.blockDim = dim3(launch.threads);
  config.dynamicSmemBytes = launch.shared;
  config.stream = stream_;
  config.attrs = attributes;
  config.numAttrs = launch.cluster > 1 ? 2 : 1;
  void* arguments[] = {const_cast<std::byte*>(launch.parameters.data())};
  check(cudaLaunchKernelExC(&config, launch.kernel, arguments), "launching a kernel");
}

cudaGraphExec_t LaunchQueue::find() const {
  for (const Graph& graph : graphs_) {
    if (graph.launches.size() == waiting_.size() &&
        std::memcmp(graph.launches.data(), waiting_.data(), waiting_.size() * sizeof(Launch)) == 0) {
      return graph.executable;
    }
  }
  return nullptr;
}

cudaGraphExec_t LaunchQueue::record() {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording a graph");
  for (const Launch& launch : waiting_) run(launch);
  check(cudaStreamEndCapture(stream_, &graph), "recording a graph");
  if (graph == nullptr) return nullptr;
  check(cudaGraphInstantiate(&executable, graph, 0), "preparing a graph");
  check(cudaGraphDestroy(graph), "freeing a graph");
  if (executable == nullptr) return nullptr;
  if (graphs_.size() == kMaxGraphs) {
    check(cudaStreamSynchronize(stream_), "waiting for the GPU");
    check(cudaGraphExecDestroy(graphs_.front().executable), "freeing a graph");
    graphs_.erase(graphs_.begin());
  }
  graphs_.push_back({waiting_, executable});
  return executable;
}

void LaunchQueue::flush() {
  deferring_ = false;
  if (waiting_.size() < kWorthRecording) {
    for (const Launch& launch : waiting_) run(launch);
  } else {
    cudaGraphExec_t graph = find();
    if (graph == nullptr) graph = record();
    last_launches_ = waiting_.size();
    if (graph != nullptr) check(cudaGraphLaunch(graph, stream_), "running a graph");
  }
  waiting_.clear();
}

}  // namespace weir::cuda
