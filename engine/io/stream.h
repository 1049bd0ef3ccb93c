// A file read from front to end in pieces, unpacked on the way when it is gzip, and decoded when it is said to be a text
// in another encoding than UTF-8.
#pragma once
#include <memory>
#include <string>

#include "engine/io/decode.h"

namespace tycho::io {

class InputStream {
 public:
  explicit InputStream(const std::string& path, const std::string& encoding = {});
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  // Fills `to` with up to `room` bytes; fewer only at the end of the file, where it returns 0.
  size_t read(char* to, size_t room);
  bool is_regular() const { return regular_; }  // can be opened again from the start

 private:
  struct Gzip;
  size_t read_bytes(char* to, size_t room);
  size_t read_file(char* to, size_t room);
  size_t read_packed(char* to, size_t room);

  std::string path_;
  int fd_ = -1;
  bool regular_ = false;
  std::unique_ptr<Gzip> gzip_;  // null: the file is as it is
  std::unique_ptr<Decoder> decoder_;
  std::string raw_,
      text_;  // bytes that are not decoded yet; text from text_at_ on that is not read yet
  size_t text_at_ = 0;
  bool raw_ended_ = false;
};

}  // namespace tycho::io
