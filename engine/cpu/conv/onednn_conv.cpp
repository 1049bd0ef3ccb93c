// Convolutions through oneDNN: activations with channels last, the weight packed into the layout
// that the primitive asks for, at every call (it costs a few percent; in training every weight is
// new). The work is cut into pieces of images, or of lines where there are few images: pieces run
// on our own pool, each on one thread, and are short enough for interrupts.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/conv/conv_pack.h"
#include "engine/cpu/conv/onednn_pieces.h"
#include "engine/cpu/library/onednn.h"
#include "engine/cpu/library/onednn_cache.h"
#include "engine/cpu/library/trust.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

using dnnl::memory;

struct Held {
  bool usable = false;
  HeldPrimitive primitive, pack;  // `pack`: between the plain weight and the primitive's layout
  memory::desc packed_desc;
  bool packs = false;
  bool quick = false;  // by our own kernels, as `pack_plan` says
  ConvPack pack_plan;
  memory x, w, y, bias, plain;
};

memory::data_type type_of(int64_t dtype) {
  return static_cast<DType>(dtype) == DType::BFloat16 ? memory::data_type::bf16
                                                      : memory::data_type::f32;
}

memory::desc images_desc(const ConvKey& k, int64_t channels, const int64_t* size) {
  memory::dims dims{k.images, channels}, strides{0, 1};
  for (int d = is_volume(k) ? 0 : 1; d < 3; ++d) dims.push_back(size[d]);
  strides.resize(dims.size());
  int64_t step = channels;
  for (size_t d = dims.size() - 1; d >= 2; --d) strides[d] = step, step *= dims[d];
  strides[0] = step;
  return {dims, type_of(k.dtype), strides};
}

// The weight as the user has it (`plain`), or in a layout of oneDNN's choice.
memory::desc weight_desc(const ConvKey& k, int64_t dtype, bool plain) {
  memory::dims dims, strides;
  const auto add = [&](int64_t size, int64_t stride) {
    dims.push_back(size), strides.push_back(stride);
  };
  if (k.groups > 1) add(k.groups, k.out_channels / k.groups * k.weight_stride[0]);
  add(k.out_channels / k.groups, k.weight_stride[0]);
  add(k.channels / k.groups, k.weight_stride[1]);
  for (int d = is_volume(k) ? 0 : 1; d < 3; ++d) add(k.kernel[d], k.weight_stride[d + 2]);
  if (plain) return {dims, type_of(dtype), strides};
  return {dims, type_of(dtype), memory::format_tag::any};
}

// Whether our own kernels know the layout: blocks of outputs (for packing bfloat16, of pairs)
// innermost, or of inputs around 16 outputs (for unpacking).
bool plan_pack(const ConvKey& k, const memory::desc& packed, ConvPack* p) {
  const auto& d = packed.data;
  const auto& b = d.format_desc.blocking;
  const int64_t taps = k.kernel[0] * k.kernel[1] * k.kernel[2];
  *p = {k.out_channels, k.channels, taps, 0, b.strides[0], b.strides[1], {}};
  if (d.format_kind != dnnl_blocked || d.offset0 != 0 || k.groups != 1 ||
      taps > ConvPack::kMostTaps)
    return false;
  // The user's side: row-major, but for an order of the taps of its own (of turned images).
  if ((k.out_channels > 1 && k.weight_stride[0] != k.channels * taps) ||
      (k.channels > 1 && k.weight_stride[1] != taps))
    return false;
  const int64_t* const step = k.weight_stride + 2;
  std::array<bool, ConvPack::kMostTaps> there{};
  if (k.kind == kConvWeight) {
    if (b.inner_nblks != 2 || b.inner_blks[0] != 16 || b.inner_idxs[0] != 1 ||
        b.inner_blks[1] != 16 || b.inner_idxs[1] != 0)
      return false;
    p->block = 16;
  } else {
    const bool pairs = k.dtype == static_cast<int64_t>(DType::BFloat16);
    if (b.inner_nblks != (pairs ? 2 : 1) || b.inner_idxs[0] != 0 || b.inner_blks[0] % 16 != 0)
      return false;
    if (pairs && (b.inner_blks[1] != 2 || b.inner_idxs[1] != 1)) return false;
    p->block = b.inner_blks[0];
  }
  const int64_t* const at = b.strides + 2;  // of two or three kernel sizes
  const bool volume = is_volume(k);
  for (int64_t z = 0; z < k.kernel[0]; ++z)
    for (int64_t y = 0; y < k.kernel[1]; ++y)
      for (int64_t x = 0; x < k.kernel[2]; ++x) {
        const int64_t t = z * step[0] + y * step[1] + x * step[2];
        if (t < 0 || t >= taps || there[t]) return false;
        there[t] = true;
        p->tap_at[t] = volume ? z * at[0] + y * at[1] + x * at[2] : y * at[0] + x * at[1];
      }
  return true;
}

