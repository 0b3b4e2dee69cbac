// Writes, touches and removes the files of a folder on a thread of its own, in the order in which that was
// asked for, so that nobody waits for the disk.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weir {

inline constexpr std::string_view kUnfinishedSuffix = ".part";  // of a file that is being written

class FileWriter {
 public:
  using Notice = std::function<void(const std::string&)>;

  // Bytes that may wait to be written. Who writes more waits for the disk after all.
  static constexpr size_t kMostQueued = size_t{256} << 20;

  // `notice`, which may be empty, is told on the writer's thread what could not be written, in a sentence
  // that names the file. Error: kInternal when there is no thread.
  static Result<std::unique_ptr<FileWriter>> start(std::string folder, Notice notice);
  ~FileWriter();  // does first what has been asked for
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // The file is there whole or not at all. `bytes` are what StateCodec::encode returned and are sealed here.
  // Files of one group belong together: behind one that could not be written the others are left out.
  void write(std::string name, std::string bytes, uint64_t group);
  void touch(std::string name);
  void remove(std::string name);

  void flush();  // waits until all of this is done

  // Names of the files that were not written since the last call.
  std::vector<std::string> take_failed();

 private:
  struct Task {
    std::function<void()> run;
    size_t bytes = 0;
  };

  FileWriter(std::string folder, Notice notice) : folder_(std::move(folder)), notice_(std::move(notice)) {}

  void run();
  void post(std::function<void()> task, size_t bytes);
  void write_now(const std::string& name, std::string& bytes, uint64_t group);
  std::string full(const std::string& name) const { return folder_ + "/" + name; }

  const std::string folder_;
  const Notice notice_;
  uint64_t failed_group_ = 0;  // the writer's thread alone; 0: none

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // the first one is being done
  size_t queued_ = 0;       // bytes
  std::vector<std::string> failed_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace weir
