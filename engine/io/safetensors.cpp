// Reading and writing safetensors headers (see safetensors.h).
#include "engine/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <unordered_set>

#include "engine/io/file.h"
#include "engine/io/scan.h"
#include "engine/io/utf8.h"

namespace tycho::io {
namespace {

constexpr const char* kNames[kDTypes] = {"BOOL", "U8",  "I8",   "I16", "I32",
                                         "I64",  "F16", "BF16", "F32", "F64"};
constexpr size_t kMaxHeader = 100'000'000;  // as the format's own reader
constexpr const char* kMetadata = "__metadata__";

// A name as errors show it.
std::string quoted(const std::string& name) {
  return "'" + (name.size() > 80 ? name.substr(0, 77) + "..." : name) + "'";
}

uint32_t json_hex4(Scanner& s) {
  uint32_t code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = s.take();
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) s.wrong("a bad \\u escape");
    code = code << 4 | static_cast<uint32_t>(digit);
  }
  return code;
}

std::string json_string(Scanner& s) {
  s.expect('"');
  std::string text;
  for (char c; (c = s.take()) != '"';) {
    if (static_cast<uint8_t>(c) < 0x20) s.wrong("a control character in a string");
    if (c != '\\') {
      text += c;
      continue;
    }
    switch (c = s.take()) {
      case '"':
      case '\\':
      case '/':
        text += c;
        break;
      case 'b':
        text += '\b';
        break;
      case 'f':
        text += '\f';
        break;
      case 'n':
        text += '\n';
        break;
      case 'r':
        text += '\r';
        break;
      case 't':
        text += '\t';
        break;
      case 'u': {
        uint32_t code = json_hex4(s);
        if (code >= 0xd800 && code < 0xdc00 && s.peek() == '\\') {
          s.take();
          if (s.take() != 'u') s.wrong("half a surrogate pair");
          const uint32_t low = json_hex4(s);
          if (low < 0xdc00 || low >= 0xe000) s.wrong("half a surrogate pair");
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        if (code >= 0xd800 && code < 0xe000) s.wrong("half a surrogate pair");
        append_utf8(&text, code);
        break;
      }
      default:
        s.wrong("an unknown escape in a string");
    }
  }
  if (!is_utf8(text)) s.wrong("a string that is not UTF-8");
  return text;
}

// Calls f after each [ or , until the closing bracket.
template <class F>
void json_items(Scanner& s, char open, char close, F f) {
  s.expect(open);
  if (s.eat(close)) return;
  do f();
  while (s.eat(','));
  s.expect(close);
}

DType parse_dtype_name(const std::string& text, const std::string& tensor,
                       const std::string& name) {
  for (int t = 0; t < kDTypes; ++t)
    if (text == kNames[t]) return static_cast<DType>(t);
  fail(Kind::Io, name + ": tensor " + quoted(tensor) + " has the type " + text.substr(0, 40) +
                     ", which no tensor here can hold");
}

SafetensorsEntry parse_entry(Scanner& s, std::string tensor, const std::string& name) {
  SafetensorsEntry e;
  e.name = std::move(tensor);
  bool has_dtype = false, has_shape = false, has_offsets = false;
  json_items(s, '{', '}', [&] {
    const std::string key = json_string(s);
    s.expect(':');
    if (key == "dtype" && !has_dtype) {
      e.dtype = parse_dtype_name(json_string(s), e.name, name);
      has_dtype = true;
    } else if (key == "shape" && !has_shape) {
      json_items(s, '[', ']', [&] {
        if (e.shape.size() == kMaxDims)
          damaged(name, format("tensor %s has more than %d dimensions", quoted(e.name).c_str(),
                               kMaxDims));
        e.shape.push_back(s.integer());
      });
      has_shape = true;
    } else if (key == "data_offsets" && !has_offsets) {
      s.expect('[');
      e.begin = static_cast<size_t>(s.integer());
      s.expect(',');
      e.end = static_cast<size_t>(s.integer());
      s.expect(']');
      has_offsets = true;
    } else {
      s.wrong("an unknown or repeated key, " + key.substr(0, 60));
    }
  });
  if (!has_dtype || !has_shape || !has_offsets)
    s.wrong("tensor " + quoted(e.name) + " lacks one of dtype, shape and data_offsets");
  return e;
}

void check_offsets(const SafetensorsHeader& h, size_t data, const std::string& name) {
  std::vector<const SafetensorsEntry*> order;
  for (const SafetensorsEntry& e : h.tensors) {
    if (e.begin > e.end || e.end > data)
      damaged(name, format("tensor %s claims bytes %zu to %zu of %zu", quoted(e.name).c_str(),
                           e.begin, e.end, data));
    const int64_t want = data_bytes(e.dtype, e.shape, name);
    if (e.end - e.begin != static_cast<size_t>(want))
      damaged(name, format("tensor %s has %zu bytes, but %s of %s takes %lld",
                           quoted(e.name).c_str(), e.end - e.begin, to_string(e.shape).c_str(),
                           dtype_name(e.dtype), static_cast<long long>(want)));
    order.push_back(&e);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  size_t at = 0;
  for (const SafetensorsEntry* e : order) {
    if (e->begin != at)
      damaged(name, format("tensor %s begins at byte %zu, where byte %zu was expected",
                           quoted(e->name).c_str(), e->begin, at));
    at = e->end;
  }
  if (at != data)
    damaged(name, format("its tensors have %zu bytes, but %zu follow the header", at, data));
}

void json_append(std::string* out, const std::string& s) {
  *out += '"';
  for (char c : s) {
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      *out += format("\\u%04x", c);
    } else {
      *out += c;
    }
  }
  *out += '"';
}

void check_name(const std::string& name, std::unordered_set<std::string>* seen) {
  TYCHO_CHECK(Kind::Io, is_utf8(name), "a name to save is not UTF-8 text: %s",
              quoted(name).c_str());
  TYCHO_CHECK(Kind::Io, seen->insert(name).second, "the name %s cannot be saved twice",
              quoted(name).c_str());
}

}  // namespace

