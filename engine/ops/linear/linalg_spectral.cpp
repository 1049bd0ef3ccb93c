// Eigenvalues, singular values, QR, and what is made of them: pseudo-inverse, rank.
// Gradients as in Giles (2008), for QR as in Roberts and Roberts, "QR and LQ decomposition matrix backpropagation algorithms" (2020), for the pseudo-inverse as in Golub
// and Pereyra, "The differentiation of pseudo-inverses" (1973). Vectors that belong to equal values
// have no gradient: there it is infinite or nan, as in PyTorch.
#include <cmath>
#include <cstring>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

Tensor row(const Tensor& v) { return op<"unsqueeze">(v, -2); }
Tensor column(const Tensor& v) { return op<"unsqueeze">(v, -1); }
Tensor eye_of(const Tensor& like, int64_t n) {
  return op<"eye">(n, Value(), like.dtype(), like.device());
}

// w_j - w_i, with ones on the diagonal where it divides a zero.
Tensor gaps(const Tensor& w) {
  const Tensor d = row(w) - column(w);
  return d + eye_of(w, w.size(-1));
}
// Without its diagonal.
Tensor hollow(const Tensor& x) { return x - op<"diag_embed">(op<"diagonal">(x, 0, -2, -1)); }

void check_triangle(const char* name, const char* told) {
  TYCHO_CHECK(Kind::Value, !std::strcmp(told, "L") || !std::strcmp(told, "U"),
              "%s: UPLO is \"L\" or \"U\", not \"%s\"", name, told);
}

const Op& eigh = add_op(
    {.name = "eigh",
     .args = "self, UPLO: string = L",
     .doc = "Eigenvalues (ascending) and eigenvectors (as columns) of a symmetric matrix, of which "
            "one triangle is read.",
     .where = kLinalg,
     .amp = Amp::F32,
     .saves = "out, out2",
     .see = "linalg.eigvalsh, linalg.svd",
     .rule = "[.., n, n] -> [.., n], [.., n, n]",
     .example = "(torch.linalg.eigh(torch.tensor{{2., 0.}, {0., 1.}})) --> f32 [2]  1 2",
     .shape =
         [](Call& c) {
           const Tensor& a = c.tensor(0);
           check_square("eigh", a);
           check_triangle("eigh", c.string(1));
           c.out.push_back(empty(batch_of(a, 1), a.dtype(), a.device()));
           c.out.push_back(empty_columns(a.shape(), a.dtype(), a.device()));
         },
     .grad =
         [](Backward& b) {
           const Tensor w = b.out(0), v = b.out(1), t = turned(v);
           Tensor inner;
           if (b.has_g(1)) inner = hollow(mm(t, b.g(1))) / gaps(w);
           if (b.has_g(0)) {
             const Tensor values = op<"diag_embed">(b.g(0));
             inner = inner ? inner + values : values;
           }
           b.set(0, mm(mm(v, inner), t));
         },
     .samples =
         [](Samples& s) {
           s.add({s.of({2, 2}, {2, 1, 1, 3})}, false);
           s.add({s.of({2, 2, 2}, {2, 1, 1, 3, 1, 0, 0, 4}), "U"}, false);
         }});

const Op& eigvalsh =
    add_op({.name = "eigvalsh",
            .args = "self, UPLO: string = L",
            .doc = "The eigenvalues of a symmetric matrix, ascending.",
            .where = kLinalg,
            .amp = Amp::F32,
            .saves = "self",
            .see = "linalg.eigh",
            .rule = "[.., n, n] -> [.., n]",
            .example = "torch.linalg.eigvalsh(torch.tensor{{2., 0.}, {0., 1.}}) --> f32 [2]  1 2",
            .shape =
                [](Call& c) {
                  const Tensor& a = c.tensor(0);
                  check_square("eigvalsh", a);
                  check_triangle("eigvalsh", c.string(1));
                  c.out.push_back(empty(batch_of(a, 1), a.dtype(), a.device()));
                },
            .grad =
                [](Backward& b) {
                  const Tensor v = ops<"eigh">(b.in(0), b.string(1))[1];
                  b.set(0, mm(v * row(b.g()), turned(v)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.of({2, 2}, {2, 1, 1, 3})}, false);
                }});

