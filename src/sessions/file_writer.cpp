#include "sessions/file_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "sessions/state_codec.h"

namespace weir {
namespace {

Error system_error(const std::string& what) {
  return {Code::kInternal, fmt::format("{}: {}", what, std::strerror(errno)), ""};
}

// Only its owner may read what was said.
Status write_bytes(const std::string& path, std::span<const char> bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return system_error("cannot create it");
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      Error error = system_error("cannot write it");
      ::close(file);
      return error;
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (::close(file) != 0) return system_error("cannot write it");
  return {};
}

Status write_whole(const std::string& path, std::span<const char> bytes) {
  const std::string unfinished = path + std::string(kUnfinishedSuffix);
  Status status = write_bytes(unfinished, bytes);
  if (status.ok() && std::rename(unfinished.c_str(), path.c_str()) != 0) {
    status = system_error("cannot rename it");
  }
  if (!status.ok()) ::unlink(unfinished.c_str());
  return status;
}

}  // namespace

Result<std::unique_ptr<FileWriter>> FileWriter::start(std::string folder, Notice notice) {
  std::unique_ptr<FileWriter> writer(new FileWriter(std::move(folder), std::move(notice)));
  try {
    writer->thread_ = std::thread([w = writer.get()] { w->run(); });
  } catch (const std::system_error& error) {
    return Error{Code::kInternal, fmt::format("cannot start the thread that writes states: {}", error.what()),
                 ""};
  }
  return writer;
}

FileWriter::~FileWriter() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void FileWriter::write(std::string name, std::string bytes, uint64_t group) {
  const size_t size = bytes.size();
  post([this, name = std::move(name), bytes = std::move(bytes),
        group]() mutable { write_now(name, bytes, group); },
       size);
}

void FileWriter::touch(std::string name) {
  post(
      [this, name = std::move(name)] {
        std::error_code gone;
        std::filesystem::last_write_time(full(name), std::filesystem::file_time_type::clock::now(), gone);
      },
      0);
}

void FileWriter::remove(std::string name) {
  post([this, name = std::move(name)] { ::unlink(full(name).c_str()); }, 0);
}

void FileWriter::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return tasks_.empty(); });
}

std::vector<std::string> FileWriter::take_failed() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failed_, {});
}

void FileWriter::post(std::function<void()> task, size_t bytes) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queued_ == 0 || queued_ + bytes <= kMostQueued; });
    tasks_.push_back({std::move(task), bytes});
    queued_ += bytes;
  }
  changed_.notify_all();
}

void FileWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !tasks_.empty() || is_stopping_; });
    if (tasks_.empty()) return;
    const Task& task = tasks_.front();  // stays where it is while others come behind it
    lock.unlock();
    task.run();
    lock.lock();
    queued_ -= task.bytes;
    tasks_.pop_front();
    changed_.notify_all();
  }
}

void FileWriter::write_now(const std::string& name, std::string& bytes, uint64_t group) {
  if (group != failed_group_) {
    StateCodec::seal(bytes);
    const Status status = write_whole(full(name), bytes);
    if (status.ok()) return;
    failed_group_ = group;
    if (notice_) notice_(fmt::format("{}: {}", full(name), status.error().message));
  }
  const std::lock_guard lock(mutex_);
  failed_.push_back(name);
}

}  // namespace weir