Held make(const ConvKey& k) {
  Held h;
  memory::dims stride, dilation, front, back;
  for (int d = is_volume(k) ? 0 : 1; d < 3; ++d) {
    stride.push_back(k.stride[d]);
    dilation.push_back(k.dilation[d] - 1);
    front.push_back(k.front[d]);
    const int64_t reach = (k.out[d] - 1) * k.stride[d] + (k.kernel[d] - 1) * k.dilation[d] + 1;
    back.push_back(std::max<int64_t>(0, reach - k.in[d] - k.front[d]));
  }
  const auto x = images_desc(k, k.channels, k.in), y = images_desc(k, k.out_channels, k.out);
  // Gradients of weights are summed in float32 and rounded when they are unpacked.
  const int64_t f32 = static_cast<int64_t>(DType::Float32);
  const auto w = weight_desc(k, k.kind == kConvWeight ? f32 : k.dtype, false);
  const auto plain = weight_desc(k, k.weight_dtype, true);
  const memory::desc bias({k.out_channels}, type_of(k.dtype), memory::format_tag::x);
  const auto& engine = onednn_engine();
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto training = dnnl::prop_kind::forward_training;
  const auto attr = onednn_attr();
  const auto take = [&]<class P>(const auto& desc, const memory::desc& packed, P*) {
    // What falls back on plain loops is better off with our own kernels.
    const std::string_view name = desc.impl_info_str();
    h.usable = name.substr(0, 3) != "ref" && name.find("gemm:") == name.npos;
    h.primitive = HeldPrimitive::of<P>(desc);
    h.packed_desc = packed;
  };
  dnnl::convolution_forward::primitive_desc forward(
      k.bias ? dnnl::convolution_forward::desc(training, direct, x, w, bias, y, stride, dilation,
                                               front, back)
             : dnnl::convolution_forward::desc(
                   training, direct, x, k.kind == kConvWeight ? weight_desc(k, k.dtype, false) : w,
                   y, stride, dilation, front, back),
      attr, engine);
  // Its pairs of an odd number of channels reach behind the last pixel, where anything may lie; the
  // implementation that comes next masks them.
  const bool odd = k.dtype == static_cast<int64_t>(DType::BFloat16) && k.channels / k.groups % 2;
  const std::string_view reaching = "brgconv:";
  while (odd && std::string_view(forward.impl_info_str()).starts_with(reaching))
    if (!forward.next_impl()) return {};
  if (k.kind == kConvForward) {
    take(forward, forward.weights_desc(), static_cast<dnnl::convolution_forward*>(nullptr));
  } else if (k.kind == kConvInput) {
    const dnnl::convolution_backward_data::primitive_desc desc(
        dnnl::convolution_backward_data::desc(direct, x, w, y, stride, dilation, front, back), attr,
        engine, forward);
    take(desc, desc.weights_desc(), static_cast<dnnl::convolution_backward_data*>(nullptr));
  } else {
    const dnnl::convolution_backward_weights::primitive_desc desc(
        dnnl::convolution_backward_weights::desc(direct, x, w, y, stride, dilation, front, back),
        attr, engine, forward);
    take(desc, desc.diff_weights_desc(), static_cast<dnnl::convolution_backward_weights*>(nullptr));
  }
  h.packs = h.packed_desc != plain;
  const auto from = k.kind == kConvWeight ? h.packed_desc : plain;
  const auto to = k.kind == kConvWeight ? plain : h.packed_desc;
  if (h.packs) h.quick = plan_pack(k, h.packed_desc, &h.pack_plan);
  if (h.packs && h.usable && !h.quick)
    h.pack = HeldPrimitive::of<dnnl::reorder>(
        dnnl::reorder::primitive_desc(engine, from, engine, to, attr));
  h.x = memory(x, engine, nullptr);
  h.y = memory(y, engine, nullptr);
  h.w = memory(h.packed_desc, engine, nullptr);
  h.plain = memory(plain, engine, nullptr);
  h.bias = memory(bias, engine, nullptr);
  return h;
}

// Where oneDNN has no implementation at all, our own kernels compute.
Held make_or_none(const ConvKey& k) {
  try {
    return make(k);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_unimplemented || e.status == dnnl_invalid_arguments) return {};
    throw;
  }
}

Held& held(const ConvKey& k) {
  thread_local HeldCache<ConvKey, Held> cache;
  return cache.get(k, make_or_none);
}

