// The short list of classes and functions that a pickle may name (see pickle_make.h).
#include "engine/io/pickle_make.h"

#include <algorithm>
#include <cmath>

#include "engine/io/file.h"
#include "engine/io/utf8.h"

namespace tycho::io {
namespace {

enum Callee : int64_t {
  kOrderedDict,
  kDefaultDict,
  kSet,
  kList,
  kTuple,
  kDict,
  kBytes,
  kEncode,
  kSize,
  kDevice,
  kTensor,
  kTypedTensor,
  kParameter,
  kFromType,
  kVersion,
  kNumpyType,
  kNumpyNumber,
  kNumpyArray,
  kInert,  // classes that stand beside others, and are never called
  kUntyped,
  kStorage,  // and after it those of each dtype
};

constexpr struct {
  const char* name;
  Callee callee;
} kCallees[] = {{"collections.OrderedDict", kOrderedDict},
                {"collections.Counter", kOrderedDict},
                {"collections.defaultdict", kDefaultDict},
                {"builtins.set", kSet},
                {"builtins.frozenset", kSet},
                {"builtins.list", kList},
                {"builtins.tuple", kTuple},
                {"builtins.dict", kDict},
                {"builtins.bytearray", kBytes},
                {"builtins.bytes", kBytes},
                {"_codecs.encode", kEncode},
                {"torch.Size", kSize},
                {"torch.device", kDevice},
                {"torch._utils._rebuild_tensor", kTensor},
                {"torch._utils._rebuild_tensor_v2", kTensor},
                {"torch._utils._rebuild_tensor_v3", kTypedTensor},
                {"torch._utils._rebuild_parameter", kParameter},
                {"torch._utils._rebuild_parameter_with_state", kParameter},
                {"torch._tensor._rebuild_from_type_v2", kFromType},
                {"torch.torch_version.TorchVersion", kVersion},
                {"torch.Tensor", kInert},
                {"torch._tensor.Tensor", kInert},
                {"torch.nn.parameter.Parameter", kInert},
                {"torch.nn.parameter.Buffer", kInert},
                {"builtins.int", kInert},
                {"builtins.float", kInert},
                {"builtins.str", kInert},
                {"numpy.ndarray", kInert},
                {"numpy.dtype", kNumpyType},
                {"numpy.core.multiarray.scalar", kNumpyNumber},
                {"numpy._core.multiarray.scalar", kNumpyNumber},
                {"numpy.core.multiarray._reconstruct", kNumpyArray},
                {"numpy._core.multiarray._reconstruct", kNumpyArray},
                {"torch.storage.UntypedStorage", kUntyped},
                {"torch.UntypedStorage", kUntyped}};

// Kinds of tensors that are not here, and how PyTorch makes plain ones of them.
constexpr struct {
  const char *name, *what, *hint;
} kForeign[] = {
    {"torch._utils._rebuild_sparse_tensor", "a sparse tensor", "x.to_dense()"},
    {"torch._utils._rebuild_sparse_csr_tensor", "a sparse tensor", "x.to_dense()"},
    {"torch._utils._rebuild_qtensor", "a quantised tensor", "x.dequantize()"},
    {"torch._utils._rebuild_nested_tensor", "a nested tensor", "x.to_padded_tensor(0.0)"},
    {"torch._utils._rebuild_meta_tensor_no_storage", "a tensor without values (device meta)",
     "torch.empty_like(x, device=\"cpu\")"}};

constexpr const char* kStorages[kDTypes] = {
    "BoolStorage", "ByteStorage", "CharStorage",     "ShortStorage", "IntStorage",
    "LongStorage", "HalfStorage", "BFloat16Storage", "FloatStorage", "DoubleStorage"};

std::string short_name(std::string_view s) {
  std::string text(s.substr(0, 100));
  for (char& c : text)
    if (static_cast<uint8_t>(c) < 0x20 || static_cast<uint8_t>(c) > 0x7e) c = '?';
  return text;
}

}  // namespace

const char* storage_class(DType t) { return kStorages[static_cast<int>(t)]; }

void PickleMaker::bad(const std::string& why) const { damaged(name_, "its pickle: " + why); }

uint32_t PickleMaker::node(PickleKind kind, int64_t integer) {
  PickleNode n;
  n.kind = kind;
  n.integer = integer;
  p_.nodes.push_back(n);
  return static_cast<uint32_t>(p_.nodes.size() - 1);
}

uint32_t PickleMaker::list(PickleKind kind, std::vector<uint32_t> items) {
  p_.lists.push_back(std::move(items));
  return node(kind, static_cast<int64_t>(p_.lists.size() - 1));
}

uint32_t PickleMaker::text(std::string_view s) {
  if (s.size() > 0xffffffff) bad("a text is longer than 4 GB");
  const uint32_t i = node(PickleKind::Text);
  p_.nodes[i].text = s.data();
  p_.nodes[i].size = static_cast<uint32_t>(s.size());
  return i;
}

void PickleMaker::copies(size_t n) {
  if (n > copies_) bad("it copies more than it holds");
  copies_ -= n;
}

int64_t PickleMaker::integer(uint32_t i) const {
  if (p_[i].kind != PickleKind::Int) bad("a number is expected in what makes a tensor");
  return p_[i].integer;
}

std::string_view PickleMaker::word(uint32_t i) const {
  if (p_[i].kind != PickleKind::Text) bad("a text is expected in what makes a tensor");
  return p_[i].view();
}

const std::vector<uint32_t>& PickleMaker::items(uint32_t i) const {
  const PickleKind k = p_[i].kind;
  if (k != PickleKind::List && k != PickleKind::Tuple && k != PickleKind::Set)
    bad("a list is expected");
  return p_.list(p_[i]);
}

Sizes PickleMaker::sizes(uint32_t i) const {
  Sizes s;
  const auto& list = items(i);
  if (list.size() > kMaxDims)
    fail(Kind::Io, name_ + format(" holds a tensor of more than %d dimensions", kMaxDims));
  for (const uint32_t k : list) s.push_back(integer(k));
  return s;
}

void PickleMaker::check_key(uint32_t i) const {
  const PickleNode& n = p_[i];
  using K = PickleKind;
  if (n.kind == K::Text || n.kind == K::Int || n.kind == K::Bool || n.kind == K::Tuple ||
      (n.kind == K::Float && !std::isnan(n.real)))
    return;
  if (n.kind == K::Class) wrong_class(i);
  fail(Kind::Io,
       name_ + " holds a dict with a key that no table can have (None, nan or an object)");
}

void PickleMaker::wrong_class(uint32_t i) const {
  const int64_t c = p_[i].integer;
  const char* name = c > kStorage ? kStorages[c - kStorage - 1] : "a storage";
  for (const auto& k : kCallees)
    if (k.callee == c) {
      name = k.name;
      break;
    }
  fail(Kind::Io, name_ + " holds the class " + name + " itself where a value is expected");
}

uint32_t PickleMaker::global(std::string_view module, std::string_view name) {
  if (module == "__builtin__") module = "builtins";
  const std::string full = std::string(module) + "." + std::string(name);
  for (const auto& k : kCallees)
    if (full == k.name) return node(PickleKind::Class, k.callee);
  if (module == "torch" || module == "torch.storage" || module == "torch.cuda")
    for (int t = 0; t < kDTypes; ++t) {
      if (name == kStorages[t]) return node(PickleKind::Class, kStorage + 1 + t);
      if (module == "torch" && name == dtype_name(static_cast<DType>(t)))
        return node(PickleKind::DType, t);
    }
  // Dtypes: words in small letters that begin as these.
  bool dtype = false;
  for (const char* begin : {"uint", "int", "float", "complex", "quint", "qint", "bits"})
    dtype |= module == "torch" && name.starts_with(begin);
  if (dtype || (module.starts_with("torch") && name.ends_with("Storage")))
    fail(Kind::Io, name_ + " holds tensors of the type " + short_name(full) +
                       ", which no tensor here can be; convert them in PyTorch first");
  for (const auto& k : kForeign)
    if (full == k.name)
      fail(Kind::Io, name_ + " holds " + k.what + ", which is not here; save a dense one instead",
           std::string(k.hint) + "  # in PyTorch, before torch.save");
  const bool numpy = module.starts_with("numpy");
  fail(Kind::Io,
       name_ + " names " + short_name(full) +
           ", which is code and not data: nothing in a file is ever run or built by its class",
       numpy ? "float(x), torch.from_numpy(a)  # in Python, of NumPy's values before torch.save"
             : "torch.save(model.state_dict(), path)  # in PyTorch: saves the tensors by name");
}

uint32_t PickleMaker::storage(uint32_t id) {
  const auto& a = items(id);
  if (a.size() < 5 || word(a[0]) != "storage") bad("it refers to something that is no storage");
  if (a.size() > 5 && p_[a[5]].kind != PickleKind::None)
    fail(Kind::Io, name_ + " is of a PyTorch before 0.4; load and save it in a newer PyTorch");
  if (!is_class(a[1]) || p_[a[1]].integer < kUntyped) bad("a storage has no type");
  const int64_t type = p_[a[1]].integer;
  PickleStorage s;
  s.dtype = type > kStorage ? static_cast<DType>(type - kStorage - 1) : DType::UInt8;
  if (word(a[2]).size() > 200 || word(a[3]).size() > 200) bad("a storage has a long name");
  s.key = word(a[2]);
  s.device = word(a[3]);
  s.numel = integer(a[4]);
  if (s.numel < 0 || s.numel > (int64_t{1} << 60)) bad("a storage has an impossible size");
  p_.storages.push_back(std::move(s));
  return node(PickleKind::Storage, static_cast<int64_t>(p_.storages.size() - 1));
}

// (storage, offset, sizes, strides, requires_grad, hooks); the third version adds the dtype.
uint32_t PickleMaker::make_tensor(const std::vector<uint32_t>& a) {
  if (p_[a[0]].kind != PickleKind::Storage) bad("a tensor has no storage");
  PickleTensor t{};
  t.storage = static_cast<uint32_t>(p_[a[0]].integer);
  const PickleStorage& s = p_.storages[t.storage];
  t.dtype = s.dtype;
  t.offset = integer(a[1]);
  t.shape = sizes(a[2]);
  t.stride = sizes(a[3]);
  t.requires_grad = a.size() > 4 && p_[a[4]].kind == PickleKind::Bool && p_[a[4]].integer;
  if (a.size() > 6 && p_[a[6]].kind == PickleKind::DType)
    t.dtype = static_cast<DType>(p_[a[6]].integer);
  // What is to be done to the elements when they are read stands in a dict at the end.
  for (size_t i = 6; i < a.size(); ++i)
    if (p_[a[i]].kind == PickleKind::Dict && !p_.list(p_[a[i]]).empty())
      fail(Kind::Io, name_ + " holds a tensor that is to be negated or conjugated when it is read",
           "x.resolve_neg().resolve_conj()  # in PyTorch, before torch.save");
  const int64_t width = dtype_size(t.dtype), room = s.numel * dtype_size(s.dtype) / width;
  if (t.shape.size() != t.stride.size()) bad("a tensor has fewer strides than sizes");
  data_bytes(t.dtype, t.shape, name_);
  bool empty = false, outside = t.offset < 0;
  int64_t last = t.offset;
  for (int d = 0; d < t.shape.size(); ++d) {
    empty |= t.shape[d] == 0;
    int64_t step;
    outside |= t.stride[d] < 0 ||
               (t.shape[d] > 0 && (__builtin_mul_overflow(t.shape[d] - 1, t.stride[d], &step) ||
                                   __builtin_add_overflow(last, step, &last)));
  }
  // An empty slice may begin behind the end (zeros(0, 3)[{{}, {2}}]); it shows nothing of the
  // storage.
  if (empty) t.offset = 0;
  if (outside || (!empty && last >= room)) bad("a tensor reaches over the end of its storage");
  if (t.requires_grad && !is_floating(t.dtype)) bad("a tensor of integers requires grad");
  p_.tensors.push_back(t);
  return node(PickleKind::Tensor, static_cast<int64_t>(p_.tensors.size() - 1));
}

void PickleMaker::build(uint32_t value, uint32_t state) {
  using K = PickleKind;
  const K kind = p_[value].kind;
  const bool list = p_[state].kind == K::Tuple;
  // The attributes of a dict (the versions of a state dict's modules) are of no use here.
  if (kind == K::Dict) return;
  if (kind == K::NumpyArray && list) return fill_array(value, std::vector(p_.list(p_[state])));
  if (kind != K::NumpyType || !list) bad("it sets attributes of a value that has none");
  // (3, byte order, ...)
  const auto& parts = p_.list(p_[state]);
  if (parts.size() > 1 && p_[parts[1]].kind == K::Text && p_[parts[1]].view() == ">")
    p_.nodes[value].integer |= 256;
}

uint32_t PickleMaker::make(uint32_t callee, uint32_t arguments) {
  if (!is_class(callee)) bad("it calls a value that is no function");
  if (p_[arguments].kind != PickleKind::Tuple) bad("it calls a function without arguments");
  // No function takes more; a copy, because making adds lists.
  const auto& all = p_.list(p_[arguments]);
  const std::vector<uint32_t> a(all.begin(),
                                all.begin() + std::min<std::ptrdiff_t>(8, std::ssize(all)));
  const auto kind = [&](size_t i) { return i < a.size() ? p_[a[i]].kind : PickleKind::None; };
  using K = PickleKind;
  switch (p_[callee].integer) {
    case kDefaultDict:
      return list(K::Dict, {});
    case kOrderedDict:
    case kDict: {
      std::vector<uint32_t> pairs;
      if (kind(0) == K::Dict) {
        copies(p_.list(p_[a[0]]).size());
        return list(K::Dict, std::vector(p_.list(p_[a[0]])));
      }
      if (!a.empty()) copies(items(a[0]).size());
      if (!a.empty())
        for (const uint32_t pair : items(a[0])) {
          const auto& two = items(pair);
          if (two.size() != 2) bad("a dict is made of something else than pairs");
          check_key(two[0]);
          pairs.insert(pairs.end(), two.begin(), two.end());
        }
      return list(K::Dict, std::move(pairs));
    }
    case kSet:
    case kList:
    case kTuple:
    case kSize: {
      const int64_t c = p_[callee].integer;
      const K made = c == kSet ? K::Set : c == kList ? K::List : K::Tuple;
      if (!a.empty()) copies(items(a[0]).size());
      return list(made, a.empty() ? std::vector<uint32_t>() : std::vector(items(a[0])));
    }
    case kBytes:
      if (a.empty()) return text({});
      if (a.size() == 1 && kind(0) == K::Text) return a[0];
      [[fallthrough]];
    case kEncode: {
      if (kind(0) != K::Text || (kind(1) == K::Text && !p_[a[1]].view().starts_with("latin")))
        bad("bytes in an unknown form");
      // Characters up to 255, each for one byte.
      std::string bytes;
      const std::string_view s = p_[a[0]].view();
      copies(s.size());
      for (size_t i = 0; i < s.size(); ++i) {
        const uint8_t c = static_cast<uint8_t>(s[i]);
        if (c >= 0x80 && (c >> 2 != 0x30 || i + 1 == s.size())) bad("bytes in an unknown form");
        bytes += c < 0x80 ? s[i] : static_cast<char>(c << 6 | (s[i + 1] & 0x3f));
        i += c >= 0x80;
      }
      return text(p_.texts.emplace_back(std::move(bytes)));
    }
    case kDevice: {
      if (kind(0) != K::Text) bad("a device has no name");
      std::string device(p_[a[0]].view().substr(0, 200));
      if (kind(1) == K::Int) device += ":" + std::to_string(p_[a[1]].integer);
      const uint32_t i = text(p_.texts.emplace_back(std::move(device)));
      p_.nodes[i].kind = K::Device;
      return i;
    }
    case kTensor:
    case kTypedTensor:
      if (a.size() < 4) bad("a tensor is made of too little");
      return make_tensor(a);
    case kParameter:
      if (kind(0) != K::Tensor || kind(1) != K::Bool) bad("a parameter holds no tensor");
      return list(K::Parameter, {a[0], a[1]});
    case kFromType:
      // The function that makes it, its class (a tensor is one here), the arguments, attributes.
      if (a.size() < 3 || !is_class(a[0]) || p_[a[0]].integer == kFromType)
        bad("a tensor is made by something else than a function");
      return make(a[0], a[2]);
    case kVersion:
      if (kind(0) != K::Text) bad("a version is no text");
      return a[0];
    case kNumpyType:
      if (kind(0) != K::Text) bad("a type of NumPy has no name");
      return numpy_type(p_[a[0]].view());
    case kNumpyNumber:
      return numpy_number(a);
    case kNumpyArray:
      return node(K::NumpyArray);
    default:
      wrong_class(callee);
  }
}

}  // namespace tycho::io