void svd_grad(Backward& b) {
  const Tensor s = b.out(1);
  const int64_t k = s.size(-1);
  Tensor u = b.out(0), vh = b.out(2);
  const int64_t m = u.size(-2), n = vh.size(-1);
  Tensor gu = b.has_g(0) ? b.g(0) : Tensor(), gv = b.has_g(2) ? b.g(2) : Tensor();
  // The vectors beyond the k-th are any that complete the space: they have no gradient.
  u = op<"narrow">(u, -1, 0, k);
  vh = op<"narrow">(vh, -2, 0, k);
  if (gu) gu = op<"narrow">(gu, -1, 0, k);
  if (gv) gv = op<"narrow">(gv, -2, 0, k);
  if (!gu && !gv) {
    b.set(0, mm(u * row(b.g(1)), vh));
    return;
  }
  const Tensor squares = s * s, f = gaps(squares);
  Tensor inner;
  const auto add = [&](Tensor t) { inner = inner ? inner + t : t; };
  if (gu) {
    const Tensor p = mm(turned(u), gu);
    add(hollow(p - turned(p)) / f * row(s));
  }
  if (gv) {
    const Tensor p = mm(vh, turned(gv));
    add(column(s) * (hollow(p - turned(p)) / f));
  }
  if (b.has_g(1)) add(op<"diag_embed">(b.g(1)));
  Tensor out = mm(mm(u, inner), vh);
  if (gu && m > k) {
    const Tensor rest = gu - mm(u, mm(turned(u), gu));
    out = out + mm(rest / row(s), vh);
  }
  if (gv && n > k) {
    const Tensor rest = gv - mm(mm(gv, turned(vh)), vh);
    out = out + mm(u / row(s), rest);
  }
  b.set(0, out);
}

const Op& svd = add_op(
    {.name = "svd",
     .args = "A, full_matrices: bool = true, driver: string?",
     .doc = "Singular value decomposition A = U diag(S) Vh, the values descending.",
     .where = kLinalg,
     .amp = Amp::F32,
     .saves = "out, out2, out3",
     .see = "linalg.svdvals, linalg.eigh, linalg.pinv",
     .rule = "[.., m, n] -> [.., m, m], [.., k], [.., n, n] with k = min(m, n)",
     .example = "({torch.linalg.svd(torch.tensor{{0., 2.}, {1., 0.}})})[2] --> f32 [2]  2 1",
     .shape =
         [](Call& c) {
           const Tensor& a = c.tensor(0);
           check_matrix("svd", a);
           const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
           const bool full = c.flag(1);
           const Sizes batch = batch_of(a);
           c.out.push_back(empty_columns(joined(batch, {m, full ? m : k}), a.dtype(), a.device()));
           c.out.push_back(empty(joined(batch, {k}), a.dtype(), a.device()));
           c.out.push_back(empty_columns(joined(batch, {full ? n : k, n}), a.dtype(), a.device()));
         },
     .grad = svd_grad,
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 2}), false}, false);
           s.add({s.normal({2, 2, 3}), true}, false);
         }});

const Op& svdvals =
    add_op({.name = "svdvals",
            .args = "A, driver: string?",
            .doc = "The singular values of a matrix, descending.",
            .where = kLinalg,
            .amp = Amp::F32,
            .saves = "A",
            .see = "linalg.svd",
            .rule = "[.., m, n] -> [.., min(m, n)]",
            .example = "torch.linalg.svdvals(torch.tensor{{0., 2.}, {1., 0.}}) --> f32 [2]  2 1",
            .shape =
                [](Call& c) {
                  const Tensor& a = c.tensor(0);
                  check_matrix("svdvals", a);
                  c.out.push_back(empty(joined(batch_of(a), {std::min(a.size(-2), a.size(-1))}),
                                        a.dtype(), a.device()));
                },
            .grad =
                [](Backward& b) {
                  const auto parts = ops<"svd">(b.in(0), false);
                  b.set(0, mm(parts[0] * row(b.g()), parts[2]));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 2})});
                }});