void point(memory& m, const void* p) { dnnl_memory_set_data_handle(m.get(), const_cast<void*>(p)); }

ConvKey key_of(const Convolution& c, int64_t kind, bool bias, const PlainWeight& w) {
  ConvKey k{};
  const Window& win = c.window;
  k.kind = kind;
  k.dtype = static_cast<int64_t>(c.dtype);
  k.weight_dtype = static_cast<int64_t>(w.dtype);
  k.bias = bias;
  k.images = win.images;
  k.channels = win.channels;
  k.groups = c.groups;
  k.out_channels = c.out_channels;
  for (int d = 0; d < 3; ++d) {
    k.in[d] = win.in[d], k.out[d] = win.out[d], k.kernel[d] = win.kernel[d];
    k.stride[d] = win.stride[d], k.front[d] = win.pad[d], k.dilation[d] = win.dilation[d];
  }
  std::copy_n(w.stride, 5, k.weight_stride);
  return k;
}

const char* at(const void* p, int64_t i, const ConvKey& k) {
  return static_cast<const char*>(p) + i * dtype_size(static_cast<DType>(k.dtype));
}

void run(Held& h, int64_t kind, const void* x, const void* w, const void* y, const void* bias) {
  point(h.x, x), point(h.y, y), point(h.w, w);
  dnnl_exec_arg_t args[kMostArgs];
  if (kind == kConvForward) {
    args[0] = {DNNL_ARG_SRC, h.x.get()};
    args[1] = {DNNL_ARG_WEIGHTS, h.w.get()};
    args[2] = {DNNL_ARG_DST, h.y.get()};
    args[3] = {DNNL_ARG_BIAS, h.bias.get()};
    if (bias) point(h.bias, bias);
  } else if (kind == kConvInput) {
    args[0] = {DNNL_ARG_DIFF_SRC, h.x.get()};
    args[1] = {DNNL_ARG_WEIGHTS, h.w.get()};
    args[2] = {DNNL_ARG_DIFF_DST, h.y.get()};
  } else {
    args[0] = {DNNL_ARG_SRC, h.x.get()};
    args[1] = {DNNL_ARG_DIFF_WEIGHTS, h.w.get()};
    args[2] = {DNNL_ARG_DIFF_DST, h.y.get()};
  }
  onednn_run(h.primitive, args, bias ? 4 : 3);
}

void reorder(Held& h, const ConvKey& k, const void* from, void* to) {
  const bool unpack = k.kind == kConvWeight;
  if (h.quick) {
    const ConvPack* const p = &h.pack_plan;
    const int bytes = dtype_size(static_cast<DType>(unpack ? k.weight_dtype : k.dtype));
    const int64_t rest = p->out % p->block;
    if (!unpack && rest != 0) {  // outputs that are not there are zeros
      const size_t last = static_cast<size_t>(p->out / p->block * p->out_step * bytes);
      std::memset(static_cast<char*>(to) + last, 0, h.packed_desc.get_size() - last);
    }
    parallel_for(p->units(), std::max<int64_t>(1, 64 / p->taps), [&](int64_t begin, int64_t end) {
      if (unpack)
        level_of::conv_unpack(bytes, p, from, to, begin, end);
      else
        level_of::conv_pack(bytes, p, from, to, begin, end);
    });
    return;
  }
  memory &a = unpack ? h.w : h.plain, &b = unpack ? h.plain : h.w;
  point(a, from), point(b, to);
  dnnl_exec_arg_t args[kMostArgs] = {{DNNL_ARG_FROM, a.get()}, {DNNL_ARG_TO, b.get()}};
  onednn_run(h.pack, args, 2);
}

bool trusted(const Convolution& c, Primitive p) {
  return trusts_onednn({p, c.dtype, &c.window, c.groups, c.out_channels});
}

constexpr double kMostWork = 2e9;  // multiply-adds between two looks for an interrupt: 15 to 30 ms

// Whether oneDNN has a kernel for every piece: what it takes differs between the whole and its edges.
bool all_usable(const ConvCut& cut) {
  for (int64_t i = 0; i < cut.count; ++i)
    if (!held(cut.piece(i).key).usable) return false;
  return true;
}

