// Reading files in pieces; see the header.
#include "engine/io/stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/interrupt.h"
#include "engine/io/file.h"

namespace tycho::io {
namespace {

constexpr size_t kStreamPiece = size_t{1} << 20;  // read between two looks for an interrupt

[[noreturn]] void cannot_read(const std::string& path, int error) {
  fail(Kind::Io, "cannot read " + path + ": " + std::strerror(error));
}

}  // namespace

struct InputStream::Gzip {
  z_stream z{};
  std::unique_ptr<char[]> input = std::make_unique<char[]>(kInput);
  bool inside = false;  // of a member
  bool done = false;

  static constexpr size_t kInput = size_t{1} << 18;
  Gzip() {
    if (inflateInit2(&z, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() { inflateEnd(&z); }
};

InputStream::InputStream(const std::string& path, const std::string& encoding) : path_(path) {
  if (!encoding.empty()) decoder_ = std::make_unique<Decoder>(encoding, path);
  struct stat s;
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) cannot_read(path, errno);
  const int error = ::fstat(fd_, &s) != 0 ? errno : S_ISDIR(s.st_mode) ? EISDIR : 0;
  if (error) {
    ::close(fd_);
    cannot_read(path, error);
  }
  regular_ = S_ISREG(s.st_mode);
  try {
    // The first bytes say whether the file is packed. They stay in the input of the unpacker, which
    // hands them on when it is not.
    gzip_ = std::make_unique<Gzip>();
    gzip_->z.avail_in = static_cast<uInt>(read_file(gzip_->input.get(), Gzip::kInput));
    gzip_->z.next_in = reinterpret_cast<Bytef*>(gzip_->input.get());
    gzip_->inside = is_gzip({gzip_->input.get(), gzip_->z.avail_in});
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

InputStream::~InputStream() { ::close(fd_); }

size_t InputStream::read_file(char* to, size_t room) {
  size_t got = 0;
  while (got < room) {
    check_interrupt();
    const ssize_t n = ::read(fd_, to + got, std::min(room - got, kStreamPiece));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_read(path_, errno);
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  return got;
}

size_t InputStream::read(char* to, size_t room) {
  if (!decoder_) return read_bytes(to, room);
  while (text_.size() - text_at_ < room && !raw_ended_) {
    text_.erase(0, text_at_);
    text_at_ = 0;
    const size_t kept = raw_.size();
    raw_.resize(kept + kStreamPiece);
    const size_t got = read_bytes(raw_.data() + kept, kStreamPiece);
    raw_.resize(kept + got);
    raw_ended_ = got < kStreamPiece;
    raw_.erase(0, decoder_->decode(raw_, &text_, raw_ended_));
  }
  const size_t n = std::min(room, text_.size() - text_at_);
  if (n > 0) std::memcpy(to, text_.data() + text_at_, n);
  text_at_ += n;
  return n;
}

size_t InputStream::read_bytes(char* to, size_t room) {
  if (gzip_ && gzip_->inside) return read_packed(to, room);
  size_t got = 0;
  if (gzip_) {  // what was looked at to know the kind
    got = std::min<size_t>(room, gzip_->z.avail_in);
    std::memcpy(to, gzip_->z.next_in, got);
    gzip_->z.next_in += got;
    gzip_->z.avail_in -= static_cast<uInt>(got);
    if (gzip_->z.avail_in == 0) gzip_.reset();
  }
  return got + read_file(to + got, room - got);
}

size_t InputStream::read_packed(char* to, size_t room) {
  Gzip& g = *gzip_;
  size_t got = 0;
  while (got < room && !g.done) {
    check_interrupt();
    if (g.z.avail_in == 0) {
      g.z.avail_in = static_cast<uInt>(read_file(g.input.get(), Gzip::kInput));
      g.z.next_in = reinterpret_cast<Bytef*>(g.input.get());
      if (g.z.avail_in == 0) damaged(path_, "its gzip data ends too early");
    }
    const size_t piece = std::min(room - got, kStreamPiece);
    g.z.next_out = reinterpret_cast<Bytef*>(to + got);
    g.z.avail_out = static_cast<uInt>(piece);
    const int result = inflate(&g.z, Z_NO_FLUSH);
    got += piece - g.z.avail_out;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      damaged(path_,
              std::string("its gzip data is wrong (") + (g.z.msg ? g.z.msg : "bad header") + ")");
    if (result != Z_STREAM_END) continue;
    // Another member may follow; as gzip does, zero bytes of padding are passed over.
    for (;;) {
      while (g.z.avail_in > 0 && *g.z.next_in == 0) ++g.z.next_in, --g.z.avail_in;
      if (g.z.avail_in > 0) break;
      g.z.avail_in = static_cast<uInt>(read_file(g.input.get(), Gzip::kInput));
      g.z.next_in = reinterpret_cast<Bytef*>(g.input.get());
      if (g.z.avail_in == 0) {
        g.done = true;
        return got;
      }
    }
    if (*g.z.next_in != 0x1f) damaged(path_, "something else follows its gzip data");
    inflateReset(&g.z);
  }
  return got;
}

}  // namespace tycho::io