// For reduced Q and R with at least as many rows as columns.
Tensor qr_tall_grad(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr) {
  Tensor m;
  if (gr) m = mm(r, turned(gr));
  if (gq) {
    const Tensor t = mm(turned(gq), q);
    m = m ? m - t : -t;
  }
  // copyltu: the lower triangle mirrored up.
  const Tensor lower = op<"tril">(m, -1);
  const Tensor even = op<"tril">(m) + turned(lower);
  Tensor rhs = mm(q, even);
  if (gq) rhs = rhs + gq;
  return op<"solve_triangular">(turned(r), rhs, false, false);
}

const Op& qr = add_op(
    {.name = "qr",
     .args = "A, mode: string = reduced",
     .doc = "A = Q R with orthonormal columns in Q and an upper triangle R; mode is \"reduced\", "
            "\"complete\" or \"r\" (R alone).",
     .where = kLinalg,
     .amp = Amp::F32,
     .saves = "out, out2",
     .see = "linalg.svd",
     .rule = "[.., m, n] -> [.., m, k], [.., k, n] with k = min(m, n)",
     .example = "({torch.linalg.qr(torch.tensor{{-2., 1.}, {0., -3.}})})[2]:abs() --> f32 [2, 2]  "
                "by columns\n"
                " 2  1\n"
                " 0  3",
     .shape =
         [](Call& c) {
           const Tensor& a = c.tensor(0);
           check_matrix("qr", a);
           const char* mode = c.string(1);
           const bool complete = !std::strcmp(mode, "complete"), only_r = !std::strcmp(mode, "r");
           TYCHO_CHECK(Kind::Value, complete || only_r || !std::strcmp(mode, "reduced"),
                       "qr: mode is \"reduced\", \"complete\" or \"r\", not \"%s\"", mode);
           const int64_t m = a.size(-2), n = a.size(-1), k = complete ? m : std::min(m, n);
           const Sizes batch = batch_of(a);
           c.out.push_back(only_r ? empty(Sizes{0}, a.dtype(), a.device())
                                  : empty_columns(joined(batch, {m, k}), a.dtype(), a.device()));
           c.out.push_back(empty_columns(joined(batch, {k, n}), a.dtype(), a.device()));
         },
     .grad =
         [](Backward& b) {
           TYCHO_CHECK(
               Kind::Autograd, std::strcmp(b.string(1), "r"),
               "qr: mode \"r\" has no gradient, because Q is not computed; use \"reduced\"");
           const Tensor q = b.out(0), r = b.out(1);
           const Tensor gq = b.has_g(0) ? b.g(0) : Tensor(), gr = b.has_g(1) ? b.g(1) : Tensor();
           const int64_t m = r.size(-2), n = r.size(-1);
           TYCHO_CHECK(Kind::Autograd, std::strcmp(b.string(1), "complete") || q.size(-2) <= n,
                       "qr: mode \"complete\" has a gradient only where the matrix has at least as "
                       "many columns as rows");
           if (n <= m) return b.set(0, qr_tall_grad(q, r, gq, gr));
           // Wide: A = [X Y], R = [U V], X = Q U and Y = Q V.
           const Tensor u = op<"narrow">(r, -1, 0, m), v = op<"narrow">(r, -1, m, n - m);
           const Tensor gu = gr ? op<"narrow">(gr, -1, 0, m) : Tensor();
           Tensor gv, total = gq;
           if (gr) {
             gv = op<"narrow">(gr, -1, m, n - m);
             const Tensor y = mm(q, v), more = mm(y, turned(gv));
             total = total ? total + more : more;
           }
           const Tensor gx = qr_tall_grad(q, u, total, gu);
           const Tensor gy =
               gv ? mm(q, gv) : op<"zeros">(joined(batch_of(r), {m, n - m}), r.dtype(), r.device());
           b.set(0, op<"cat">(std::vector<Tensor>{gx, gy}, -1));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 2})}, false);
           s.add({s.normal({2, 2, 3})}, false);
           s.add({s.normal({2, 3}), "complete"}, false);
         }});