// Forward and the input's gradient: pieces write different parts of the result.
bool by_pieces(const ConvKey& whole, const void* x, const void* w, const void* bias,
               const void* y) {
  return onednn_guard([&] {
    const int64_t threads = get_num_threads();
    const ConvCut cut(whole, threads > 1 ? 2 * threads : 1, kMostWork);
    if (!all_usable(cut)) return false;
    Held& first = held(cut.piece(0).key);
    const memory::desc layout = first.packed_desc;
    const Scratch scratch(first.packs ? layout.get_size() : 0);
    const void* packed = first.packs ? scratch.data() : w;
    if (first.packs) reorder(first, whole, w, scratch.data());
    parallel_for(cut.count, 1, [&](int64_t begin, int64_t end) {
      onednn_guard([&] {
        for (int64_t i = begin; i < end; ++i) {
          check_interrupt();
          const ConvPiece p = cut.piece(i);
          Held& h = held(p.key);
          TYCHO_CHECK(Kind::Value, h.usable, "convolution: oneDNN has no kernel for a part of it");
          const bool same = h.packed_desc == layout;
          const Scratch own(same || !h.packs ? 0 : h.packed_desc.get_size());
          if (!same && h.packs) reorder(h, whole, w, own.data());
          run(h, whole.kind, at(x, p.x, whole),
              same      ? packed
              : h.packs ? own.data()
                        : w,
              at(y, p.y, whole), bias);
        }
      });
    });
    return true;
  });
}

void add_up(float* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

}  // namespace

bool has_onednn_conv(const Convolution& c) {
  const Window& w = c.window;
  if (level() != Level::v4 || (c.dtype != DType::Float32 && c.dtype != DType::BFloat16))
    return false;
  for (int d = 0; d < 3; ++d)
    if (w.in[d] < 1 || w.out[d] < 1) return false;
  return w.images > 0 && w.channels > 0 && c.out_channels > 0;
}

bool onednn_conv_forward(const Convolution& c, const void* x, const PlainWeight& w,
                         const void* bias, void* y) {
  return trusted(c, Primitive::Convolution) &&
         by_pieces(key_of(c, kConvForward, bias != nullptr, w), x, w.data, bias, y);
}

bool onednn_conv_input(const Convolution& c, const void* y, const PlainWeight& w, void* x) {
  return trusted(c, Primitive::ConvolutionInput) &&
         by_pieces(key_of(c, kConvInput, false, w), x, w.data, nullptr, y);
}

// Every thread sums its pieces into a weight of its own; these are added in order.
bool onednn_conv_weight(const Convolution& c, const void* y, const void* x, const PlainWeight& w) {
  if (!trusted(c, Primitive::ConvolutionWeight)) return false;
  const ConvKey whole = key_of(c, kConvWeight, false, w);
  return onednn_guard([&] {
    const int64_t threads = get_num_threads();
    const ConvCut cut(whole, threads, 4 * kMostWork);
    if (!all_usable(cut)) return false;
    Held& first = held(cut.piece(0).key);
    const memory::desc layout = first.packed_desc;
    for (int64_t i = 1; i < cut.count; ++i)
      if (held(cut.piece(i).key).packed_desc != layout) return false;
    const int64_t numel = static_cast<int64_t>(layout.get_size() / sizeof(float));
    const int64_t parts = std::min(cut.count, threads);
    const bool direct = !first.packs && parts == 1;
    const Scratch sums(direct ? 0 : static_cast<size_t>(parts * numel) * sizeof(float));
    const auto sum_of = [&](int64_t part) {
      return direct ? static_cast<float*>(w.data)
                    : reinterpret_cast<float*>(sums.data()) + part * numel;
    };
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      onednn_guard([&] {
        for (int64_t part = begin; part < end; ++part) {
          const int64_t from = cut.count * part / parts, to = cut.count * (part + 1) / parts;
          const Scratch more(to - from > 1 ? static_cast<size_t>(numel) * sizeof(float) : 0);
          for (int64_t i = from; i < to; ++i) {
            check_interrupt();
            const ConvPiece p = cut.piece(i);
            Held& h = held(p.key);
            TYCHO_CHECK(Kind::Value, h.usable && h.packed_desc == layout,
                        "convolution: oneDNN has no kernel for a part of it");
            float* const sum = i == from ? sum_of(part) : reinterpret_cast<float*>(more.data());
            run(h, kConvWeight, at(x, p.x, whole), sum, at(y, p.y, whole), nullptr);
            if (i > from) add_up(sum_of(part), sum, numel);
          }
        }
      });
    });
    for (int64_t part = 1; part < parts; ++part)
      parallel_for(numel, 1 << 16, [&](int64_t begin, int64_t end) {
        add_up(sum_of(0) + begin, sum_of(part) + begin, end - begin);
      });
    if (first.packs)
      reorder(first, whole, static_cast<const void*>(sum_of(0)), w.data);
    else if (!direct)
      std::memcpy(w.data, sum_of(0), static_cast<size_t>(numel) * sizeof(float));
    return true;
  });
}

}  // namespace tycho::cpu
