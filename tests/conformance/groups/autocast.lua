-- The group `autocast`: which dtype each op computes in under autocast on the CPU.
local data = require "data"
local reader = require "reader"
local torch = torch
local F = torch.nn.functional
local group = {}

local function t(dtype, ...) return torch.rand({...}):to(torch[dtype]) end

-- How each observed op is called, for an input dtype.
local calls = {
  add = function(d) return t(d, 3) + t(d, 3) end,
  add_with_float32 = function(d) return t(d, 3) + t("float32", 3) end,
  addmm = function(d) return torch.addmm(t(d, 2, 2), t(d, 2, 2), t(d, 2, 2)) end,
  argmax = function(d) return t(d, 3):argmax() end,
  atan2 = function(d) return t(d, 3):atan2(t(d, 3)) end,
  bmm = function(d) return t(d, 2, 2, 2):bmm(t(d, 2, 2, 2)) end,
  cat_with_float32 = function(d) return torch.cat({t(d, 3), t("float32", 3)}) end,
  cumsum = function(d) return t(d, 3):cumsum(1) end,
  div = function(d) return t(d, 3) / t(d, 3) end,
  dot = function(d) return t(d, 3):dot(t(d, 3)) end,
  dropout = function(d) return F.dropout(t(d, 3), 0.5) end,
  einsum = function(d) return torch.einsum("ij,jk->ik", t(d, 2, 2), t(d, 2, 2)) end,
  exp = function(d) return t(d, 3):exp() end,
  ["linalg.inv"] = function(d) return torch.linalg.inv(torch.eye(3):to(torch[d])) end,
  log_softmax = function(d) return t(d, 2, 3):log_softmax(2) end,
  matmul = function(d) return t(d, 2, 2):matmul(t(d, 2, 2)) end,
  matmul_float64 = function() return t("float64", 2, 2):matmul(t("float64", 2, 2)) end,
  mean = function(d) return t(d, 3):mean() end,
  mm = function(d) return t(d, 2, 2):mm(t(d, 2, 2)) end,
  mul = function(d) return t(d, 3) * t(d, 3) end,
  mv = function(d) return t(d, 2, 2):mv(t(d, 2)) end,
  ["nn.functional.avg_pool2d"] = function(d) return F.avg_pool2d(t(d, 1, 1, 4, 4), 2) end,
  ["nn.functional.batch_norm"] = function(d) return F.batch_norm(t(d, 2, 3, 4), t("float32", 3), t("float32", 3)) end,
  ["nn.functional.binary_cross_entropy_with_logits"] = function(d) return F.binary_cross_entropy_with_logits(t(d, 3), t(d, 3)) end,
  ["nn.functional.conv1d"] = function(d) return F.conv1d(t(d, 2, 5, 5), t(d, 3, 2, 3)) end,
  ["nn.functional.conv2d"] = function(d) return F.conv2d(t(d, 1, 1, 4, 4), t(d, 1, 1, 2, 2)) end,
  ["nn.functional.cross_entropy"] = function(d) return F.cross_entropy(t(d, 2, 3), torch.tensor({1, 2})) end,
  ["nn.functional.embedding"] = function(d) return F.embedding(torch.tensor({1, 2}), t(d, 3, 2)) end,
  ["nn.functional.gelu"] = function(d) return F.gelu(t(d, 3)) end,
  ["nn.functional.interpolate"] = function(d) return F.interpolate(t(d, 1, 1, 2, 2), {scale_factor = 2}) end,
  ["nn.functional.layer_norm"] = function(d) return F.layer_norm(t(d, 2, 3), {3}) end,
  ["nn.functional.linear"] = function(d) return F.linear(t(d, 2, 3), t(d, 2, 3)) end,
  ["nn.functional.max_pool2d"] = function(d) return F.max_pool2d(t(d, 1, 1, 4, 4), 2) end,
  ["nn.functional.mse_loss"] = function(d) return F.mse_loss(t(d, 3), t(d, 3)) end,
  ["nn.functional.nll_loss"] = function(d) return F.nll_loss(t(d, 2, 3), torch.tensor({1, 2})) end,
  ["nn.functional.prelu"] = function(d) return F.prelu(t(d, 3), t(d, 1)) end,
  ["nn.functional.rms_norm"] = function(d) return F.rms_norm(t(d, 2, 3), {3}) end,
  ["nn.functional.scaled_dot_product_attention"] = function(d) return F.scaled_dot_product_attention(t(d, 1, 2, 2), t(d, 1, 2, 2), t(d, 1, 2, 2)) end,
  norm = function(d) return t(d, 3):norm() end,
  pow = function(d) return t(d, 3) ^ 2 end,
  prod = function(d) return t(d, 3):prod() end,
  relu = function(d) return t(d, 3):relu() end,
  softmax = function(d) return t(d, 3):softmax(1) end,
  sqrt = function(d) return t(d, 3):sqrt() end,
  stack_with_float32 = function(d) return torch.stack({t(d, 3), t("float32", 3)}) end,
  sum = function(d) return t(d, 3):sum() end,
  var = function(d) return t(d, 3):var() end,
}

function group.run(folder, _, report)
  local rows = reader.read_json(folder .. "/semantics/autocast.json")
  for i, r in ipairs(rows.observed) do
    data.row(report, ("autocast:%s:%s:%s:%d"):format(r[1], r[2], r[3], i), function()
      local call = calls[r[1]] or error("missing " .. r[1], 0)
      local ok, out = pcall(torch.autocast, "cpu", {dtype = r[2]}, function() return call(r[3]) end)
      if type(r[4]) == "table" then return ok and "must fail: " .. r[4].error or nil end
      if not ok then error(out, 0) end
      if out.dtype.name ~= r[4] then return ("%s of %s gives %s, expected %s"):format(r[1], r[3], out.dtype.name, r[4]) end
    end)
  end
end

return group
