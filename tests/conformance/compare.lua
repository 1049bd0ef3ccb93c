-- Comparing a result with the stored one: shape, dtype, then values with |x - y| <= atol + rtol |y|, nan equal to
-- nan; integers and booleans exactly. Decompositions that are defined up to signs are checked by their identity.
local values = require "values"
local torch = torch
local compare = {}

-- Default tolerances by dtype name; the manifest's, set by the reader.
compare.tolerance = {}

local function shape_text(x) return tostring(x.shape) end

-- The first element that differs, as text.
local function first_difference(got, want, atol, rtol)
  local g, w = got:double():reshape(-1), want:double():reshape(-1)
  local bad = torch.isclose(g, w, {rtol = rtol, atol = atol, equal_nan = true}):logical_not()
  local at = bad:nonzero()
  local i = at[{1, 1}]:item()
  local text = ("%d of %d elements differ; element %d is %.10g, expected %.10g (atol %g, rtol %g)"):format(
    bad:sum():item(), g:numel(), i, g[i]:item(), w[i]:item(), atol, rtol)
  return text
end

---nil when `got` equals `want`, else what differs. `options`: atol, dtype = false (do not compare it).
function compare.tensors(got, want, options)
  options = options or {}
  if not values.is_tensor(got) then return ("expected a tensor, got %s"):format(type(got)) end
  if got.shape ~= want.shape then return ("shape %s, expected %s"):format(shape_text(got), shape_text(want)) end
  if options.dtype ~= false and got.dtype ~= want.dtype then
    return ("dtype %s, expected %s"):format(tostring(got.dtype), tostring(want.dtype))
  end
  -- (What is made of plain numbers stays on the CPU.)
  if got.ndim > 0 and got.device ~= want.device then return ("on %s, expected on %s"):format(tostring(got.device), tostring(want.device)) end
  if got:numel() == 0 then return nil end
  if not values.is_floating(want) and not values.is_floating(got) then
    if torch.equal(got, want:to(got.dtype)) then return nil end
    return first_difference(got, want, 0, 0)
  end
  local tolerance = compare.tolerance[want.dtype.name] or {atol = 1e-5, rtol = 1.3e-6}
  local atol, rtol = math.max(options.atol or 0, tolerance.atol), tolerance.rtol
  if torch.allclose(got:double(), want:double(), {rtol = rtol, atol = atol, equal_nan = true}) then return nil end
  return first_difference(got, want, atol, rtol)
end

---Numbers, booleans, texts, lists and tensors.
function compare.values(got, want, options)
  if values.is_tensor(want) then
    if not values.is_tensor(got) and want.ndim == 0 and type(got) == "number" then got = torch.tensor(got, {dtype = want.dtype}) end
    return compare.tensors(got, want, options)
  end
  if type(want) == "table" then
    if type(got) ~= "table" and not (type(got) == "userdata" and not values.is_tensor(got)) then
      return ("expected a list, got %s"):format(type(got))
    end
    if #got ~= #want then return ("%d values, expected %d"):format(#got, #want) end
    for i = 1, #want do
      local why = compare.values(got[i], want[i], options)
      if why then return ("item %d: %s"):format(i, why) end
    end
    return nil
  end
  if values.is_tensor(got) and got.ndim == 0 then got = got:item() end
  if type(want) == "number" and type(got) == "number" then
    if want ~= want and got ~= got then return nil end
    if math.type(want) == "float" then
      local t = compare.tolerance.float64 or {atol = 1e-7, rtol = 1e-7}
      local atol = math.max(options and options.atol or 0, t.atol)
      if got == want or math.abs(got - want) <= atol + t.rtol * math.abs(want) then return nil end
    elseif got == want then
      return nil
    end
  elseif got == want or (got == torch.none and want == nil) then
    return nil
  end
  return ("%s, expected %s"):format(tostring(got), tostring(want))
end

local function near(a, b, what)
  local scale = math.max(1, b:numel() > 0 and b:abs():max():item() or 1)
  local worst = a:numel() > 0 and (a - b):abs():max():item() or 0
  if worst <= (a.dtype == torch.float64 and 1e-8 or 1e-4) * scale then return nil end
  return ("%s is off by %g"):format(what, worst)
end

local function eye_like(x) return torch.eye(x.shape[#x.shape], {dtype = x.dtype}):expand(x.shape) end

-- Identities by the name in an op's header: f(results, first argument, stored results) -> nil or what is wrong.
compare.identities = {
  qr = function(out, a)
    local q, r = out[1], out[2]
    if q:numel() == 0 then return r.shape and nil end
    return near(q:matmul(r), a, "Q R - A") or near(q.mT:matmul(q), eye_like(q.mT:matmul(q)), "Q^T Q - I")
  end,
  eigh = function(out, a, want)
    local w, v = out[1], out[2]
    local symmetric = a:tril() + a:tril(-1).mT
    if torch.allclose(a:triu(), symmetric:triu()) == false and not torch.allclose(w, want[1], {rtol = 1e-4, atol = 1e-4}) then
      return compare.tensors(w, want[1])
    end
    return compare.tensors(w, want[1], {atol = 1e-5})
      or near(v.mT:matmul(v), eye_like(v), "V^T V - I")
  end,
  svd = function(out, a, want)
    local u, s, vh = out[1], out[2], out[3]
    local k = s.shape[#s.shape]
    local why = compare.tensors(s, want[2], {atol = 1e-5})
    if why then return why end
    local u_k, vh_k = u:narrow(-1, 1, k), vh:narrow(-2, 1, k)
    return near((u_k * s:unsqueeze(-2)):matmul(vh_k), a, "U S V^T - A")
      or near(u.mT:matmul(u), eye_like(u.mT:matmul(u)), "U^T U - I")
  end,
}

return compare
