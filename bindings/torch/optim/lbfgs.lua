-- LBFGS: a quasi-Newton method that keeps a few past steps (Nocedal and Wright, Numerical
-- Optimization, algorithms 7.4 and 3.5), with the stopping rules of PyTorch's.
local torch = torch
local error = torch._raise
local base = require "torch.optim.optimizer"
local at_least = base.at_least

local function gather(params)
  local list = {}
  for i, p in ipairs(params) do list[i] = p.grad and p.grad:reshape(-1):to(p.dtype) or torch.zeros_like(p):reshape(-1) end
  return torch.cat(list)
end

-- p = p + step * direction, part by part.
local function move(params, step, direction)
  local at = 1
  for _, p in ipairs(params) do
    local n = p:numel()
    p:add_(direction:narrow(1, at, n):reshape(p.shape), {alpha = step})
    at = at + n
  end
end

-- The minimum of the cubic through two points with their slopes, inside the bounds.
local function cubic(x1, f1, g1, x2, f2, g2, low, high)
  if not low then
    if x1 <= x2 then low, high = x1, x2 else low, high = x2, x1 end
  end
  local d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
  local square = d1 * d1 - g1 * g2
  if not (square >= 0) then return (low + high) / 2 end
  local d2, at = math.sqrt(square), nil
  if x1 <= x2 then
    at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
  else
    at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
  end
  return math.min(math.max(at, low), high)
end

-- A step length that meets the strong Wolfe conditions. `evaluate(t)` gives loss and gradient there.
-- Returns loss, gradient, length and the number of evaluations.
local function strong_wolfe(evaluate, t, d, f, g, gtd, tolerance)
  local c1, c2, max_ls = 1e-4, 0.9, 25
  local d_norm = d:abs():max():item()
  g = g:clone()
  local f_new, g_new = evaluate(t)
  local evaluations = 1
  local gtd_new = g_new:dot(d):item()
  local t_prev, f_prev, g_prev, gtd_prev = 0, f, g, gtd
  local done, iteration = false, 0
  -- Each end of the bracket: length, loss, gradient, slope.
  local bracket
  while iteration < max_ls do
    if f_new > f + c1 * t * gtd or (iteration > 1 and f_new >= f_prev) then
      bracket = {{t_prev, f_prev, g_prev, gtd_prev}, {t, f_new, g_new:clone(), gtd_new}}
      break
    end
    if math.abs(gtd_new) <= -c2 * gtd then
      bracket, done = {{t, f_new, g_new, gtd_new}}, true
      break
    end
    if gtd_new >= 0 then
      bracket = {{t_prev, f_prev, g_prev, gtd_prev}, {t, f_new, g_new:clone(), gtd_new}}
      break
    end
    local low, high, before = t + 0.01 * (t - t_prev), t * 10, t
    t = cubic(t_prev, f_prev, gtd_prev, t, f_new, gtd_new, low, high)
    t_prev, f_prev, g_prev, gtd_prev = before, f_new, g_new:clone(), gtd_new
    f_new, g_new = evaluate(t)
    evaluations = evaluations + 1
    gtd_new = g_new:dot(d):item()
    iteration = iteration + 1
  end
  if iteration == max_ls then bracket = {{0, f, g, gtd}, {t, f_new, g_new, gtd_new}} end
  -- Zoom: the bracket shrinks until a point meets the conditions.
  local slow = false
  local low, high = 1, 2
  if #bracket == 2 and bracket[1][2] > bracket[2][2] then low, high = 2, 1 end
  while not done and iteration < max_ls do
    local a, b = bracket[1], bracket[2]
    if math.abs(b[1] - a[1]) * d_norm < tolerance then break end
    t = cubic(a[1], a[2], a[4], b[1], b[2], b[4])
    -- A point too near an end twice in a row is moved inside.
    local first, last = math.min(a[1], b[1]), math.max(a[1], b[1])
    local margin = 0.1 * (last - first)
    if math.min(last - t, t - first) < margin then
      if slow or t >= last or t <= first then
        t = math.abs(t - last) < math.abs(t - first) and last - margin or first + margin
        slow = false
      else
        slow = true
      end
    else
      slow = false
    end
    f_new, g_new = evaluate(t)
    evaluations = evaluations + 1
    gtd_new = g_new:dot(d):item()
    iteration = iteration + 1
    if f_new > f + c1 * t * gtd or f_new >= bracket[low][2] then
      bracket[high] = {t, f_new, g_new:clone(), gtd_new}
      low, high = 1, 2
      if bracket[1][2] > bracket[2][2] then low, high = 2, 1 end
    else
      if math.abs(gtd_new) <= -c2 * gtd then
        done = true
      elseif gtd_new * (bracket[high][1] - bracket[low][1]) >= 0 then
        bracket[high] = bracket[low]
      end
      bracket[low] = {t, f_new, g_new:clone(), gtd_new}
    end
  end
  local best = #bracket == 1 and bracket[1] or bracket[low]
  return best[2], best[3], best[1], evaluations
