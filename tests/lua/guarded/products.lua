-- Random products of matrices and vectors: thin ones, batches, broadcasts, turned and strided factors, every type.
-- Part of guarded.lua.
local guarded = ...
local F = torch.nn.functional

local types = {"float32", "float32", "bfloat16", "bfloat16", "float16", "float64", "int64", "int32"}

local function list_text(list) return "{" .. table.concat(list, ",") .. "}" end

-- Rows, columns and depth: one of them is often thin, and the work stays below some ten million multiply-adds.
local function matrix_sizes(draw)
  local s = {}
  for i = 1, 3 do
    s[i] = draw:pick {draw:size(300), draw:size(300), draw:int(1, 3), draw:pick {16, 31, 32, 33, 48, 64, 65, 96, 127, 128, 129, 256}, draw:size(2000)}
  end
  while s[1] * s[2] * s[3] > 8e6 do
    local largest = 1
    for i = 2, 3 do if s[i] > s[largest] then largest = i end end
    s[largest] = s[largest] // 2
  end
  return s[1], s[2], s[3]
end

guarded.add("random products and their gradients agree with float64", 16, function(draw)
  local m, n, k = matrix_sizes(draw)
  local dtype = draw:pick(types)
  local kind = draw:pick {"matmul", "matmul", "mm", "linear", "linear", "addmm", "mv", "vm", "dot", "bmm", "bmm", "baddbmm", "broadcast", "einsum"}
  local batch = draw:int(1, 5)
  if m * n * k * batch > 8e6 then batch = 1 end
  local whole = dtype:find("int") ~= nil
  local shapes, f
  if kind == "matmul" or kind == "mm" then
    shapes, f = {{m, k}, {k, n}}, torch[kind]
  elseif kind == "linear" then
    shapes, f = {{batch, m, k}, {n, k}, draw:chance(2) and {n} or nil}, F.linear
  elseif kind == "addmm" then
    shapes, f = {draw:pick {{m, n}, {n}, {1, n}, {m, 1}}, {m, k}, {k, n}}, function(c, a, b) return torch.addmm(c, a, b, whole and {beta = 2} or {beta = 0.5, alpha = -1.5}) end
  elseif kind == "mv" then
    shapes, f = {{m, k}, {k}}, torch.mv
  elseif kind == "vm" then
    shapes, f = {{k}, {k, n}}, torch.matmul
  elseif kind == "dot" then
    shapes, f = {{k}, {k}}, torch.dot
  elseif kind == "bmm" then
    shapes, f = {{batch, m, k}, {batch, k, n}}, torch.bmm
  elseif kind == "baddbmm" then
    shapes, f = {{batch, m, n}, {batch, m, k}, {batch, k, n}}, torch.baddbmm
  elseif kind == "broadcast" then
    shapes, f = draw:pick {{{batch, 1, m, k}, {2, k, n}}, {{batch, m, k}, {k, n}}, {{m, k}, {batch, k, n}}, {{batch, m, k}, {k}}}, torch.matmul
  else
    shapes, f = {{batch, k, m}, {n, k, batch}}, function(a, b) return torch.einsum("bkm,nkb->bmn", a, b) end
  end
  local text = {}
  for i, s in ipairs(shapes) do text[i] = list_text(s) end
  return ("%s %s %s"):format(kind, dtype, table.concat(text, " x ")), function()
    local inputs = {}
    for i, s in ipairs(shapes) do inputs[i] = draw:values(s, dtype) end
    -- A sum of k products may cancel; its rounding is that of numbers of size sqrt(k).
    guarded.compare(draw, f, inputs, dtype, not whole, math.sqrt(k) / 3)
  end
end)

guarded.add("random factorisations and solutions agree with float64", 3, function(draw)
  local n, batch, dtype = draw:size(60), draw:int(1, 3), draw:pick {"float32", "float64"}
  local columns = draw:int(1, 5)
  local kind = draw:pick {"solve", "inv", "cholesky", "qr", "svdvals", "eigvalsh", "slogdet", "pinv", "lstsq"}
  return ("%s %s {%d,%d,%d}"):format(kind, dtype, batch, n, n), function()
    -- Well conditioned, so that float32 says something.
    local a = draw:values({batch, n, n}, dtype) / (2 * math.sqrt(n)) + 2 * torch.eye(n, {dtype = dtype})
    local inputs = {a}
    local f
    if kind == "solve" then
      inputs[2] = draw:values({batch, n, columns}, dtype)
      f = torch.linalg.solve
    elseif kind == "cholesky" then
      f = function(x) return torch.linalg.cholesky(x:matmul(x:transpose(2, 3))) end
    elseif kind == "qr" then  -- signs are the library's choice
      f = function(x)
        local q, r = torch.linalg.qr(x)
        return q:matmul(r)
      end
    elseif kind == "eigvalsh" then
      f = function(x) return torch.linalg.eigvalsh(x + x:transpose(2, 3)) end
    elseif kind == "slogdet" then
      f = function(x)
        local _, log = torch.linalg.slogdet(x)
        return log
      end
    elseif kind == "lstsq" then
      inputs[2] = draw:values({batch, n, columns}, dtype)
      f = function(x, b) return (torch.linalg.lstsq(x, b)) end
    else
      f = torch.linalg[kind]
    end
    guarded.compare(draw, f, inputs, dtype == "float64" and "float64" or "float32", false, 10)
  end
end)