SafetensorsHeader parse_safetensors(std::string_view file, const std::string& name) {
  if (file.size() < 8) damaged(name, "it is too short to be a safetensors file");
  uint64_t length;
  std::memcpy(&length, file.data(), 8);
  if (length > kMaxHeader || length > file.size() - 8)
    damaged(name, format("its header claims %llu bytes, %zu follow",
                         static_cast<unsigned long long>(length), file.size() - 8));
  SafetensorsHeader h;
  h.data_offset = 8 + static_cast<size_t>(length);
  Scanner s(file.substr(8, static_cast<size_t>(length)), name, "its header");
  std::unordered_set<std::string> seen;
  json_items(s, '{', '}', [&] {
    std::string key = json_string(s);
    if (!seen.insert(key).second) s.wrong("the name " + quoted(key) + " stands there twice");
    s.expect(':');
    if (key != kMetadata) {
      h.tensors.push_back(parse_entry(s, std::move(key), name));
      return;
    }
    json_items(s, '{', '}', [&] {
      std::string k = json_string(s);
      s.expect(':');
      h.metadata.emplace_back(std::move(k), json_string(s));
    });
  });
  s.skip_space();
  if (!s.done()) s.wrong("something follows the header's end");
  check_offsets(h, file.size() - h.data_offset, name);
  return h;
}

std::string safetensors_header(SafetensorsHeader* h) {
  std::unordered_set<std::string> seen{kMetadata}, keys;
  std::vector<size_t> order(h->tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return dtype_size(h->tensors[a].dtype) > dtype_size(h->tensors[b].dtype);
  });
  size_t at = 0;
  for (size_t i : order) {
    SafetensorsEntry& e = h->tensors[i];
    check_name(e.name, &seen);
    e.begin = at;
    e.end = at += static_cast<size_t>(data_bytes(e.dtype, e.shape, quoted(e.name)));
  }
  std::string json = "{";
  const auto comma = [&] {
    if (json.size() > 1) json += ',';
  };
  if (!h->metadata.empty()) {
    json += format("\"%s\":{", kMetadata);
    for (const auto& [key, value] : h->metadata) {
      check_name(key, &keys);
      TYCHO_CHECK(Kind::Io, is_utf8(value), "the value of %s is not UTF-8 text",
                  quoted(key).c_str());
      if (json.back() != '{') json += ',';
      json_append(&json, key);
      json += ':';
      json_append(&json, value);
    }
    json += '}';
  }
  for (const SafetensorsEntry& e : h->tensors) {
    comma();
    json_append(&json, e.name);
    json += format(":{\"dtype\":\"%s\",\"shape\":[", kNames[static_cast<int>(e.dtype)]);
    for (int d = 0; d < e.shape.size(); ++d) json += (d ? "," : "") + std::to_string(e.shape[d]);
    json += format("],\"data_offsets\":[%zu,%zu]}", e.begin, e.end);
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  h->data_offset = 8 + json.size();
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + json;
}

}  // namespace tycho::io
