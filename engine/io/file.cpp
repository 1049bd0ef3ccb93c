// Reading and replacing files (see file.h).
#include "engine/io/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "engine/base/interrupt.h"

namespace tycho::io {
namespace {

constexpr size_t kPiece = size_t{4} << 20;  // read or written between two looks for an interrupt
// What is written goes to the disk at once and not all at the end: the system would otherwise let a
// large file fill the memory, then slow the writer down, and nothing stops a long sync.
constexpr off_t kStep = off_t{16} << 20, kUnderWay = off_t{64} << 20;

[[noreturn]] void fail_at(const char* what, const std::string& path, int error) {
  fail(Kind::Io, std::string("cannot ") + what + " " + path + ": " + std::strerror(error));
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() { close(); }
  // The error of close, which reports late write errors on some file systems, or 0.
  int close() {
    const int error = fd >= 0 && ::close(fd) != 0 ? errno : 0;
    fd = -1;
    return error;
  }
};

// While one lives, a write beyond the file size limit or into a closed pipe returns an error
// instead of ending the process with a signal.
class NoWriteSignals {
 public:
  NoWriteSignals() {
    sigemptyset(&mine_);
    sigaddset(&mine_, SIGXFSZ);
    sigaddset(&mine_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &mine_, &before_);
  }
  ~NoWriteSignals() {
    // One that a write raised is waiting for this thread: taken away before it can act.
    const timespec now{};
    while (sigtimedwait(&mine_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;

 private:
  sigset_t mine_, before_;
};

class FileOutput final : public Output {
 public:
  FileOutput(int fd, const std::string& path, bool to_disk)
      : fd_(fd), path_(path), to_disk_(to_disk), buffer_(std::make_unique<char[]>(kBuffer)) {}

  using Output::write;
  void write(const void* data, size_t bytes) override {
    if (bytes >= kBuffer) {
      flush();
      put(static_cast<const char*>(data), bytes);
      return;
    }
    if (used_ + bytes > kBuffer) flush();
    std::memcpy(buffer_.get() + used_, data, bytes);
    used_ += bytes;
  }
  void flush() { put(buffer_.get(), std::exchange(used_, 0)); }

 private:
  static constexpr size_t kBuffer = 1 << 16;

  void put(const char* data, size_t bytes) {
    while (bytes > 0) {
      check_interrupt();
      const ssize_t n = ::write(fd_, data, std::min(bytes, kPiece));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail_at("write", path_, n < 0 ? errno : EIO);
      data += n;
      bytes -= static_cast<size_t>(n);
      at_ += n;
      if (to_disk_) start_writing();
    }
  }

  // Hints: errors come out at the sync.
  void start_writing() {
    if (at_ - started_ < kStep) return;
    (void)::sync_file_range(fd_, started_, at_ - started_, SYNC_FILE_RANGE_WRITE);
    started_ = at_;
    const off_t wanted = started_ - kUnderWay;
    if (wanted <= done_) return;
    (void)::sync_file_range(
        fd_, done_, wanted - done_,
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    done_ = wanted;
  }

  int fd_;
  const std::string& path_;
  bool to_disk_;
  off_t at_ = 0, started_ = 0, done_ = 0;  // written; on the way to the disk; there
  std::unique_ptr<char[]> buffer_;
  size_t used_ = 0;
};

// Removes a file unless told that it has been renamed.
struct Temporary {
  std::string path;
  ~Temporary() {
    if (!path.empty()) ::unlink(path.c_str());
  }
};

void write_all(int fd, const std::string& path, bool to_disk,
               const std::function<void(Output&)>& writer) {
  FileOutput out(fd, path, to_disk);
  writer(out);
  out.flush();
}

// Asks for large pages in a block that is about to be filled: most of the time to read a large file
// would otherwise go into making its pages one by one.
void large_pages(void* data, size_t bytes) {
  constexpr uintptr_t page = uintptr_t{2} << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

// The file that a symbolic link stands for; `path` itself when it is none or leads nowhere.
std::string target_of(const std::string& path) {
  struct stat s;
  if (::lstat(path.c_str(), &s) != 0 || !S_ISLNK(s.st_mode)) return path;
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  if (!real) fail_at("write", path, errno);
  return real.get();
}

}  // namespace

void damaged(const std::string& name, const std::string& why) {
  fail(Kind::Io, name + " is damaged: " + why);
}

int64_t data_bytes(DType dtype, const Sizes& shape, const std::string& name) {
  bool too_much = false, empty = false;
  int64_t bytes = dtype_size(dtype);
  for (int64_t d : shape) {
    if (d < 0) damaged(name, "it gives the shape " + to_string(shape));
    empty |= d == 0;
    if (d > 0) too_much |= __builtin_mul_overflow(bytes, d, &bytes);
  }
  if (empty) return 0;
  if (too_much) damaged(name, "no memory holds the shape " + to_string(shape) + " it gives");
  return bytes;
}

std::string read_file(const std::string& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat s;
  if (file.fd < 0 || ::fstat(file.fd, &s) != 0) fail_at("read", path, errno);
  if (S_ISDIR(s.st_mode)) fail_at("read", path, EISDIR);
  std::string bytes;
  try {
    // One byte more than a regular file has, so that the last read sees its end.
    size_t used = 0, room = S_ISREG(s.st_mode) ? static_cast<size_t>(s.st_size) + 1 : kPiece;
    bytes.reserve(room);
    large_pages(bytes.data(), room);
    for (;;) {
      bytes.resize(room);
      check_interrupt();
      const ssize_t n = ::read(file.fd, bytes.data() + used, std::min(room - used, kPiece));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_at("read", path, errno);
      if (n == 0) break;
      used += static_cast<size_t>(n);
      if (used == room) room *= 2;
    }
    bytes.resize(used);
  } catch (const std::bad_alloc&) {
    fail(Kind::Oom, "out of memory reading " + path);
  }
  return bytes;
}

void atomic_write(const std::string& path, const std::function<void(Output&)>& writer,
                  unsigned mode) {
  static std::atomic<unsigned> counter{0};
  const NoWriteSignals no_signals;
  const std::string target = target_of(path);
  struct stat old;
  const bool exists = ::stat(target.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) fail_at("write", path, EISDIR);
  if (exists && !S_ISREG(old.st_mode)) {
    Descriptor direct{::open(target.c_str(), O_WRONLY | O_CLOEXEC)};
    if (direct.fd < 0) fail_at("write", path, errno);
    write_all(direct.fd, path, false, writer);
    if (const int error = direct.close()) fail_at("write", path, error);
    return;
  }
  // A file that forbids writing is not replaced either.
  if (exists && ::access(target.c_str(), W_OK) != 0) fail_at("write", path, errno);

  Temporary beside{target + format(".tmp-%d-%u", static_cast<int>(::getpid()), counter++)};
  Descriptor file{::open(beside.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)};
  if (file.fd < 0) {
    const int error = errno;
    beside.path.clear();
    fail_at("write", path, error);
  }
  if (exists) (void)!::fchmod(file.fd, old.st_mode & 07777);
  write_all(file.fd, path, true, writer);
  if (::fsync(file.fd) != 0) fail_at("write", path, errno);
  if (const int error = file.close()) fail_at("write", path, error);
  if (::rename(beside.path.c_str(), target.c_str()) != 0) fail_at("write", path, errno);
  beside.path.clear();
  // The new name reaches the disk with the directory; a file system without this is no failure.
  const size_t slash = target.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  const Descriptor parent{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (parent.fd >= 0) (void)!::fsync(parent.fd);
}

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

std::string gunzip(std::string_view bytes, const std::string& name, size_t most) {
  struct Inflate {
    z_stream z{};
    Inflate() {
      if (inflateInit2(&z, 15 + 16) != Z_OK) throw std::bad_alloc();
    }
    ~Inflate() { inflateEnd(&z); }
  };
  std::string out;
  try {
    Inflate in;
    size_t used = 0;  // of `out`
    while (used < most) {
      check_interrupt();
      const size_t fed = std::min(bytes.size(), kPiece);
      if (out.size() == used) out.resize(std::min(most, std::max(2 * used, kPiece / 4)));
      const size_t room = std::min(out.size() - used, kPiece);
      in.z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      in.z.avail_in = static_cast<uInt>(fed);
      in.z.next_out = reinterpret_cast<Bytef*>(out.data() + used);
      in.z.avail_out = static_cast<uInt>(room);
      const int result = inflate(&in.z, Z_NO_FLUSH);
      bytes.remove_prefix(fed - in.z.avail_in);
      used += room - in.z.avail_out;
      if (result == Z_STREAM_END) {
        if (bytes.empty()) break;
        // Another member may follow; as gzip does, zero bytes of padding are passed over.
        if (bytes.find_first_not_of('\0') == std::string_view::npos) break;
        if (!is_gzip(bytes)) damaged(name, "something else follows its gzip data");
        inflateReset(&in.z);
      } else if (result == Z_BUF_ERROR || (result == Z_OK && bytes.empty() && in.z.avail_out > 0)) {
        damaged(name, "its gzip data ends too early");
      } else if (result == Z_MEM_ERROR) {
        throw std::bad_alloc();
      } else if (result != Z_OK) {
        damaged(name, std::string("its gzip data is wrong (") +
                          (in.z.msg ? in.z.msg : "bad header") + ")");
      }
    }
    out.resize(used);
  } catch (const std::bad_alloc&) {
    fail(Kind::Oom, "out of memory unpacking " + name);
  }
  return out;
}

void swap_bytes(void* data, int element_bytes, int64_t n) {
  char* p = static_cast<char*>(data);
  const auto each = [&](auto word, auto swap) {
    for (int64_t i = 0; i < n; ++i, p += sizeof word) {
      std::memcpy(&word, p, sizeof word);
      word = swap(word);
      std::memcpy(p, &word, sizeof word);
    }
  };
  if (element_bytes == 2) each(uint16_t{}, [](uint16_t v) { return __builtin_bswap16(v); });
  if (element_bytes == 4) each(uint32_t{}, [](uint32_t v) { return __builtin_bswap32(v); });
  if (element_bytes == 8) each(uint64_t{}, [](uint64_t v) { return __builtin_bswap64(v); });
}

}  // namespace tycho::io