end

-- The direction -H g from the remembered steps and changes of the gradient.
local function two_loops(s, g)
  local n, alpha = #s.old_dirs, {}
  local q = -g
  for i = n, 1, -1 do
    alpha[i] = s.old_stps[i]:dot(q):item() * s.ro[i]
    q:add_(s.old_dirs[i], {alpha = -alpha[i]})
  end
  local d = q * s.H_diag
  for i = 1, n do
    local beta = s.old_dirs[i]:dot(d):item() * s.ro[i]
    d:add_(s.old_stps[i], {alpha = alpha[i] - beta})
  end
  return d
end

local class = base.class("LBFGS", "lr max_iter max_eval tolerance_grad tolerance_change history_size line_search_fn",
  {lr = 1, max_iter = 20, max_eval = false, tolerance_grad = 1e-7, tolerance_change = 1e-9,
  history_size = 100, line_search_fn = false},
  function(g, name)
    for _, key in ipairs {"lr", "max_iter", "tolerance_grad", "tolerance_change", "history_size"} do at_least(g, name, key, 0) end
    if g.max_eval == torch.none then g.max_eval = false end
    if g.line_search_fn == torch.none then g.line_search_fn = false end
    g.max_eval = g.max_eval or g.max_iter * 5 // 4
    if g.line_search_fn and g.line_search_fn ~= "strong_wolfe" then
      error(('%s: line_search_fn is "strong_wolfe" or left out, not %s'):format(name, tostring(g.line_search_fn)), 5, "value")
    end
  end,
  function() end)

---Up to max_iter iterations; the closure clears the gradients, computes the loss, calls backward and returns it.
---@param closure function
function class:_whole_step(closure)
  if type(closure) ~= "function" then
    error("LBFGS: step wants a closure that calls zero_grad and backward and returns the loss: opt:step(function() ... return loss end)", 3)
  end
  if #self.param_groups ~= 1 then error("LBFGS: all parameters share one group", 3, "value") end
  local group = self.param_groups[1]
  local params = group.params
  require("torch.optim.devices").check_one("LBFGS", params)
  local lr = group.lr
  -- The state is kept, as PyTorch does, with the first parameter.
  local s = self.state[params[1]] or {func_evals = 0, n_iter = 0}
  self.state[params[1]] = s
  local function run() return torch.enable_grad(closure) end
  return torch.no_grad(function()
    local first_loss = run()
    if not (torch.is_tensor(first_loss) or type(first_loss) == "number") then
      error("LBFGS: the closure must return the loss", 3)
    end
    local function number(x) return torch.is_tensor(x) and x:item() or x end
    local loss, evaluations = number(first_loss), 1
    s.func_evals = s.func_evals + 1
    local g = gather(params)
    if g:abs():max():item() <= group.tolerance_grad then return first_loss end
    local iterations = 0
    while iterations < group.max_iter do
      iterations = iterations + 1
      s.n_iter = s.n_iter + 1
      if s.n_iter == 1 then
        s.d, s.old_dirs, s.old_stps, s.ro, s.H_diag = -g, {}, {}, {}, 1
      else
        local y, step = g - s.prev_flat_grad, s.d * s.t
        local ys = y:dot(step):item()
        if ys > 1e-10 then
          if #s.old_dirs == group.history_size then
            for _, list in ipairs {s.old_dirs, s.old_stps, s.ro} do table.remove(list, 1) end
          end
          local n = #s.old_dirs + 1
          s.old_dirs[n], s.old_stps[n], s.ro[n] = y, step, 1 / ys
          s.H_diag = ys / y:dot(y):item()
        end
        s.d = two_loops(s, g)
      end
      s.prev_flat_grad, s.prev_loss = g:clone(), loss
      s.t = s.n_iter == 1 and math.min(1, 1 / g:abs():sum():item()) * lr or lr
      local gtd = g:dot(s.d):item()
      if gtd > -group.tolerance_change then break end
      local calls = 0
      if group.line_search_fn then
        local start = {}
        for i, p in ipairs(params) do start[i] = p:clone() end
        local function evaluate(t)
          move(params, t, s.d)
          local f = number(run())
          local at = gather(params)
          for i, p in ipairs(params) do p:copy_(start[i]) end
          return f, at
        end
        loss, g, s.t, calls = strong_wolfe(evaluate, s.t, s.d, loss, g, gtd, group.tolerance_change)
        move(params, s.t, s.d)
      else
        move(params, s.t, s.d)
        if iterations ~= group.max_iter then
          loss = number(run())
          g = gather(params)
          calls = 1
        end
      end
      evaluations, s.func_evals = evaluations + calls, s.func_evals + calls
      if iterations == group.max_iter or evaluations >= group.max_eval
        or g:abs():max():item() <= group.tolerance_grad
        or (s.d * s.t):abs():max():item() <= group.tolerance_change
        or math.abs(loss - s.prev_loss) < group.tolerance_change then
        break
      end
    end
    return first_loss
  end)
end

return base.optim
