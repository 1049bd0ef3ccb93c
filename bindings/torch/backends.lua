-- torch.backends: which libraries there are, and how exact, how fast and how repeatable what they compute is to be.
-- What has no meaning here may be written too, and changes nothing.
local torch = torch
local error = torch._raise

-- A table whose fields of these names are functions: called with nothing to read, with a value of the same type to write.
local function switches(where, fields, rest)
  return setmetatable(rest, {
    __index = function(_, k) return fields[k] and fields[k]() end,
    __newindex = function(t, k, v)
      if not fields[k] then return rawset(t, k, v) end
      if type(v) ~= type(fields[k]()) then
        local wanted = type(fields[k]()) == "boolean" and "true or false" or "a number"
        error(("torch.backends.%s.%s: wants %s, not %s"):format(where, k, wanted, tostring(v)), 2, "value")
      end
      fields[k](v)
    end,
  })
end

-- allow_tf32 is the short form of set_float32_matmul_precision: true for "high", false for "highest".
local function matmul_tf32(yes)
  if yes == nil then return torch.get_float32_matmul_precision() ~= "highest" end
  torch.set_float32_matmul_precision(yes and "high" or "highest")
end

local function convolutions(name)
  return function(yes) return torch.cuda._convolutions(name, yes) end
end
-- Convolutions repeat their bits when one of the two asks for it.
local by_cudnn, by_all = false, false
local function deterministic(yes)
  if yes == nil then return by_cudnn end
  by_cudnn = yes
  torch.cuda._convolutions("deterministic", by_cudnn or by_all)
end

---Whether everything is to give the same bits every time. It does so anyway, but for some of cuDNN's convolutions, which are
---left out then.
---@param mode boolean
---@param options? {warn_only?: boolean} PyTorch's; nothing is left to warn of
function torch.use_deterministic_algorithms(mode, options)
  if type(mode) ~= "boolean" then error("use_deterministic_algorithms: wants true or false, not " .. tostring(mode), 2, "value") end
  by_all = mode
  torch.cuda._convolutions("deterministic", by_cudnn or by_all)
end
---What use_deterministic_algorithms said; false at first.
function torch.are_deterministic_algorithms_enabled() return by_all end

local cudnn_settings = {
  enabled = convolutions "enabled", benchmark = convolutions "benchmark", benchmark_limit = convolutions "benchmark_limit",
  deterministic = deterministic, allow_tf32 = convolutions "allow_tf32",
}
-- What cudnn.flags sets where it is not told, as in PyTorch.
local in_flags = {enabled = false, benchmark = false, benchmark_limit = 10, deterministic = false, allow_tf32 = true}

---Sets the fields of torch.backends.cudnn that are given; says what all were before.
---@param settings table enabled, benchmark, benchmark_limit, deterministic, allow_tf32
---@return table before
local function set_flags(settings)
  local before = {}
  for name, field in pairs(cudnn_settings) do before[name] = field() end
  for name, value in pairs(settings) do
    if before[name] == nil then error("torch.backends.cudnn has no field " .. tostring(name), 3, "argument") end
    if type(value) ~= type(before[name]) then
      error(("torch.backends.cudnn: %s is a %s, not a %s"):format(name, type(before[name]), type(value)), 3, "value")
    end
  end
  for name, value in pairs(settings) do torch.backends.cudnn[name] = value end
  return before
end

---The fields of torch.backends.cudnn inside f or until the scope's block ends: `local _ <close> = flags{enabled = true}`.
---What is not given is as PyTorch has it there: not enabled, no benchmark, a limit of 10, not deterministic, allow_tf32.
---@param settings? table
---@param f? function
local function flags(settings, f)
  if type(settings) == "function" then settings, f = nil, settings end
  local wanted = {}
  for name, value in pairs(in_flags) do wanted[name] = value end
  for name, value in pairs(settings or {}) do wanted[name] = value end
  local before = set_flags(wanted)
  return torch._scope(function() set_flags(before) end, f, "torch.backends.cudnn.flags")
end

-- What is asked is answered by what is there. Simulated devices are of kind "cuda" too, and no library is behind them.
torch.backends = {
  cudnn = switches("cudnn", cudnn_settings, {
    flags = flags, set_flags = set_flags,
    is_available = function() return torch.cuda._cudnn_version() ~= nil end,
    version = function() return torch.cuda._cudnn_version() end,
  }),
  cuda = {matmul = switches("cuda.matmul", {allow_tf32 = matmul_tf32}, {}), is_built = function() return torch.cuda.is_available() end},
  mps = {is_available = function() return false end, is_built = function() return false end},
  mkldnn = {enabled = true, is_available = function() return true end},
}
