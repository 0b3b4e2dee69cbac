#include "cli/bandwidth.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "base/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::cli {
namespace {

constexpr uint64_t kMinBuffer = uint64_t{1} << 30;
constexpr int64_t kPage = 4096;

class Mapping {
 public:
  explicit Mapping(size_t bytes) : bytes_(bytes) {
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return;
    data_ = static_cast<char*>(data);
    ::madvise(data_, bytes_, MADV_HUGEPAGE);  // a wish: without huge pages the reading is a little slower
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  char* data_ = nullptr;
};

// Each reader combines every word that it loads, so that no load can be left out. `bytes` is a multiple of
// 512.
uint64_t read_words(const char* data, int64_t bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  uint64_t sums[8] = {};
  for (int64_t i = 0; i < bytes / 8; i += 8) {
    for (int64_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  uint64_t sum = 0;
  for (const uint64_t s : sums) sum += s;
  return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) uint64_t read_avx512(const char* data, int64_t bytes) {
  __m512i sums[8];
  for (__m512i& s : sums) s = _mm512_setzero_si512();
  for (int64_t i = 0; i < bytes; i += 512) {
    for (int64_t j = 0; j < 8; ++j) {
      sums[j] = _mm512_xor_si512(sums[j], _mm512_load_si512(data + i + 64 * j));
    }
  }
  for (int j = 1; j < 8; ++j) sums[0] = _mm512_xor_si512(sums[0], sums[j]);
  alignas(64) uint64_t lanes[8];
  _mm512_store_si512(lanes, sums[0]);
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum ^= lane;
  return sum;
}
#endif

uint64_t read(const char* data, int64_t bytes) {
#if defined(__x86_64__)
  if (cpu_features().avx512) return read_avx512(data, bytes);
#endif
  return read_words(data, bytes);
}

// Larger than the last-level cache, so that little of a pass is still in it when the next one begins; at most
// half of what is free.
uint64_t buffer_size() {
  uint64_t size = std::max(kMinBuffer, 2 * last_level_cache_bytes());
  if (const uint64_t available = available_memory_bytes(); available != 0)
    size = std::min(size, available / 2);
  return size / kPage * kPage;
}

// The kernel would kill whoever fills more memory than there is.
Status check_room(uint64_t bytes) {
  constexpr uint64_t kLeft = uint64_t{1} << 29;
  const uint64_t available = available_memory_bytes();
  if (available == 0 || bytes + kLeft <= available) return Ok{};
  return Error{
      Code::kOutOfMemory,
      fmt::format("a buffer of {:.1f} GiB does not fit beside what runs: {:.1f} GiB are free",
                  static_cast<double>(bytes) / (1 << 30), static_cast<double>(available) / (1 << 30)),
      "half a GiB must be left"};
}

uint64_t memory_field(const std::string& wanted) {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  uint64_t kibibytes = 0;
  while (file >> name >> kibibytes) {
    std::getline(file, unit);
    if (name == wanted) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

uint64_t last_level_cache_bytes() {
  const long bytes = std::max(::sysconf(_SC_LEVEL3_CACHE_SIZE), ::sysconf(_SC_LEVEL2_CACHE_SIZE));
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

uint64_t available_memory_bytes() {
  return memory_field("MemAvailable:");
}

uint64_t total_memory_bytes() {
  return memory_field("MemTotal:");
}

Result<Bandwidth> measure_bandwidth(ThreadPool& pool, int passes, std::optional<uint64_t> buffer_bytes) {
  if (buffer_bytes) WEIR_RETURN_IF_ERROR(check_room(*buffer_bytes));
  const Mapping buffer(buffer_bytes ? *buffer_bytes / kPage * kPage : buffer_size());
  if (buffer.data() == nullptr || buffer.bytes() == 0) {
    return Error{Code::kOutOfMemory, fmt::format("no memory for {} bytes to measure with", buffer.bytes()),
                 ""};
  }
  const auto bytes = static_cast<int64_t>(buffer.bytes());
  std::vector<uint64_t> sums(static_cast<size_t>(pool.threads()) * 8);  // one cache line each
  const auto pass = [&](const auto& work) {
    const auto start = std::chrono::steady_clock::now();
    pool.run([&](int thread) {
      const Range part = part_of(bytes, thread, pool.threads(), kPage);
      sums[static_cast<size_t>(thread) * 8] += work(buffer.data() + part.begin, part.end - part.begin);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return static_cast<double>(bytes) / seconds.count() / 1e9;
  };
  pass([](char* data, int64_t count) {
    std::fill(data, data + count, char{1});  // untouched pages would all be the one page of zeros
    return uint64_t{0};
  });
  std::vector<double> rates;
  for (int i = 0; i <= passes; ++i) rates.push_back(pass(read));
  rates.erase(rates.begin());
  std::sort(rates.begin(), rates.end());
  return Bandwidth{rates[rates.size() / 2], rates.front(), rates.back(), buffer.bytes(), passes};
}

}  // namespace weir::cli