// The threshold under which singular values count as zero: max(atol, rtol * largest); without both,
// rtol is eps times the larger side.
Tensor cutoff(const Call& c, const Tensor& a, const Tensor& s, int atol, int rtol) {
  const double eps = a.dtype() == DType::Float32 ? 0x1p-23 : 0x1p-52;
  const double side = static_cast<double>(std::max(a.size(-1), a.size(-2)));
  const Tensor largest = op<"amax">(s, Sizes{-1}, true);
  const auto operand = [&](int i) {
    if (c.arg[i].tag == Tag::Tensor) {
      const Tensor& t = c.tensor(i);
      return t.rank() ? column(t) : t;
    }
    return Tensor(op<"full">(Sizes(), c.arg[i], s.dtype(), s.device()));
  };
  const bool has_atol = c.has(atol), has_rtol = c.has(rtol);
  Tensor limit;
  if (has_rtol)
    limit = largest * operand(rtol);
  else if (!has_atol)
    limit = largest * (eps * side);
  else
    // rtol counts as zero where an absolute limit is above zero.
    limit = largest * op<"where">(fn::gt(operand(atol), 0), op<"full">(Sizes(), 0.0, s.dtype()),
                                  op<"full">(Sizes(), eps * side, s.dtype()));
  return has_atol ? fn::maximum(limit, operand(atol)) : limit;
}

const Op& pinv = add_op(
    {.name = "pinv",
     .args = "self, atol: operand?, rtol: operand?, hermitian: bool = false",
     .doc = "The pseudo-inverse (Moore-Penrose): singular values up to max(atol, rtol * largest) "
            "count as zero.",
     .where = kFunction | kMethod | kLinalg,
     .amp = Amp::F32,
     .saves = "self, out",
     .see = "linalg.inv, linalg.lstsq",
     .rule = "[.., m, n] -> [.., n, m]",
     .example = "torch.linalg.pinv(torch.tensor{{2., 0.}, {0., 0.}}) --> f32 [2, 2]\n"
                " 0.5  0.0\n"
                " 0.0  0.0",
     .aliases = "pinverse",
     .shape =
         [](Call& c) {
           const Tensor& a = c.tensor(0);
           check_matrix("pinv", a);
           c.out.push_back(
               empty(joined(batch_of(a), {a.size(-1), a.size(-2)}), a.dtype(), a.device()));
         },
     .run =
         [](Call& c) {
           const Tensor& a = c.tensor(0);
           if (a.numel() == 0) return;
           const auto parts = ops<"svd">(a, false);
           const Tensor& s = parts[1];
           const Tensor keep = fn::gt(s, cutoff(c, a, s, 1, 2));
           const Tensor inverse = op<"where">(keep, fn::reciprocal(s), op<"zeros_like">(s));
           copy_raw(c.out[0], mm(turned(parts[2]) * row(inverse), turned(parts[0])));
         },
     .grad = [](Backward& b) { b.set(0, pinv_slope(b.in(0), b.out(0), b.g())); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 2})});
           s.add({s.normal({2, 2, 3})});
         }});

const Op& matrix_rank =
    add_op({.name = "matrix_rank",
            .args = "self, atol: operand?, rtol: operand?, hermitian: bool = false",
            .doc = "How many singular values are above max(atol, rtol * largest).",
            .where = kLinalg,
            .differentiable = false,
            .see = "linalg.svdvals",
            .rule = "[.., m, n] -> [..]",
            .example = "torch.linalg.matrix_rank(torch.tensor{{1., 2.}, {2., 4.}}) --> i64 []  1",
            .compose =
                [](Call& c) {
                  NoGrad quiet;
                  const Tensor& a = c.tensor(0);
                  check_matrix("matrix_rank", a);
                  if (std::min(a.size(-1), a.size(-2)) == 0) {
                    c.out.push_back(op<"zeros">(batch_of(a), DType::Int64, a.device()));
                    return;
                  }
                  const Tensor s = op<"svdvals">(a);
                  become<"sum">(c, fn::gt(s, cutoff(c, a, s, 1, 2)), Sizes{-1});
                },
            .samples =
                [](Samples& s) {
                  s.add({s.of({2, 2}, {1, 2, 2, 4})}, false);
                }});

}  // namespace

Tensor pinv_slope(const Tensor& a, const Tensor& p, const Tensor& g) {
  const Tensor pt = turned(p), gt = turned(g);
  const Tensor ap = mm(a, p), pa = mm(p, a);
  return mm(mm(eye_of(a, a.size(-2)) - ap, gt), mm(p, pt)) +
         mm(mm(pt, p), mm(gt, eye_of(a, a.size(-1)) - pa)) - mm(pt, mm(g, pt));
}

}  // namespace tycho
